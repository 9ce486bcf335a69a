"""The `scalar` arithmetic: one fused multiply-add after the other in k order, from +0.

Also the float64 matrix unit, which is confirmed to be such a chain.  Integers wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.fma import chain32, chain64
from mxgemm.units.formats import numpy_dtype, widen
from mxgemm.units.tiles import for_each_tile

__all__ = ["fma_product", "wrapping_product"]

PANEL_DEPTH = 256


def fma_product(a: NDArray[Any], b: NDArray[Any], accumulator: str) -> NDArray[Any]:
    """Multiply A by Bᵀ with one chain of fused multiply-adds an entry.

    Parameters
    ----------
    a : (M, K) array
    b : (N, K) array
        Of floating-point element types that the accumulator holds exactly.
    accumulator : str
        "float32" or "float64".

    Returns
    -------
    (M, N) array of the accumulator's type
    """
    chain = chain32 if accumulator == "float32" else chain64
    result = np.zeros((a.shape[0], b.shape[0]), numpy_dtype(accumulator))
    depth = a.shape[1]

    def work(rows: slice, columns: slice) -> None:
        c = np.zeros((rows.stop - rows.start, columns.stop - columns.start), result.dtype)
        for k in range(0, depth, PANEL_DEPTH):
            ks = slice(k, k + PANEL_DEPTH)
            left, right = (np.ascontiguousarray(widen(x).T) for x in (a[rows, ks], b[columns, ks]))
            chain(left, right, c)
        result[rows, columns] = c

    for_each_tile(result.shape[0], result.shape[1], depth, work)
    return result


def wrapping_product(a: NDArray[Any], b: NDArray[Any], accumulator: str) -> NDArray[Any]:
    """Multiply integer matrices A by Bᵀ modulo 2^bits of the accumulator."""
    kind = numpy_dtype(accumulator)
    product: NDArray[Any] = np.matmul(a.astype(kind), b.astype(kind).T)
    return product
