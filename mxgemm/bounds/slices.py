"""Products of float64 matrices far beyond float64's precision, by BLAS on error-free slices.

Ozaki, Ogita, Oishi & Rump, Numer. Algorithms 59 (2012) 95-118: rows of A and columns of B are
cut into slices of so few bits that float64 adds the products of two slices exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mxgemm.bounds.doubled import Float64, two_sum
from mxgemm.bounds.magnitudes import Exponents, exponents

__all__ = ["sliced_product"]

BITS = 84
"""Bits below the largest entry of a row or column that the slices keep."""


def _slices(x: Float64, exponent: Exponents, bits: int, count: int) -> Iterator[Float64]:
    """Slices of x, largest first; slice i is a multiple of 2^(exponent + 1 − bits·i)."""
    rest = x
    for i in range(1, count + 1):
        quantum = np.ldexp(1.0, exponent + 1 - bits * i)
        part = np.rint(rest / quantum) * quantum
        rest = rest - part
        yield part


def sliced_product(a: Float64, b: Float64) -> tuple[Float64, Float64, Float64]:
    """A·B as an unevaluated sum, with its radius.

    Parameters
    ----------
    a : (…, M, K) array
    b : (…, K, N) array
        Nonzero magnitudes in [2^-400, 2^400].

    Returns
    -------
    high, low, radius : (…, M, N) arrays
        |A·B − (high + low)| <= radius, which is relative to the largest entries of the row and
        the column: small against |A||B| only where those are not much larger than the others.
    """
    k = max(a.shape[-1], 1)
    bits = (53 - (k - 1).bit_length()) // 2
    count = -(-BITS // bits)
    rows, cols = exponents(np.abs(a), -1), exponents(np.abs(b), -2)
    left = list(_slices(a, rows, bits, count))
    right = list(_slices(b, cols, bits, count))
    high, low = np.zeros((*a.shape[:-1], b.shape[-1])), np.zeros((*a.shape[:-1], b.shape[-1]))
    for weight in range(count):
        for i in range(weight + 1):
            high, rest = two_sum(high, np.matmul(left[i], right[weight - i]))
            low += rest
    # Left out: products of slices below 2^(−bits·count), and what no slice holds; then the additions to low.
    lost = (count**2 / 2 + 2) * 2.0 ** (-bits * count) + count**4 * 2.0**-106
    radius = k * np.ldexp(lost, rows + cols + 2)
    high, low = two_sum(high, low)
    return high, low, radius
