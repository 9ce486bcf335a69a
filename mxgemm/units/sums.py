"""Error-free sums and splittings of float64, the bricks of emulated fused multiply-adds; plain products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import Float64

__all__ = ["halves", "times_transposed", "to_odd", "two_product", "two_sum"]


def halves(x: Float64) -> tuple[Float64, Float64]:
    """Split into two values of at most 26 bits that add up to ``x`` (Veltkamp, 1968)."""
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high


def two_product(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """The rounded product and its error, exact while nothing under- or overflows (Dekker, 1971)."""
    product = a * b
    (a1, a2), (b1, b2) = halves(a), halves(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def two_sum(x: Float64, y: Float64, total: Float64, error: Float64, scratch: tuple[Float64, Float64]) -> None:
    """Write the rounded sum of ``x`` and ``y`` and its error (Knuth's TwoSum), with two scratch arrays."""
    t, u = scratch
    np.add(x, y, out=total)
    np.subtract(total, x, out=t)
    np.subtract(total, t, out=u)
    np.subtract(x, u, out=u)
    np.subtract(y, t, out=t)
    np.add(u, t, out=error)


def to_odd(total: Float64, error: Float64) -> None:
    """Replace rounded sums by the exact ones rounded to odd, given their errors, in place.

    A value rounded to odd keeps enough to be rounded correctly to any format that is at
    least two bits narrower (Boldo & Melquiond, 2008).
    """
    words = total.view(np.int64)
    nudge = ((error != 0) & ((words & 1) == 0)).astype(np.int64)
    nudge *= np.where(np.signbit(error) == np.signbit(total), 1, -1)
    words += nudge


def times_transposed(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """NumPy's own product of the rows of A by the rows of B, for operands whose sums are exact.

    Parameters
    ----------
    a : (M, K[, G]) array
    b : (N, K[, G]) array
        With a last axis, G products side by side.

    Returns
    -------
    (M, N[, G]) array
    """
    if a.ndim == 2:
        plain: NDArray[Any] = np.matmul(a, b.T)
        return plain
    products: NDArray[Any] = np.matmul(a.transpose(2, 0, 1), b.transpose(2, 1, 0))
    return products.transpose(1, 2, 0)
