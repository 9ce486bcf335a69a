"""The interpreter's scalar functions: exact ones exactly, a math library's from float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang.types import Scalar, float32, float64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["call"]

Array = Any


def call(name: str, scalar: Scalar, arguments: Sequence[Array], result: Scalar) -> Array:
    """Apply function ``name`` to arguments of type ``scalar``."""
    if name in _BITS:
        return _BITS[name](arguments[0], scalar).astype(result.dtype)
    if name in ("min", "max"):
        return _extreme(name, scalar, *arguments)
    if name == "fma":
        return _fused(scalar, *arguments)
    if name in ("isnan", "isinf", "isfinite"):
        return getattr(np, name)(arguments[0])
    if name == "ldexp":
        return _ldexp(scalar, arguments[0], arguments[1])
    if name in ("radians", "degrees"):
        factor = math.pi / 180 if name == "radians" else 180 / math.pi
        return arguments[0] * scalar.dtype.type(factor)
    if name in _EXACT:
        return _exact(name, scalar, arguments)
    wide = [np.asarray(a).astype(np.float64) for a in arguments]
    value = np.asarray(_LIBRARY[name](*wide))
    return value.astype(np.float32).astype(scalar.dtype) if scalar.bits == 16 else value.astype(scalar.dtype)


_EXACT: Final[dict[str, Callable[..., Array]]] = {
    "sqrt": np.sqrt, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "rint": np.rint, "fmod": np.fmod, "copysign": np.copysign,
}  # fmt: skip


def _exact(name: str, scalar: Scalar, arguments: Sequence[Array]) -> Array:
    """Computed in float32 for the 16-bit types: 24 bits are enough for one rounding to count."""
    if scalar.bits == 16:
        wide = [np.asarray(a).astype(np.float32) for a in arguments]
        return np.asarray(_EXACT[name](*wide)).astype(scalar.dtype)
    return _EXACT[name](*arguments)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats over an array; a domain error is NaN, a pole or overflow infinite."""

    def one(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(one, otypes=[np.float64])


def _log_gamma(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


_LIBRARY: Final[dict[str, Callable[..., Array]]] = {
    "exp": np.exp, "log": np.log, "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos,
    "expm1": np.expm1, "log1p": np.log1p, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "exp2": np.exp2, "cbrt": np.cbrt, "atan2": np.arctan2,
    "hypot": np.hypot, "rsqrt": lambda x: 1.0 / np.sqrt(x), "erf": _each(math.erf),
    "erfc": _each(math.erfc), "gamma": _each(math.gamma), "lgamma": _each(_log_gamma),
}  # fmt: skip


def _extreme(name: str, scalar: Scalar, left: Array, right: Array) -> Array:
    """IEEE minNum and maxNum: a NaN loses, and −0 lies below +0."""
    if scalar.is_integer:
        return np.minimum(left, right) if name == "min" else np.maximum(left, right)
    left, right = np.asarray(left), np.asarray(right)
    first = np.signbit(left) if name == "min" else ~np.signbit(left)
    smaller = left < right if name == "min" else left > right
    pick_left = np.where(left == right, first, smaller) | np.isnan(right)
    return np.where(pick_left & ~(np.isnan(left) & ~np.isnan(right)), left, right)


def _ldexp(scalar: Scalar, value: Array, exponent: Array) -> Array:
    """``value * 2**exponent``, rounded once."""
    return np.ldexp(np.asarray(value), np.asarray(exponent).astype(np.int32)).astype(scalar.dtype)


def _fused(scalar: Scalar, a: Array, b: Array, c: Array) -> Array:
    """``a*b + c`` with one rounding."""
    if scalar == float32:
        return _fused_float32(*(np.asarray(x).astype(np.float64) for x in (a, b, c)))
    if scalar == float64:
        return _fused_float64(a, b, c)
    raise TypeError(f"fma takes float32 and float64, not {scalar}")


def _fused_float32(a: Array, b: Array, c: Array) -> Array:
    """The float64 product is exact; the sum is rounded to odd, then once to float32."""
    product = a * b
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    bits = np.asarray(total).view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    grows = (error > 0) == (total > 0)
    odd = np.where(inexact, np.where(grows, bits + 1, bits - 1), bits).view(np.float64)
    return odd.astype(np.float32)


def _fused_float64(a: Array, b: Array, c: Array) -> Array:
    """Exact rationals, one element at a time: slow and certain."""
    from fractions import Fraction

    def one(x: float, y: float, z: float) -> float:
        if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
            return float(np.float64(x) * np.float64(y) + np.float64(z))
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        if exact == 0:
            return x * y + z
        try:
            return float(exact)
        except OverflowError:
            return math.copysign(math.inf, exact)

    return np.vectorize(one, otypes=[np.float64])(a, b, c)


def _population(x: Array, scalar: Scalar) -> Array:
    return np.bitwise_count(_unsigned(x, scalar))


def _unsigned(x: Array, scalar: Scalar) -> Array:
    return np.asarray(x).astype(f"uint{scalar.bits}")


def _leading(x: Array, scalar: Scalar) -> Array:
    value = _unsigned(x, scalar).astype(np.uint64)
    length = np.zeros(value.shape, np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        above = value >> np.uint64(shift) != 0
        length = length + np.where(above, shift, 0)
        value = np.where(above, value >> np.uint64(shift), value)
    return scalar.bits - np.where(value != 0, length + 1, 0)


def _first_set(x: Array, scalar: Scalar) -> Array:
    value = _unsigned(x, scalar).astype(np.uint64)
    lowest = value & (np.uint64(0) - value)
    return 64 - _leading(lowest, Scalar("uint64", "u", 64))


def _reversed(x: Array, scalar: Scalar) -> Array:
    value, result = np.asarray(x).astype(np.uint64), np.zeros(np.shape(x), np.uint64)
    for _ in range(scalar.bits):
        result = (result << np.uint64(1)) | (value & np.uint64(1))
        value = value >> np.uint64(1)
    return result


_BITS: Final[dict[str, Callable[[Array, Scalar], Array]]] = {
    "popc": _population,
    "clz": _leading,
    "ffs": _first_set,
    "brev": _reversed,
}
