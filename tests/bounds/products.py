"""Products for the tests of bounds and verification: posed, run on the unit model, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mxgemm import bounds, units, verify
from mxgemm.bounds.tiles import Operands
from mxgemm.configs import Configuration, configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand

Array = np.ndarray[Any, Any]


def dtype(name: str) -> np.dtype[Any]:
    return np.dtype(
        getattr(ml_dtypes, name) if name[:2] in ("bf", "fl") and hasattr(ml_dtypes, name) else name
    )


def typed(values: Any, name: str) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype(name))


def _described(x: Array | None) -> Operand | None:
    return None if x is None else Operand(x.dtype.name, x.shape, tuple(s // x.itemsize for s in x.strides))


@dataclass(frozen=True)
class Product:
    """One product with everything that it takes to run and to check it."""

    problem: GemmProblem
    configuration: Configuration
    arch: str
    operands: Operands

    def run(self, configuration: Configuration | None = None) -> Array:
        """What the unit model answers, in this configuration or in a mutant of it."""
        given = self.operands
        return units.run(
            self.problem, configuration or self.configuration, self.arch, given.a, given.b, given.c,
            bias=given.bias, scale_rows=given.scale_rows, scale_cols=given.scale_cols,
        ).array  # fmt: skip

    def check(self, result: Array) -> verify.CheckResult:
        return verify.check_result(result, self.problem, self.configuration, self.arch, self.operands)

    def bound(self) -> Array:
        given = self.operands
        return bounds.entrywise(
            self.problem, self.configuration, self.arch, given.a, given.b, given.c,
            bias=given.bias, scale_rows=given.scale_rows, scale_cols=given.scale_cols,
        )  # fmt: skip


def product(
    precision: str,
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    arch: str = "sm_90",
    activation: str = "identity",
    limits: tuple[float, float] = (0, 0),
    bias: Array | None = None,
    scale_rows: Array | None = None,
    scale_cols: Array | None = None,
    **more: Any,
) -> Product:
    """Pose a product; ``more`` is alpha, beta, out_dtype."""
    spec = EpilogueSpec(
        activation, *limits, bias is not None, scale_rows is not None, scale_cols is not None,  # type: ignore[arg-type]
    )  # fmt: skip
    left, right = _described(a), _described(b)
    assert left is not None
    assert right is not None
    problem, _ = pose(
        left, right, _described(c), bias=_described(bias), scale_rows=_described(scale_rows),
        scale_cols=_described(scale_cols), epilogue=spec, **more,
    )  # fmt: skip
    full = (*problem.batch, problem.m, problem.n)
    like_d = (None if x is None else np.broadcast_to(x, full) for x in (c, bias, scale_rows, scale_cols))
    operands = Operands(
        np.broadcast_to(a, (*problem.batch, problem.m, problem.k)),
        np.broadcast_to(b, (*problem.batch, problem.k, problem.n)),
        *like_d,
    )
    return Product(problem, configuration(a.dtype.name, b.dtype.name, precision), arch, operands)


def normal(shape: tuple[int, ...], name: str, seed: int = 0) -> Array:
    return typed(np.random.default_rng(seed).standard_normal(shape), name)
