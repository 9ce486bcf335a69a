"""What is known of a result before anything is computed: the type it is summed in, and its flags' names."""

from __future__ import annotations

from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem

__all__ = ["FLOAT8_OVERFLOW", "OPERAND_OVERFLOW", "result_accumulator"]

OPERAND_OVERFLOW = "operand-overflow"
FLOAT8_OVERFLOW = "fp8-overflow"


def result_accumulator(problem: GemmProblem, configuration: Configuration) -> str:
    """The accumulator's type for this problem: wider integer results are summed in their own type."""
    kind = configuration.accumulator
    if not configuration.is_integer or problem.d.dtype not in _wider(kind):
        return kind
    return problem.d.dtype


def _wider(kind: str) -> tuple[str, ...]:
    bits = int(kind.removeprefix("u").removeprefix("int"))
    return tuple(f"{sign}{w}" for w in (16, 32, 64) if w > bits for sign in ("int", "uint"))
