"""One float64 fused multiply-add for every operand: near both ends of the range, Inf and NaN.

The factors are scaled to [1/2, 1) and the addend with them; where it is more than 2^200
away from the product only its side matters, so it is brought to that distance.  The
exact sum is then unscaled in one rounding, also when the result is subnormal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import Float64
from mxgemm.units.sums import to_odd, two_product, two_sum

__all__ = ["fma64"]

_APART = 200


def _scaled_sum(a: Float64, b: Float64, c: Float64) -> tuple[Float64, Float64]:
    """a·b + c as its nearest float64 and the rest (rounded to odd), for operands of moderate size."""
    high, low = two_product(a, b)
    t_high, t_low, v_high, v_low, z, rest = (np.empty_like(high) for _ in range(6))
    scratch = (np.empty_like(high), np.empty_like(high))
    two_sum(c, low, t_high, t_low, scratch)
    two_sum(high, t_high, v_high, v_low, scratch)
    two_sum(t_low, v_low, z, rest, scratch)
    to_odd(z, rest)
    total, error = np.empty_like(high), np.empty_like(high)
    two_sum(v_high, z, total, error, scratch)
    return total, error


def _unscale(total: Float64, error: Float64, exponents: NDArray[np.integer]) -> Float64:
    """total·2^e with one rounding, where ``error`` says on which side of ``total`` the exact sum lies."""
    result: Float64 = np.ldexp(total, exponents)
    subnormal = np.abs(result) <= 2.0**-1022
    if subnormal.any():
        where = np.flatnonzero(subnormal)
        result.flat[where] = _unscale_subnormal(
            result.flat[where], total.flat[where], error.flat[where], exponents.flat[where]
        )
    return result


def _unscale_subnormal(
    result: Float64, total: Float64, error: Float64, exponents: NDArray[np.integer]
) -> Float64:
    """Settle ties of the second rounding by the error of the first."""
    rest = total - np.ldexp(result, -exponents)
    half_step = np.ldexp(1.0, np.maximum(-1075 - exponents, -1074))
    tie = np.abs(rest) == half_step
    inwards = tie & (error != 0) & (np.signbit(error) == np.signbit(rest))
    return np.where(inwards, result + np.copysign(2.0**-1074, rest), result)


def fma64(a: Float64, b: Float64, c: Float64) -> Float64:
    """a·b + c with one rounding to nearest even, entry by entry; arguments broadcast.

    Inf and NaN as IEEE 754 has them, and finite operands never give Inf − Inf.
    """
    a, b, c = (np.ascontiguousarray(x) for x in np.broadcast_arrays(a, b, c))
    simple = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    (fa, ea), (fb, eb), (fc, ec) = np.frexp(a), np.frexp(b), np.frexp(c)
    e = ea + eb
    apart = np.where(c == 0, 0, ec - e)
    near = np.clip(apart, -_APART, _APART)
    total, error = _scaled_sum(fa, fb, np.ldexp(fc, near))
    result = _unscale(total, error, e + np.maximum(apart - _APART, 0))
    result = np.where(np.isfinite(c), result, c)
    return np.where(simple, a * b + c, result)
