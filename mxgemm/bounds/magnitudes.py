"""Products of magnitudes, rounded up: |A||B| and its relatives, whatever the range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds.doubled import Float64

__all__ = [
    "GUARD",
    "LEAST",
    "Exponents",
    "Scaled",
    "exponents",
    "in_safe_range",
    "safely_scaled",
    "upward_product",
]

Exponents = NDArray[np.int32]

GUARD = 1.0 + 2.0**-46
"""Covers the roundings of up to 64 float64 operations on magnitudes (64·2^-53 < 2^-46)."""

LEAST = 2.0**-1070
"""Added to a sum of magnitudes that is not zero: covers operations that round into float64's subnormals."""

_SAFE = 2.0**400


def exponents(x: Float64, axis: int) -> Exponents:
    """Exponent of the largest magnitude along ``axis`` (kept, as an axis of 1); 0 for a line of zeros."""
    largest = np.max(x, axis=axis, keepdims=True, initial=0.0)
    return np.where(largest > 0, np.frexp(largest)[1] - 1, 0)


def in_safe_range(*operands: Float64) -> bool:
    """Whether products and their rounding errors neither over- nor underflow in float64."""
    for x in operands:
        if x.size:
            largest = float(x.max())
            if largest > _SAFE or float(np.min(x, where=x > 0, initial=1.0)) < 1 / _SAFE:
                return False
    return True


@dataclass(frozen=True, slots=True)
class Scaled:
    """Operands times powers of two a row of A and a column of B, and the exponents that undo it.

    ``lost`` bounds what underflow while scaling and multiplying takes from one entry of the scaled
    product, where it is not structurally zero.
    """

    a: Float64
    b: Float64
    exponent: Exponents
    lost: float


def safely_scaled(a: Float64, b: Float64) -> Scaled:
    """Scale rows of A and columns of B to [1, 2), so that products cannot overflow."""
    rows, cols = exponents(np.abs(a), -1), exponents(np.abs(b), -2)
    # Scaling an operand and rounding a product into the subnormals lose below 2^-1074 each, times 2.
    lost = max(a.shape[-1], 1) * 2.0**-1070
    return Scaled(np.ldexp(a, -rows), np.ldexp(b, -cols), rows + cols, lost)


def upward_product(a: Float64, b: Float64) -> Float64:
    """A·B for nonnegative operands, not below the exact product; 0 exactly where no term is nonzero.

    Parameters
    ----------
    a : (…, M, K) array, all >= 0
    b : (…, K, N) array, all >= 0

    Returns
    -------
    (…, M, N) array
        Infinity where it overflows.
    """
    # A sum of K nonnegative products has relative error at most γ_K(2^-53), in any order.
    guard = 1.0 + 2 * (a.shape[-1] + 2) * 2.0**-53
    if in_safe_range(a, b):
        direct: Float64 = np.matmul(a, b) * guard
        return direct
    scaled = safely_scaled(a, b)
    product = np.matmul(scaled.a, scaled.b) * guard
    nonzero = np.matmul((a > 0).astype(np.float64), (b > 0).astype(np.float64)) > 0
    raised = np.ldexp(product + scaled.lost, scaled.exponent)
    return np.where(nonzero, np.nextafter(raised, np.inf), 0.0)
