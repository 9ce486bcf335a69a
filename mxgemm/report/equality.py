"""When two results are equal: the same bits, any NaN equal to any NaN, and an ulp bound for gelu and silu.

docs/evidence.md, "Equal", derives the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.activations import ULPS

__all__ = ["KERNEL_ULPS", "differing", "tolerance"]

Array = NDArray[Any]

KERNEL_ULPS: Mapping[str, Mapping[str, int]] = {
    "gelu": {"float32": 16, "float64": 16},
    "gelu-tanh": {"float32": 16, "float64": 4096},
    "silu": {"float32": 16, "float64": 16},
}
"""Largest error of the kernels' activations in units in the last place of the accumulator's type."""


def tolerance(activation: str, accumulator: str, result: str) -> int:
    """Numbers of the result's type that may lie between a kernel's value and the CPU model's.

    0 unless a mathematical library computes the activation.  In a type narrower than the accumulator's
    the two errors amount to less than one unit, which rounding turns into one.
    """
    if activation not in KERNEL_ULPS:
        return 0
    if result != accumulator:
        return 1
    return KERNEL_ULPS[activation][accumulator] + int(np.ceil(ULPS[activation][accumulator]))


def _apart(x: Array, y: Array) -> NDArray[np.uint64]:
    """How many numbers of the type lie from one to the other; both zeros are one number."""
    size = x.dtype.itemsize
    words = [np.ascontiguousarray(one).view(f"u{size}").astype(np.uint64) for one in (x, y)]
    sign = np.uint64(1 << (8 * size - 1))
    size_x, size_y = (word & (sign - np.uint64(1)) for word in words)
    below_x, below_y = (word & sign for word in words)
    # Magnitudes have one bit less than the word, so that neither a difference nor a sum overflows.
    same = np.where(size_x > size_y, size_x - size_y, size_y - size_x)
    return np.where(below_x == below_y, same, size_x + size_y)


def differing(found: Array, expected: Array, allowed: int = 0) -> NDArray[np.bool_]:
    """Where two results of one type and shape differ.

    Parameters
    ----------
    found, expected : arrays
    allowed : int
        As :func:`tolerance` gives it.
    """
    words = f"u{found.dtype.itemsize}"
    different: NDArray[np.bool_] = np.ascontiguousarray(found).view(words) != np.ascontiguousarray(
        expected
    ).view(words)
    if found.dtype.kind in "iu" or not different.any():
        return different
    with np.errstate(invalid="ignore"):
        both_nan = np.isnan(found) & np.isnan(expected)
        one_nan = np.isnan(found) != np.isnan(expected)
    different &= ~both_nan
    if allowed:
        different &= one_nan | (_apart(found, expected) > allowed)
    return different
