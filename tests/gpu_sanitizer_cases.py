"""Small products through every kernel family, for compute-sanitizer: ``python tests/gpu_sanitizer_cases.py``.

Each array is an allocation of its own without a spare byte, so that memcheck sees an access just past it,
and every element of an input is written first, so that initcheck sees a read of anything else.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cupy
import numpy as np

import mxgemm as mx
from mxgemm import device
from mxgemm.array import ArrayView
from mxgemm.configs import rounding_precisions
from mxgemm.epilogue import EpilogueSpec
from mxgemm.errors import UnsupportedError
from mxgemm.report.cases import CLAMP, Case, Layout, Product, strides_of
from mxgemm.report.equality import differing, tolerance
from mxgemm.report.kernels import EPILOGUES, products_of
from mxgemm.units.formats import numpy_dtype
from tests.generators import generate

LAYOUTS = (Layout(), Layout("column", "column", padding=1, offset=1), Layout("steps", "reversed"))
MAIN = ("a", "b", "c", "d")


def cases(arch: str) -> Iterator[Case]:
    for plain in products_of(arch):
        integer = plain.configuration.is_integer
        c = {"c_dtype": plain.result_dtype, "alpha": 2, "beta": -1}
        odd = replace(plain, m=33, n=20, k=2 * plain.k + 17)
        yield from (Case(odd, layout) for layout in LAYOUTS)
        yield Case(replace(plain, m=130, n=136), Layout("column", "row"))
        yield Case(replace(odd, **c, **EPILOGUES["clamp+bias" if integer else "silu"]))  # type: ignore[arg-type]
        yield Case(replace(plain, m=16, n=24, batch=(2, 3), **c), Layout(padding=8))
        if plain.configuration.part and not integer:
            for parts in (2, 3):  # one after the other, and in the blocks of a cluster
                yield Case(replace(plain, m=17, n=24, k=(parts - 1) * plain.configuration.part + plain.k))


def place(case: Case, name: str, values: np.ndarray | None) -> tuple[ArrayView, Any, np.ndarray, int]:
    """The view, its memory, the uploaded bytes and the byte at which the first element lies."""
    dtype, shape = case.product.shapes[name]
    main, kind = name in MAIN, numpy_dtype(dtype)
    strides = strides_of(shape, case.layout.order_of(name), case.layout.padding if main else 0)
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    offset = case.layout.offset if main else 0
    raw = np.full((high - low + 1 + offset) * kind.itemsize, 0xFF, np.uint8)
    first = (offset - low) * kind.itemsize
    if values is not None:
        np.ndarray(shape, kind, raw, first, tuple(s * kind.itemsize for s in strides))[...] = values
    memory = cupy.asarray(raw)
    view = ArrayView("other", "cuda", 0, memory.data.ptr + first, shape, strides, dtype, memory)
    return view, memory, raw, first


def epilogue_of(p: Product, arrays: dict[str, Any]) -> mx.epilogue.Epilogue | None:
    if p.epilogue == EpilogueSpec():
        return None
    bounds = CLAMP if p.activation == "clamp" else ()
    return getattr(mx.epilogue, p.activation)(*bounds, bias=arrays["bias"])


def values_of(p: Product) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(p.m + p.k), {}
    for name, (dtype, shape) in p.shapes.items():
        if name != "d":
            kind = "normal" if "float" in dtype else "bits"
            found[name] = generate(kind, rng, shape, dtype, is_a=name == "a")
    return found


def is_right(case: Case) -> bool:
    """Run one case twice and compare with the CPU run."""
    p = case.product
    values = values_of(p)
    options: dict[str, Any] = {"alpha": p.alpha, "beta": p.beta, "precision": p.precision}
    expected = mx.gemm(
        values["a"], values["b"], values.get("c"), device="cpu", out_dtype=p.result_dtype,
        epilogue=epilogue_of(p, values), **options,
    )  # fmt: skip
    placed = {name: place(case, name, values.get(name)) for name in p.shapes}
    views = {name: one[0] for name, one in placed.items()}
    for _ in range(2):
        mx.gemm(
            views["a"], views["b"], views.get("c"), out=views["d"], epilogue=epilogue_of(p, views), **options
        )
    cupy.cuda.Device().synchronize()
    view, memory, raw, first = placed["d"]
    back = cupy.asnumpy(memory)
    steps = tuple(s * expected.itemsize for s in view.strides)
    found = np.ndarray(view.shape, expected.dtype, back, first, steps)
    untouched = raw.copy()
    np.ndarray(view.shape, expected.dtype, untouched, first, steps)[...] = found
    allowed = tolerance(p.activation, p.configuration.accumulator, p.result_dtype)
    bad = differing(np.ascontiguousarray(found), np.ascontiguousarray(expected), allowed)
    return not bad.any() and np.array_equal(untouched, back)


def main() -> int:
    warnings.simplefilter("ignore")
    cupy.cuda.set_allocator(None)  # no pool: every array is an allocation of the driver's own
    mx.accept_relaxed_accumulation(reason="compared with the CPU run")
    for precision in rounding_precisions():
        mx.accept_operand_rounding(precision, reason="compared with the CPU run")
    arch = device.capabilities(0).arch
    words = sys.argv[1:]
    wrong = count = 0
    for case in cases(arch):
        if words and not any(word in str(case) for word in words):
            continue
        try:
            case.lowering(arch)
        except UnsupportedError:
            continue
        count += 1
        if not is_right(case):
            wrong += 1
            print("WRONG", case, flush=True)
    print(f"{count} cases, {wrong} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
