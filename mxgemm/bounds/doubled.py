"""Error-free transformations on float64 arrays, and products in twice float64's precision.

Sources: Knuth, TAOCP 2, 4.2.2 (TwoSum); Dekker, Numer. Math. 18 (1971) 224-242 (TwoProduct);
Ogita, Rump & Oishi, SIAM J. Sci. Comput. 26 (2005) 1955-1988, algorithm 5.3 (Dot2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Float64", "dot2", "halves", "two_product", "two_sum"]

Float64 = NDArray[np.float64]

BLOCK_ENTRIES = 1 << 14
"""Entries whose temporaries stay in a core's cache."""

_SPLITTER = 2.0**27 + 1.0


def two_sum(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    """Return (s, e) with s + e = x + y exactly and s = fl(x + y)."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def halves(x: Float64) -> tuple[Float64, Float64]:
    """Split ``x`` into a sum of two numbers of at most 26 bits."""
    t = _SPLITTER * x
    high = t - (t - x)
    return high, x - high


def two_product(x: Float64, y: Float64 | np.float64) -> tuple[Float64, Float64]:
    """Return (p, e) with p + e = x·y exactly and p = fl(x·y), while nothing over- or underflows."""
    p = x * y
    xh, xl = halves(x)
    yh, yl = halves(np.asarray(y))
    return p, xl * yl - (((p - xh * yh) - xl * yh) - xh * yl)


def dot2(a: Float64, b: Float64) -> tuple[Float64, Float64]:
    """A·B as an unevaluated sum of two matrices.

    Parameters
    ----------
    a : (…, M, K) array
    b : (…, K, N) array
        Nonzero magnitudes in [2^-400, 2^400], so that nothing over- or underflows.

    Returns
    -------
    high, low : (…, M, N) arrays
        |A·B − (high + low)| <= 2·(K + 2)²·2^-106·|A||B|.
    """
    shape = (*a.shape[:-1], b.shape[-1])
    high, low = np.zeros(shape), np.zeros(shape)
    rows = max(1, BLOCK_ENTRIES * shape[-2] // max(high.size, 1))
    for start in range(0, shape[-2], rows):
        part = (..., slice(start, start + rows), slice(None))
        _dot2_block(a[part], b, high[part], low[part])
    return two_sum(high, low)


def _dot2_block(a: Float64, b: Float64, high: Float64, low: Float64) -> None:
    """Add the products of all k to ``high``, and the errors of products and sums to ``low``."""
    (ah, al), (bh, bl) = halves(a), halves(b)
    p, s, t, e = (np.empty_like(high) for _ in range(4))
    for i in range(a.shape[-1]):
        x, xh, xl = (v[..., :, i, None] for v in (a, ah, al))
        y, yh, yl = (v[..., None, i, :] for v in (b, bh, bl))
        np.multiply(x, y, out=p)
        # TwoProduct's error: xl·yl − (((p − xh·yh) − xl·yh) − xh·yl).
        np.subtract(np.multiply(xh, yh, out=t), p, out=e)
        e += np.multiply(xl, yh, out=t)
        e += np.multiply(xh, yl, out=t)
        e += np.multiply(xl, yl, out=t)
        # TwoSum: s = high + p with error (high − (s − t)) + (p − t), t = s − high.
        np.add(high, p, out=s)
        np.subtract(s, high, out=t)
        p -= t
        np.subtract(s, t, out=t)
        np.subtract(high, t, out=t)
        p += t
        e += p
        low += e
        high[...] = s
