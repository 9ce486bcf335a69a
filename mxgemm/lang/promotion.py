"""Numba's typing rules as tables: what an operator computes in, and what it returns.

Source: the overload sets of Numba's CUDA target (``numba.cuda`` typing context; the tests compare
every entry with an installed Numba when there is one).  ``docs/dialect.md`` states them in words.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from mxgemm.lang.types import (
    SCALARS,
    Scalar,
    boolean,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint64,
)

__all__ = [
    "ARITHMETIC",
    "BITWISE",
    "COMPARISONS",
    "SHIFTS",
    "Typing",
    "binary",
    "comparison",
    "integer_pair",
    "math_operand",
    "range_type",
    "unary",
    "unify",
]

ARITHMETIC: Final = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
BITWISE: Final = ("and", "or", "xor")
SHIFTS: Final = ("lshift", "rshift")
COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")

bfloat16: Final = SCALARS["bfloat16"]


class Typing(NamedTuple):
    """Operand types after conversion, and the result's type."""

    left: Scalar
    right: Scalar
    result: Scalar


def integer_pair(left: Scalar, right: Scalar) -> Scalar:
    """int64 when either is signed (bool counts as signed), else uint64."""
    return int64 if left.is_signed or right.is_signed else uint64


#: Widest integer that a float type takes without leaving it; the next float type takes the rest.
_INTEGERS_OF_FLOAT: Final[dict[Scalar, frozenset[str]]] = {
    float16: frozenset({"bool", "int8"}),
    bfloat16: frozenset({"int8", "uint8"}),
    float32: frozenset({"bool", "int8", "int16", "uint8"}),
    float64: frozenset(SCALARS),
}


def _float_pair(left: Scalar, right: Scalar) -> Scalar:
    """The float type in which a pair with at least one float computes."""
    if left.is_float and right.is_float:
        if left == right:
            return left
        return float64 if float64 in (left, right) else float32
    real, other = (left, right) if left.is_float else (right, left)
    for candidate in (real, float32, float64):
        if other.name in _INTEGERS_OF_FLOAT[candidate]:
            return candidate
    return float64


@cache
def binary(operator: str, left: Scalar, right: Scalar) -> Typing | None:
    """Return the typing of ``left operator right``, or None when Numba has none."""
    if operator in SHIFTS:
        if not (left.is_integer and right.is_integer):
            return None
        result = int64 if left.is_signed else uint64
        return Typing(result, int64 if right.kind == "i" else uint64, result)
    if operator in BITWISE:
        if not (left.is_integer and right.is_integer):
            return None
        result = boolean if left == right == boolean else integer_pair(left, right)
        return Typing(result, result, result)
    if operator == "pow":
        return _power(left, right)
    if left.is_integer and right.is_integer:
        result = integer_pair(left, right)
        if operator == "truediv":
            return Typing(float64, float64, float64)
        return Typing(result, result, result)
    real = _float_pair(left, right)
    if operator in ("floordiv", "mod") and real.bits == 16:
        real = float32
    return Typing(real, real, real)


def _power(left: Scalar, right: Scalar) -> Typing:
    if left.is_integer and right.is_integer:
        if left == boolean and right == int32:  # as Numba resolves it
            return Typing(float32, int64, float32)
        result = integer_pair(left, right)
        # A signed exponent keeps its sign in the conversion, so that negative powers are seen.
        return Typing(result, int64 if right.is_signed else uint64, result)
    if left.is_float and right.is_integer:
        base = float64 if left == float64 else float32
        return Typing(base, int64 if right.is_signed else uint64, base)
    real = _float_pair(left, right)
    real = float32 if real.bits == 16 else real
    return Typing(real, real, real)


@cache
def comparison(left: Scalar, right: Scalar) -> Scalar:
    """Return the type in which ``left`` and ``right`` are compared (int64 with uint64: float64)."""
    if boolean in {left, right}:
        other = right if left == boolean else left
        return float32 if other == bfloat16 else other
    if left.is_float or right.is_float:
        return _float_pair(left, right)
    return unify(left, right)


#: Where a variable unifies narrower than an operator computes.
_UNIFIED: Final[dict[tuple[str, str], Scalar]] = {
    ("float16", "uint8"): float16,
    ("float16", "uint16"): float32,
    ("float32", "uint16"): float32,
}


@cache
def unify(left: Scalar, right: Scalar) -> Scalar:
    """Return the one type of a variable that holds ``left`` on one path and ``right`` on another."""
    if left == right:
        return left
    if boolean in {left, right}:
        return right if left == boolean else left
    if left.is_float or right.is_float:
        return (
            _UNIFIED.get((left.name, right.name))
            or _UNIFIED.get((right.name, left.name))
            or _float_pair(left, right)
        )
    return _unify_integers(left, right)


def _unify_integers(left: Scalar, right: Scalar) -> Scalar:
    if left.kind == right.kind:
        return left if left.bits >= right.bits else right
    signed, unsigned = (left, right) if left.kind == "i" else (right, left)
    if unsigned.bits < signed.bits:
        return signed
    return float64 if unsigned.bits == 64 else SCALARS[f"int{2 * unsigned.bits}"]


def unary(operator: str, operand: Scalar) -> Scalar | None:
    """Return the type of ``-x``, ``+x``, ``~x``, ``not x`` or ``abs(x)``, or None."""
    if operator == "not":
        return boolean
    if operator == "abs":
        if operand == boolean:
            return SCALARS["int8"]
        return float32 if operand == bfloat16 else operand
    if operator == "invert" and (operand.is_float or operand == boolean):
        return None if operand.is_float else boolean
    if operand.is_integer:
        return int64 if operand.is_signed else uint64
    return operand


def math_operand(operand: Scalar, keeps_float16: bool) -> Scalar:
    """Return the float type in which a ``math`` function of one argument computes."""
    if operand.is_integer:
        return float64
    if operand == float16:
        return float16 if keeps_float16 else float32
    return float32 if operand == bfloat16 else operand


def range_type(types: tuple[Scalar, ...]) -> Scalar:
    """Return the type of the induction variable of ``range`` over arguments of ``types``.

    Numba gives int32 for int32 with uint64, which drops the upper half of a bound; here that is int64.
    """
    if all(t.kind == "u" for t in types):
        return uint64
    if uint64 in types and all(t.bits <= 16 or t == uint64 for t in types):
        return uint64
    if all(t.bits <= 32 and t.name != "uint32" for t in types):
        return int32
    return int64
