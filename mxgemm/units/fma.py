"""Chains of IEEE fused multiply-adds, float32 and float64, which NumPy lacks.

float32: the product of two float32 is exact in float64; the sum with the addend is
rounded to float64 and then to float32, and is rounded twice only where the float64
sum lies midway between two float32 and is not exact.  Those entries are found by
their bits and settled with the error of the sum (Knuth's TwoSum).

float64: TwoProduct (Dekker, 1971) and the correction of Boldo & Melquiond
("Emulation of a FMA and correctly rounded sums", 2008, figure 4), with round-to-odd;
outside the range in which those are exact, :mod:`mxgemm.units.fma_scaled`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.fma_scaled import fma64
from mxgemm.units.formats import Float64
from mxgemm.units.sums import halves, to_odd, two_sum

__all__ = ["chain32", "chain64"]

Float32 = NDArray[np.float32]

_BELOW_FLOAT32 = np.int64((1 << 29) - 1)
_MIDWAY = np.int64(1 << 28)
_LEAST_NORMAL32 = 2.0**-126


def _settle(total: Float64, product: Float64, addend: Float64, where: NDArray[np.intp]) -> None:
    """Round the float64 sums at ``where`` to odd, so that rounding them to float32 is the only rounding."""
    s, x, y = total.flat[where], product.flat[where], addend.flat[where]
    part = s - x
    error = (x - (s - part)) + (y - part)
    to_odd(s, error)
    total.flat[where] = s


def _may_round_subnormals_twice(a: Float64, b: Float64) -> bool:
    """Whether a product may have bits that float64 sums below 2^-126 cannot hold.

    With |a·b| ≥ 2^-130 every product, and so every sum, is a multiple of 2^-177: below
    2^-126 it has at most 51 bits and is exact.
    """
    small_a = np.abs(a[a != 0]).min(initial=np.inf)
    small_b = np.abs(b[b != 0]).min(initial=np.inf)
    return bool(small_a * small_b < 2.0**-130)


def chain32(a: Float64, b: Float64, c: Float32) -> None:
    """Advance float32 accumulators by one fused multiply-add after the other, in place.

    Parameters
    ----------
    a : (K, m[, G]) float64 array of float32 values
    b : (K, n[, G]) float64 array of float32 values
        With a last axis, G products side by side.
    c : (m, n[, G]) float32 array, C order
    """
    subnormal = _may_round_subnormals_twice(a, b)
    addend = c.astype(np.float64)
    product, total = np.empty(c.shape), np.empty(c.shape)
    low, midway = np.empty(c.shape, np.int64), np.empty(c.shape, np.bool_)
    for left, right in zip(a, b, strict=True):
        np.multiply(left[:, None], right, out=product)
        np.add(product, addend, out=total)
        np.bitwise_and(total.view(np.int64), _BELOW_FLOAT32, out=low)
        np.equal(low, _MIDWAY, out=midway)
        if subnormal:
            midway |= np.abs(total) < _LEAST_NORMAL32
        if midway.any():
            _settle(total, product, addend, np.flatnonzero(midway))
        np.copyto(c, total, casting="same_kind")
        np.copyto(addend, c)


def _is_safe(a: Float64, b: Float64, c: Float64) -> bool:
    """Whether Dekker's product and the sums are exact for every step of these chains.

    An accumulator of −0 is left to the general road: the algorithm's sums would make it +0.
    """
    if not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all()):
        return False
    size_a, size_b, size_c = np.abs(a), np.abs(b), np.abs(c)
    large_a, large_b = size_a.max(initial=0.0), size_b.max(initial=0.0)
    small_a = size_a[size_a != 0].min(initial=1.0)
    small_b = size_b[size_b != 0].min(initial=1.0)
    return bool(
        max(large_a, large_b, size_c.max(initial=0.0)) < 2.0**900
        and np.log2(max(large_a, 2.0**-1022)) + np.log2(max(large_b, 2.0**-1022)) < 900
        and min(small_a, small_b) > 2.0**-900
        and np.log2(small_a) + np.log2(small_b) > -900
        and not np.signbit(c[c == 0]).any()
    )


def _step64(left: tuple[Float64, ...], right: tuple[Float64, ...], c: Float64, work: list[Float64]) -> None:
    """Replace c by fma(left, right, c) with Boldo and Melquiond's algorithm, in place."""
    (a, a1, a2), (b, b1, b2) = left, right
    high, low, t, sum_high, sum_low, x = work
    scratch = (t, x)
    np.multiply(a, b, out=high)
    np.multiply(a1, b1, out=low)
    low -= high
    for p, q in ((a1, b2), (a2, b1), (a2, b2)):
        low += np.multiply(p, q, out=t)
    two_sum(c, low, sum_high, sum_low, scratch)
    two_sum(high, sum_high, c, low, scratch)
    # sum_low + low, rounded to odd
    two_sum(low, sum_low, sum_high, high, scratch)
    to_odd(sum_high, high)
    c += sum_high


def chain64(a: Float64, b: Float64, c: Float64) -> None:
    """Advance float64 accumulators by one fused multiply-add after the other, in place.

    Parameters
    ----------
    a : (K, m[, G]) float64 array
    b : (K, n[, G]) float64 array
        With a last axis, G products side by side.
    c : (m, n[, G]) float64 array, C order
    """
    if not _is_safe(a, b, c):
        for left, right in zip(a, b, strict=True):
            c[...] = fma64(left[:, None], right[None, :], c)
        return
    halves_a, halves_b = halves(a), halves(b)
    work = [np.empty(c.shape) for _ in range(6)]
    for k in range(len(a)):
        left = (a[k][:, None], halves_a[0][k][:, None], halves_a[1][k][:, None])
        right = (b[k], halves_b[0][k], halves_b[1][k])
        _step64(left, right, c, work)
