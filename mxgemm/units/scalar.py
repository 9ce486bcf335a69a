"""The `scalar` arithmetic: one fused multiply-add after the other in k order, from +0.

Also the float64 matrix unit, which is confirmed to be such a chain.  Integers wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.fma import chain32, chain64
from mxgemm.units.formats import k_first, numpy_dtype, widen
from mxgemm.units.sums import times_transposed
from mxgemm.units.tiles import for_each_tile

__all__ = ["fma_product", "wrapping_product"]

PANEL_DEPTH = 256


def fma_product(a: NDArray[Any], b: NDArray[Any], accumulator: str) -> NDArray[Any]:
    """Multiply A by Bᵀ with one chain of fused multiply-adds an entry.

    Parameters
    ----------
    a : (M, K[, G]) array
    b : (N, K[, G]) array
        Of floating-point element types that the accumulator holds exactly.
    accumulator : str
        "float32" or "float64".

    Returns
    -------
    (M, N[, G]) array of the accumulator's type
    """
    chain = chain32 if accumulator == "float32" else chain64
    result = np.zeros((a.shape[0], b.shape[0], *a.shape[2:]), numpy_dtype(accumulator))
    depth = a.shape[1]

    def work(rows: slice, columns: slice) -> None:
        c = np.zeros_like(result[rows, columns], order="C")
        for k in range(0, depth, PANEL_DEPTH):
            ks = slice(k, k + PANEL_DEPTH)
            left, right = (k_first(widen(x)) for x in (a[rows, ks], b[columns, ks]))
            chain(left, right, c)
        result[rows, columns] = c

    for_each_tile(result.shape[0], result.shape[1], depth, work)
    return result


def wrapping_product(a: NDArray[Any], b: NDArray[Any], accumulator: str) -> NDArray[Any]:
    """Multiply integer matrices A by Bᵀ modulo 2^bits of the accumulator."""
    kind = numpy_dtype(accumulator)
    return times_transposed(a.astype(kind), b.astype(kind))
