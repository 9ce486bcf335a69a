"""The interpreter's scalar arithmetic in NumPy: one function an operation, over all threads at once.

Nothing here is shared with code generation: the two are compared bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang.types import Scalar, float16, float32, uint64

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["arithmetic", "compare", "convert", "negate_or_invert", "power"]

Array = Any  # an array over threads, or a NumPy scalar that all threads share


def arithmetic(operator: str, scalar: Scalar, left: Array, right: Array) -> Array:
    """``left operator right`` in type ``scalar``; integer divisors are not zero."""
    if operator == "pow":
        return power(scalar, left, right)
    if scalar.is_float:
        return _FLOAT[operator](left, right)
    if operator in ("lshift", "rshift"):
        return _shift(operator, scalar, left, right)
    if operator in ("floordiv", "mod"):
        return _integer_division(operator, scalar, left, right)
    return _INTEGER[operator](left, right)


_FLOAT: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
}

_INTEGER: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _integer_division(operator: str, scalar: Scalar, left: Array, right: Array) -> Array:
    if scalar.kind == "u":
        return left // right if operator == "floordiv" else left % right
    # The one quotient that leaves int64 is 0 with remainder 0, as Numba defines it.
    overflow = (left == np.int64(-(2**63))) & (right == np.int64(-1))
    divisor = np.where(overflow, np.int64(1), right)
    result = np.floor_divide(left, divisor) if operator == "floordiv" else np.remainder(left, divisor)
    return np.where(overflow, np.int64(0), result)


def _shift(operator: str, scalar: Scalar, left: Array, right: Array) -> Array:
    """Shifts by the amount taken as unsigned; 64 and more shift everything out."""
    amount = np.asarray(right).astype(np.uint64)
    far = amount > np.uint64(63)
    near = np.where(far, np.uint64(0), amount)
    if operator == "lshift":
        shifted = np.asarray(left).astype(np.uint64) << near
        return np.where(far, np.uint64(0), shifted).astype(scalar.dtype)
    if scalar.kind == "u":
        return np.where(far, np.uint64(0), np.asarray(left) >> near)
    return np.asarray(left) >> np.where(far, np.uint64(63), amount).astype(np.int64)


def power(scalar: Scalar, base: Array, exponent: Array) -> Array:
    """``base ** exponent``: repeated squaring for integer exponents, the math library's otherwise."""
    if np.asarray(exponent).dtype.kind == "f":
        return np.power(np.asarray(base, np.float64), np.asarray(exponent, np.float64)).astype(scalar.dtype)
    base, exponent = np.broadcast_arrays(base, exponent)
    negative = exponent < 0
    remaining = np.where(negative, np.uint64(0) - exponent.astype(np.uint64), exponent.astype(np.uint64))
    result = np.ones(base.shape, scalar.dtype)
    factor = base.astype(scalar.dtype)
    while np.any(remaining != 0):
        result = np.where(remaining & np.uint64(1) != 0, result * factor, result)
        factor = factor * factor
        remaining = remaining >> np.uint64(1)
    if not np.any(negative):
        return result
    if scalar.is_float:
        return np.where(negative, scalar.dtype.type(1) / result, result)
    lowest = np.array(2**63, np.uint64).astype(scalar.dtype)
    unit = base == 1
    if scalar.kind == "i":
        unit = unit | (base == -1)
    small = np.where(base == 0, lowest, np.where(unit, result, scalar.dtype.type(0)))
    return np.where(negative, small, result)


def compare(operator: str, left: Array, right: Array) -> Array:
    """A comparison; NaN compares unequal to everything."""
    return _COMPARE[operator](left, right)


_COMPARE: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def negate_or_invert(operator: str, scalar: Scalar, value: Array) -> Array:
    """``-x``, ``~x``, ``not x`` and ``abs(x)`` in type ``scalar``."""
    if operator == "not" or (operator == "invert" and scalar.kind == "b"):
        return np.logical_not(value)
    if operator == "invert":
        return np.bitwise_not(value)
    if operator == "neg":
        return -value if scalar.is_float else scalar.dtype.type(0) - value
    return value if scalar.kind == "u" else np.abs(value)


def convert(value: Array, source: Scalar, target: Scalar) -> Array:
    """``value`` in type ``target``: rounded once to nearest even, saturated, or wrapped."""
    value = np.asarray(value)
    if target.kind == "b":
        return value != 0
    if target.is_integer:
        return _float_to_integer(value, target) if source.is_float else value.astype(target.dtype)
    if target.name == "bfloat16":
        return _to_bfloat16(value, source, target)
    if target == float16 and source.is_integer:
        return value.astype(np.float64).astype(np.float16)
    return value.astype(target.dtype)


def _float_to_integer(value: Array, target: Scalar) -> Array:
    """Truncated; NaN gives 0, and what is out of range the nearest end."""
    wide = value.astype(np.float64)
    information = np.iinfo(target.dtype)
    high = float(2 ** (target.bits - (target.kind == "i")))
    low = float(information.min)
    inside = np.where((wide > low) & (wide < high), wide, 0.0)
    # float64 to uint64 is undefined from 2^63 on in C, so the upper half is moved down and back.
    if target == uint64:
        upper = inside >= 2.0**63
        moved = np.where(upper, inside - 2.0**63, inside)
        result = moved.astype(np.int64).astype(np.uint64) + np.where(upper, np.uint64(2**63), np.uint64(0))
    else:
        result = inside.astype(np.int64).astype(target.dtype)
    result = np.where(wide >= high, target.dtype.type(information.max), result)
    return np.where(wide <= low, target.dtype.type(information.min), result)


def _to_bfloat16(value: Array, source: Scalar, target: Scalar) -> Array:
    """Through float32, which is exact or rounded to odd before, so that only one rounding counts."""
    if source in (float32, float16):
        return value.astype(np.float32).astype(target.dtype)
    wide = value.astype(np.float64)
    narrow = wide.astype(np.float32)
    back = narrow.astype(np.float64)
    away = (np.abs(back) > np.abs(wide)) & np.isfinite(wide)
    toward_zero = np.where(away, np.nextafter(narrow, np.float32(0)), narrow)
    inexact = np.isfinite(wide) & (toward_zero.astype(np.float64) != wide)
    bits = np.asarray(toward_zero, np.float32).view(np.uint32)
    odd = np.where(inexact, bits | np.uint32(1), bits).view(np.float32)
    return odd.astype(target.dtype)
