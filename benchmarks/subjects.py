"""What is timed: our call and its peers', on several sets of random operands that do not fit the cache."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import mxgemm as mx
from benchmarks.operands import epilogue_of
from benchmarks.timing import Call
from mxgemm.report.cases import Case

ENOUGH = 160 << 20  # bytes of all sets together
MOST_SETS = 8


@dataclass
class Subject:
    """One case with device operands.

    Attributes
    ----------
    sets : list of dict
        By the names that kernels know arrays by.
    workspace : torch.Tensor or None
        For operands that are packed, so that the call can be captured.
    """

    case: Case
    sets: list[dict[str, Any]]
    workspace: Any = None

    def ours(self, number: int) -> object:
        return mx.gemm(**self._arguments(number))

    def _arguments(self, number: int) -> dict[str, Any]:
        p, x = self.case.product, self.sets[number]
        epilogue = {"epilogue": epilogue_of(p, x)} if p.bias or p.activation != "identity" else {}
        scalars = {"alpha": p.alpha, "beta": p.beta} if (p.alpha, p.beta) != (1, 0) else {}
        arrays = {"a": x["a"], "b": x["b"], "c": x.get("c"), "out": x["d"]}
        memory = {"workspace": self.workspace} if self.workspace is not None else {}
        return {**arrays, **scalars, **epilogue, **memory, "precision": p.precision}

    def plan(self) -> mx.Plan:
        """What runs."""
        return mx.explain(**self._arguments(0))

    def torch_peer(self) -> Call | None:
        """The vendor's library through torch; None where torch does not offer the product."""
        call = _PEERS.get(self.case.product.dtype_a, _mm)(self)
        try:
            call(0)
            torch.cuda.synchronize()
        except RuntimeError:  # shapes that the library does not take
            return None
        return call


def _mm(subject: Subject) -> Call:
    torch.backends.cuda.matmul.allow_tf32 = subject.case.product.precision == "tf32"
    return lambda i: torch.mm(subject.sets[i]["a"], subject.sets[i]["b"], out=subject.sets[i]["d"])


def _int_mm(subject: Subject) -> Call:
    return lambda i: torch._int_mm(subject.sets[i]["a"], subject.sets[i]["b"])


def _scaled_mm(subject: Subject) -> Call:
    """With fast accumulation, and our type of result."""
    one = torch.ones((), device="cuda")
    kind = getattr(torch, subject.case.product.result_dtype)
    return lambda i: torch._scaled_mm(
        subject.sets[i]["a"], subject.sets[i]["b"], one, one, out_dtype=kind, use_fast_accum=True
    )


_PEERS: dict[str, Callable[[Subject], Call]] = {"int8": _int_mm, "float8_e4m3fn": _scaled_mm}


def cupy_peer(subject: Subject) -> Call | None:
    """The vendor's library through CuPy, for element types that it has."""
    if subject.case.product.dtype_a not in ("float16", "float32", "float64"):
        return None
    import cupy

    views = [{name: cupy.asarray(x) for name, x in one.items()} for one in subject.sets]

    def call(number: int) -> object:
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            x = views[number]
            return cupy.matmul(x["a"], x["b"], out=x["d"])

    return call


def _random(dtype: str, shape: tuple[int, ...], order: str) -> Any:
    kind = getattr(torch, dtype)
    rows, cols = shape if order == "row" else shape[::-1]
    if "int" in dtype:
        x = torch.randint(-128, 127, (rows, cols), device="cuda", dtype=kind)
    elif dtype == "float64":
        x = torch.randn((rows, cols), device="cuda", dtype=kind)
    else:
        x = torch.randn((rows, cols), device="cuda", dtype=torch.float32).to(kind)
    return x if order == "row" else x.t()


def subject_of(case: Case) -> Subject:
    """Random operands for a case, in as many sets as it takes to leave the cache."""
    p, layout = case.product, case.layout
    extents = {name: (dtype, shape) for name, (dtype, shape) in p.shapes.items()}
    sizes = {dtype: getattr(torch, dtype).itemsize for dtype, _ in extents.values()}
    one = sum(sizes[dtype] * math.prod(shape) for dtype, shape in extents.values())
    count = min(MOST_SETS, max(2, -(-ENOUGH // one)))

    def made() -> dict[str, Any]:
        found = {}
        for name, (dtype, shape) in extents.items():
            if name == "d":
                found[name] = torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")
            elif len(shape) == 1:
                found[name] = _random(dtype, (1, *shape), "row")[0]
            else:
                found[name] = _random(dtype, shape, layout.order_of(name))
        return found

    subject = Subject(case, [made() for _ in range(count)])
    needed = subject.plan().workspace_bytes
    if needed:
        subject.workspace = torch.empty(needed, dtype=torch.uint8, device="cuda")
    return subject
