"""A whole problem on the CPU model: batches, product, epilogue, conversion to the result's type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem
from mxgemm.units.convert import operand_overflows
from mxgemm.units.epilogue import Extras, finish
from mxgemm.units.formats import numpy_dtype
from mxgemm.units.products import multiply
from mxgemm.units.results import FLOAT8_OVERFLOW, OPERAND_OVERFLOW, result_accumulator

__all__ = ["UnitRun", "run"]

Array = NDArray[Any]

SLAB_RESULTS = 1 << 14
SLAB_OPERANDS = 1 << 19
"""Entries of D, and of A and B, that are computed at once when a batch's products are small."""


@dataclass(frozen=True, slots=True)
class UnitRun:
    """A result with what happened to values on the way.

    Attributes
    ----------
    array : (*batch, M, N) array
        D, of the problem's result type.
    flags : tuple of str
        "operand-overflow": rounding turned a finite operand into Inf; "fp8-overflow": the
        conversion to fp8 saturated.
    """

    array: Array
    flags: tuple[str, ...]


def run(  # noqa: PLR0917  # the operands come in the order of the formula
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    bias: Array | None = None,
    scale_rows: Array | None = None,
    scale_cols: Array | None = None,
) -> UnitRun:
    """Compute D = epilogue(alpha·A·B + beta·C) as ``configuration`` does on ``arch``, bit for bit.

    Parameters
    ----------
    problem : GemmProblem
    configuration : Configuration
    arch : str
    a : (*batch, M, K) array
    b : (*batch, K, N) array
        Broadcast axes may have stride 0.
    c, bias, scale_rows, scale_cols : (*batch, M, N) arrays, optional
        C is not read when beta = 0; A and B are not when alpha = 0.

    Returns
    -------
    UnitRun

    Raises
    ------
    UnsupportedError
        When the unit has no row on ``arch``, or K leaves i8crtN no bit.
    """
    result = np.empty((*problem.batch, problem.m, problem.n), numpy_dtype(problem.d.dtype))
    if problem.is_empty:  # nothing is computed, so nothing happens to values
        return UnitRun(result, ())
    kind = result_accumulator(problem, configuration)
    flags: dict[str, None] = {}
    matrices = result.reshape(problem.products, problem.m, problem.n)
    for slab, index in _slabs(problem):
        product = None
        if problem.reads_operands:
            left, right = a[index], b[index]
            product = _side_by_side(left, right, configuration, arch, kind)
            if _operands_overflow(left, right, configuration):
                flags[OPERAND_OVERFLOW] = None
        beside = (None if x is None else _stacked(x[index]) for x in (c, bias, scale_rows, scale_cols))
        extras = Extras(*beside)
        if finish(product, problem, extras, kind, _stacked(matrices[slab])):
            flags[FLOAT8_OVERFLOW] = None
    return UnitRun(result, tuple(flags))


def _slabs(problem: GemmProblem) -> Iterator[tuple[slice, tuple[Any, ...]]]:
    """Parts of the batch, counted and as indices: one product each, or many at once where they are small.

    NumPy costs the same tens of microseconds a step of K for a small product as for a hundred of
    them side by side; each entry is computed by itself, so that its bits do not depend on the slab.
    """
    m, n, k = problem.m, problem.n, max(problem.k, 1)
    together = min(SLAB_RESULTS // max(m * n, 1), SLAB_OPERANDS // max((m + n) * k, 1))
    if together < 2 or problem.products < 2:
        for i, index in enumerate(np.ndindex(*problem.batch)):
            yield slice(i, i + 1), index
        return
    for start in range(0, problem.products, together):
        slab = slice(start, min(start + together, problem.products))
        yield slab, np.unravel_index(np.arange(slab.start, slab.stop), problem.batch)


def _side_by_side(a: Array, b: Array, configuration: Configuration, arch: str, kind: str) -> Array:
    """The products of one slab, stacked as (G·M, N); one product as (M, N)."""
    if a.ndim == 2:
        return multiply(a, b, configuration, arch, accumulator=kind)
    left, right = np.moveaxis(a, 0, -1), np.moveaxis(b, 0, -1)
    return _stacked(np.moveaxis(multiply(left, right, configuration, arch, accumulator=kind), -1, 0))


def _stacked(x: Array) -> Array:
    """Matrices (G, M, N) below each other, (G·M, N), as a view where memory allows; one matrix as it is."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _operands_overflow(a: Array, b: Array, configuration: Configuration) -> bool:
    fmt = configuration.rounds_to
    return fmt is not None and (operand_overflows(a, fmt) or operand_overflows(b, fmt))
