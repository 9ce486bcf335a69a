"""Integer products on 8-bit units: exact, modulo a power of two.

The units multiply bytes and add into 32-bit accumulators that wrap.  Here float32
matrix products stand for them, over blocks of K short enough to be exact.  Wider
integers are cut into byte limbs, a = Σ a_i·2^(8i); only i + j < bytes matters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import numpy_dtype
from mxgemm.units.sums import times_transposed

__all__ = ["DRAIN", "byte_limbs", "byte_product", "limb_pairs", "limb_product"]

Int32 = NDArray[np.int32]
Bytes = NDArray[Any]

DRAIN = 8192
"""Products along K after which 32-bit accumulators go into 64-bit sums: four pairs of one
weight reach 4·255²·8192 < 2^31."""

_FLOAT32_EXACT = 1 << 24


def _largest(x: Bytes) -> int:
    return 255 if x.dtype == np.uint8 else 128


def byte_product(a: Bytes, b: Bytes) -> Int32:
    """Multiply 8-bit matrices A by Bᵀ into 32-bit accumulators that wrap.

    Parameters
    ----------
    a : (M, K[, G]) int8 or uint8 array
    b : (N, K[, G]) int8 or uint8 array

    Returns
    -------
    (M, N[, G]) int32 array
    """
    block = _FLOAT32_EXACT // (_largest(a) * _largest(b))
    total = np.zeros((a.shape[0], b.shape[0], *a.shape[2:]), np.int32)
    for k in range(0, a.shape[1], block):
        ks = slice(k, k + block)
        part = times_transposed(a[:, ks].astype(np.float32), b[:, ks].astype(np.float32))
        if k == 0:
            np.copyto(total, part, casting="unsafe")
        else:
            total += part.astype(np.int32)
    return total


def byte_limbs(x: NDArray[Any]) -> list[Bytes]:
    """The bytes of each integer, lowest first; the top one carries the sign of a signed type."""
    size = x.dtype.itemsize
    little = np.ascontiguousarray(x).astype(x.dtype.newbyteorder("<"), copy=False)
    planes = little.view(np.uint8).reshape(*x.shape, size)
    limbs = [np.ascontiguousarray(planes[..., i]) for i in range(size)]
    if x.dtype.kind == "i":
        limbs[-1] = limbs[-1].view(np.int8)
    return limbs


def limb_pairs(limbs_a: int, limbs_b: int, size: int, weight: int) -> list[tuple[int, int]]:
    """Pairs of limbs whose product has weight 2^(8·weight), for results of ``size`` bytes."""
    if weight >= size:
        return []
    return [(i, weight - i) for i in range(limbs_a) if 0 <= weight - i < limbs_b]


def _horner(a: list[Bytes], b: list[Bytes], size: int) -> NDArray[Any]:
    """Results of at most 32 bits in one accumulator: the highest weight first, shift by 8, the next."""
    total = np.zeros((a[0].shape[0], b[0].shape[0], *a[0].shape[2:]), np.int32)
    for weight in reversed(range(size)):
        total <<= np.int32(8)
        for i, j in limb_pairs(len(a), len(b), size, weight):
            total += byte_product(a[i], b[j])
    return total


def _drained(a: list[Bytes], b: list[Bytes], size: int, drain: int) -> NDArray[Any]:
    """64-bit results: 32-bit accumulators, one a weight, drained into 64-bit sums along K."""
    total = np.zeros((a[0].shape[0], b[0].shape[0], *a[0].shape[2:]), np.int64)
    for weight in range(size):
        pairs = limb_pairs(len(a), len(b), size, weight)
        for k in range(0, a[0].shape[1], drain):
            ks = slice(k, k + drain)
            part = np.zeros(total.shape, np.int32)
            for i, j in pairs:
                part += byte_product(a[i][:, ks], b[j][:, ks])
            total += part.astype(np.int64) << np.int64(8 * weight)
    return total


def limb_product(a: NDArray[Any], b: NDArray[Any], accumulator: str, drain: int = DRAIN) -> NDArray[Any]:
    """Multiply integer matrices A by Bᵀ modulo 2^bits of the accumulator, by byte limbs.

    Parameters
    ----------
    a : (M, K[, G]) integer array
    b : (N, K[, G]) integer array
    accumulator : str
        Integer type of the result, at least as wide as the operands.
    drain : int
        Products along K between drains of a 64-bit result.
    """
    kind = numpy_dtype(accumulator)
    limbs_a, limbs_b = byte_limbs(a), byte_limbs(b)
    if kind.itemsize <= 4:
        return _horner(limbs_a, limbs_b, kind.itemsize).astype(kind)
    return _drained(limbs_a, limbs_b, kind.itemsize, drain).astype(kind)
