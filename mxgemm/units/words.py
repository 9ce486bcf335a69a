"""Integers of 192 bits as rows of 32-bit words, vectorised over entries, and their one rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import Float64, Format

__all__ = ["WORDS", "Words", "negate", "round_words", "subtract_multiple", "where_at_least"]

WORDS = 6

Words = NDArray[np.int64]
"""(WORDS, entries) int64 array, lowest word first; two's complement in the top word."""

_LOW = np.int64(0xFFFFFFFF)


def _carried(x: Words) -> Words:
    """Bring every word but the top one into [0, 2^32), carrying (also borrows) upwards."""
    x = x.copy()
    for w in range(WORDS - 1):
        x[w + 1] += x[w] >> 32
        x[w] &= _LOW
    return x


def subtract_multiple(x: Words, constant: int, times: NDArray[np.int64]) -> Words:
    """Subtract times·constant from x, for 0 ≤ times < 2^16; words of ``x`` may be up to 2^48."""
    words = np.array([(constant >> (32 * w)) & 0xFFFFFFFF for w in range(WORDS)], np.int64)
    return _carried(x - words[:, None] * times)


def where_at_least(x: Words, constant: int) -> NDArray[np.bool_]:
    """Where the carried ``x`` is at least ``constant``."""
    difference = subtract_multiple(x, constant, np.ones(x.shape[1], np.int64))
    at_least: NDArray[np.bool_] = difference[-1] >= 0
    return at_least


def negate(x: Words) -> tuple[Words, NDArray[np.bool_]]:
    """Magnitude and sign of carried words."""
    negative = x[-1] < 0
    return _carried(np.where(negative, -x, x)), negative


def _leading(x: Words) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.int64]]:
    """The top 64 bits with the leading one in bit 63, whether anything lies below, and the value of bit 63.

    Zero gives 0.
    """
    top = np.zeros(x.shape[1], np.int64)
    for w in range(1, WORDS):
        top = np.where(x[w] != 0, w, top)
    padded = np.concatenate([np.zeros((2, x.shape[1]), np.int64), x]).astype(np.uint64)
    first, second, third = (np.take_along_axis(padded, (top + 2 - d)[None], axis=0)[0] for d in range(3))
    length = np.frexp(first.astype(np.float64))[1].astype(np.uint64)
    shift = np.uint64(32) - length
    bits = (first << (shift + np.uint64(32))) | (second << shift) | (third >> length)
    position = np.arange(WORDS)[:, None]
    below = ((x != 0) & (position < top - 2)).any(axis=0)
    below |= (third & ((np.uint64(1) << length) - np.uint64(1))) != 0
    return bits, below, 32 * top + length.astype(np.int64) - 1


def round_words(x: Words, exponents: NDArray[np.int64], fmt: Format) -> Float64:
    """x·2^exponents rounded once to nearest even in ``fmt`` ("f32" or "f64"), as float64.

    Parameters
    ----------
    x : Words
        Carried magnitudes.
    exponents : (entries,) int64 array
    fmt : Format
        Subnormals are kept and overflow gives Inf.
    """
    bits, below, leading = _leading(x)
    leading = leading + exponents
    precision = fmt.fraction_bits + 1 - np.maximum(fmt.emin - leading, 0)
    dropped = np.clip(64 - precision, 1, 65).astype(np.uint64)
    # 2^64 and beyond cannot be shifted by: the half of the last place is taken first.
    halves = bits >> (dropped - np.uint64(1))
    rest = bits - (halves << (dropped - np.uint64(1)))
    kept, half = halves >> np.uint64(1), halves & np.uint64(1)
    sticky = below | (rest != 0)
    kept += half & (sticky.astype(np.uint64) | (kept & np.uint64(1)))
    value = np.ldexp(kept.astype(np.float64), leading - 63 + dropped.astype(np.int64))
    value = np.where(bits == 0, 0.0, value)
    return np.where(value > fmt.max_finite, np.inf, value)
