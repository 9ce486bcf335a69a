"""Operands as a bound sees them: magnitudes, magnitudes raised by alignment, and what is lost absolutely."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.factors import Split, moduli_bits, split_of, upward
from mxgemm.bounds.formats import FORMATS
from mxgemm.bounds.magnitudes import exponents
from mxgemm.configs import Configuration, UnitArithmetic

__all__ = ["EXPONENT_OF_LARGEST", "Side", "side"]

# A row whose largest entry has this exponent is left as it is by f16x3.
EXPONENT_OF_LARGEST = 14


@dataclass(frozen=True, slots=True)
class Side:
    """One operand, entry by entry.

    Attributes
    ----------
    magnitude : array
        |x|.
    aligned : array
        x̂: |x| raised to the least magnitude at which the unit aligns it; 0 for 0.
    lost : array or None
        Absolute part of the error of rounding, splitting or truncating x; None where there is none.
    """

    magnitude: Float64
    aligned: Float64
    lost: Float64 | None


def side(
    configuration: Configuration, row: UnitArithmetic | None, magnitude: Float64, dtype: str, axis: int
) -> Side:
    """One operand of a product.

    Parameters
    ----------
    configuration : Configuration
    row : UnitArithmetic or None
        The unit's arithmetic; None for `scalar`.
    magnitude : (…, M, K) or (…, K, N) array
        |x| of the finite entries, 0 in place of the others.
    dtype : str
        The caller's element type.
    axis : int
        The axis of K.
    """
    if configuration.moduli:
        return _truncated(configuration, magnitude, axis)
    split = split_of(configuration)
    if split is not None:
        return _split(configuration, split, magnitude, axis)
    if row is None or row.kind != "truncating":
        return Side(magnitude, magnitude, None)
    return Side(magnitude, _raised(magnitude, np.float64(upward(FORMATS[dtype].least_normal))), None)


def _raised(magnitude: Float64, least: Float64 | np.float64) -> Float64:
    """max(|x|, least) for x ≠ 0; the array itself where nothing changes."""
    low = (magnitude > 0) & (magnitude < least)
    return np.where(low, least, magnitude) if low.any() else magnitude


def _split(configuration: Configuration, split: Split, magnitude: Float64, axis: int) -> Side:
    scale: Float64 | np.float64 = np.float64(1.0)
    if configuration.scaling != "none":
        scale = np.ldexp(1.0, exponents(magnitude, axis) - EXPONENT_OF_LARGEST)
    low = (magnitude > 0) & (magnitude < upward(split.exact_from) * scale)
    lost = np.where(low, upward(split.residual) * scale, 0.0) if low.any() else None
    return Side(magnitude, _raised(magnitude, upward(split.aligned) * scale), lost)


def _truncated(configuration: Configuration, magnitude: Float64, axis: int) -> Side:
    """Scaled integers of q bits: the largest entry of a line has exponent q − 1, all are cut below 1."""
    bits = moduli_bits(configuration, magnitude.shape[axis])
    unit = np.ldexp(1.0, exponents(magnitude, axis) + 1 - bits)
    return Side(magnitude, magnitude, np.minimum(magnitude, unit))
