"""A whole problem on the CPU model: batches, product, epilogue, conversion to the result's type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem
from mxgemm.units.convert import operand_overflows
from mxgemm.units.epilogue import Extras, finish
from mxgemm.units.formats import numpy_dtype
from mxgemm.units.multiply import multiply

__all__ = ["FLOAT8_OVERFLOW", "OPERAND_OVERFLOW", "UnitRun", "result_accumulator", "run"]

Array = NDArray[Any]

OPERAND_OVERFLOW = "operand-overflow"
FLOAT8_OVERFLOW = "fp8-overflow"


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


def result_accumulator(problem: GemmProblem, configuration: Configuration) -> str:
    """The accumulator's type for this problem: wider integer results are summed in their own type."""
    kind = configuration.accumulator
    if not configuration.is_integer or problem.d.dtype not in _wider(kind):
        return kind
    return problem.d.dtype


def _wider(kind: str) -> tuple[str, ...]:
    bits = 8 * numpy_dtype(kind).itemsize
    return tuple(f"{sign}{w}" for w in (16, 32, 64) if w > bits for sign in ("int", "uint"))


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
    kind = result_accumulator(problem, configuration)
    flags: dict[str, None] = {}
    for index in np.ndindex(*problem.batch):
        product = None
        if problem.reads_operands:
            product = multiply(a[index], b[index], configuration, arch, accumulator=kind)
            if _operands_overflow(a[index], b[index], configuration):
                flags[OPERAND_OVERFLOW] = None
        extras = Extras(*(None if x is None else x[index] for x in (c, bias, scale_rows, scale_cols)))
        if finish(product, problem, extras, kind, result[index]):
            flags[FLOAT8_OVERFLOW] = None
    return UnitRun(result, tuple(flags))


def _operands_overflow(a: Array, b: Array, configuration: Configuration) -> bool:
    fmt = configuration.rounds_to
    return fmt is not None and (operand_overflows(a, fmt) or operand_overflows(b, fmt))
