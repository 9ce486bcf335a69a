"""Error-free transformations on float64 arrays, and products in twice float64's precision.

Sources: Knuth, TAOCP 2, 4.2.2 (TwoSum); Dekker, Numer. Math. 18 (1971) 224-242 (TwoProduct);
Ogita, Rump & Oishi, SIAM J. Sci. Comput. 26 (2005) 1955-1988, algorithm 5.3 (Dot2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Float64", "dot2", "halves", "two_product", "two_sum"]

Float64 = NDArray[np.float64]

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
    k = a.shape[-1]
    shape = (*a.shape[:-1], b.shape[-1])
    high, low = np.zeros(shape), np.zeros(shape)
    (ah, al), (bh, bl) = halves(a), halves(b)
    for i in range(k):
        x, xh, xl = (v[..., :, i, None] for v in (a, ah, al))
        y, yh, yl = (v[..., None, i, :] for v in (b, bh, bl))
        p = x * y
        e = xl * yl - (((p - xh * yh) - xl * yh) - xh * yl)
        high, rest = two_sum(high, p)
        low += rest + e
    return two_sum(high, low)
