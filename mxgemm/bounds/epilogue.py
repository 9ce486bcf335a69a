"""The epilogue's roundings, one after the other, on estimates that carry their error along.

docs/error-bounds.md, "Epilogue", names every term.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mxgemm.bounds.doubled import Float64, two_product, two_sum
from mxgemm.bounds.factors import upward
from mxgemm.bounds.formats import FORMATS
from mxgemm.bounds.magnitudes import GUARD, LEAST

__all__ = ["Quantity", "Roundings", "added", "scaled"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value of the epilogue, entry by entry.

    Attributes
    ----------
    high, low, radius : array
        |exact − (high + low)| <= radius.
    error : array
        |computed − exact| <= error.
    reach : array
        Bounds every magnitude that the computation has passed through.
    """

    high: Float64
    low: Float64
    radius: Float64
    error: Float64
    reach: Float64

    @property
    def size(self) -> Float64:
        """Not below |exact|."""
        return (np.abs(self.high) + np.abs(self.low)) * GUARD + self.radius

    @classmethod
    def given(cls, x: Float64) -> Quantity:
        """A value that is exact to begin with; NaN and Inf are decided elsewhere and count as 0."""
        finite = np.where(np.isfinite(x), x, 0.0)
        zero = np.zeros_like(finite)
        return cls(finite, zero, zero, zero, np.abs(finite))


@dataclass(frozen=True, slots=True)
class Roundings:
    """Rounding to nearest in the accumulator's type: relative error u, absolute error h below its range."""

    u: float
    h: float
    largest: float

    @classmethod
    def of(cls, accumulator: str) -> Roundings:
        """The roundings of one accumulator type."""
        form = FORMATS[accumulator]
        return cls(upward(form.roundoff), upward(form.half_subnormal), float(form.largest))


def scaled(x: Quantity, factor: Float64 | np.float64, roundings: Roundings) -> Quantity:
    """rnd(factor·x); exact where the factor is ±1."""
    size = np.abs(factor)
    high, rest = two_product(x.high, factor)
    # Dekker's product fails near both ends of the range: there the estimate is float64's own.
    failed = ~np.isfinite(rest)
    high, low = two_sum(high, np.where(failed, 0.0, rest) + x.low * factor)
    nonzero = x.reach * size > 0
    vanished = np.where(nonzero & (np.abs(high) < 2.0**-900), 2.0**-1068, 0.0)
    radius = x.radius * size + 2.0**-102 * np.abs(high) + vanished
    radius = np.where(failed, radius + 2.0**-50 * np.abs(high), radius) * GUARD
    low = np.where(np.isfinite(low), low, 0.0)
    carried = x.error * size
    rounds = nonzero & (size != 1)
    made = roundings.u * (np.abs(high) * GUARD + radius + carried) + roundings.h
    error = (carried + np.where(rounds, made + LEAST, 0.0)) * GUARD
    reach = np.maximum(x.reach, x.reach * size * (1 + 2 * roundings.u) + np.where(rounds, roundings.h, 0.0))
    return Quantity(high, low, radius, error, reach)


def added(x: Quantity, y: Quantity, roundings: Roundings) -> Quantity:
    """rnd(x + y); a sum in the subnormal range is exact (Hauser), so nothing is absolute."""
    high, rest = two_sum(x.high, y.high)
    high, low = two_sum(high, np.where(np.isfinite(rest), rest, 0.0) + (x.low + y.low))
    low = np.where(np.isfinite(low), low, 0.0)
    radius = (x.radius + y.radius + 2.0**-102 * (np.abs(x.high) + np.abs(y.high))) * GUARD
    carried = x.error + y.error
    made = roundings.u * (np.abs(high) * GUARD + radius + carried)
    reach = (x.reach + y.reach) * (1 + 2 * roundings.u)
    error = np.where(reach > 0, (carried + made) * GUARD + LEAST, 0.0)
    return Quantity(high, low, radius, error, reach)
