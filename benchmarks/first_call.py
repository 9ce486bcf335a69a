"""Milliseconds of the first calls of this process, as one JSON object; :mod:`benchmarks.first_calls` runs it.

``python -m benchmarks.first_call`` times the first product of the process, whatever it is, and then the
first one of each configuration.  ``python -m benchmarks.first_call float16 native 1024`` times one product,
which is the first of the process.  MXGEMM_CACHE_DIR names an empty folder (cold) or a filled one.

``import mxgemm`` is timed by itself, after CuPy's own import; it brings what every product needs.  The first
product of a process imports the kernel family that computes it.  That is part of its time, and told apart
beside it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from importlib import import_module

import cupy

SIZE = 1024
CONFIGURATIONS = (
    ("float16", "native"), ("float32", "tf32"), ("float32", "f16"), ("float32", "bf16"),
    ("float64", "native"), ("float32", "f64"), ("int8", "exact"), ("float32", "scalar"),
    ("float64", "scalar"), ("int32", "scalar"),
)  # fmt: skip
# Of the kernel family, which the first product that it computes loads.
_HOPPER = ("selection", "orientation")
FAMILIES = {
    "native": tuple(f"mxgemm.kernels.hopper.{name}" for name in _HOPPER),
    "exact": tuple(f"mxgemm.kernels.hopper.{name}" for name in (*_HOPPER, "arrange")),
    "scalar": ("mxgemm.kernels.scalar",),
}


def import_of(names: Iterable[str]) -> float:
    begin = time.perf_counter()
    for name in names:
        import_module(name)
    return 1e3 * (time.perf_counter() - begin)


def grant_everything() -> None:
    import mxgemm as mx
    from mxgemm.configs import rounding_precisions

    mx.accept_relaxed_accumulation(reason="a benchmark that times every configuration")
    for precision in rounding_precisions():
        mx.accept_operand_rounding(precision, reason="a benchmark that times every configuration")


def first(dtype: str, precision: str, size: int) -> float:
    import mxgemm as mx

    a, b = (cupy.random.randint(-4, 5, (size, size)).astype(dtype) for _ in "ab")
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter()
    mx.gemm(a, b, precision=precision)
    cupy.cuda.Device().synchronize()
    return 1e3 * (time.perf_counter() - begin)


def first_of_process(dtype: str, precision: str, size: int) -> dict[str, float]:
    """The time of the first product, which finds the driver and, cold, loads NVRTC; and of the imports."""
    what = f"first of the process ({dtype} {precision})"
    before = import_of(["mxgemm"])
    grant_everything()
    inside = import_of(FAMILIES[precision])
    return {
        f"import mxgemm, before the {what}": before,
        f"modules, in the {what}": inside,
        what: inside + first(dtype, precision, size),
    }


def main(arguments: list[str]) -> None:
    if arguments:
        dtype, precision, size = arguments
        times = first_of_process(dtype, precision, int(size))
    else:
        times = first_of_process("int16", "scalar", 16)
        times |= {
            f"{dtype}/{precision}": first(dtype, precision, SIZE) for dtype, precision in CONFIGURATIONS
        }
    print(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1:])
