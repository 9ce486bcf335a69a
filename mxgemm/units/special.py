"""Where Inf and NaN decide an entry of a product, from the operands alone.

An entry is NaN if one of its operands is, if 0·Inf occurs, or if infinite products
of both signs occur; else it is that Inf.  Occurrences are counted with matrix products
of 0 and 1, which are exact, so that no library's treatment of Inf·0 matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import Float64
from mxgemm.units.sums import times_transposed

__all__ = ["Specials", "find_specials"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Specials:
    """Entries that are not finite: NaN, and sums that hold +Inf or −Inf."""

    nan: Mask
    positive: Mask
    negative: Mask

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Specials:
        """No entry is special."""
        return cls(*(np.zeros(shape, np.bool_) for _ in range(3)))

    def with_addend(self, c: Float64) -> Specials:
        """Take an addend's own Inf and NaN into account."""
        return Specials(
            self.nan | np.isnan(c), self.positive | np.isposinf(c), self.negative | np.isneginf(c)
        )

    def merged(self, other: Specials) -> Specials:
        """Both occurrences together, as for two stretches of K."""
        return Specials(self.nan | other.nan, self.positive | other.positive, self.negative | other.negative)

    def write(self, out: NDArray[np.floating]) -> None:
        """Overwrite the special entries of ``out``."""
        out[self.positive] = np.inf
        out[self.negative] = -np.inf
        out[self.nan | (self.positive & self.negative)] = np.nan


def _counts(pairs: list[tuple[Mask, Mask]]) -> Mask:
    """Entries where any pair of masks, (K, m[, G]) and (K, n[, G]), meets at some k."""
    left = np.concatenate([p[0] for p in pairs]).astype(np.float32)
    right = np.concatenate([p[1] for p in pairs]).astype(np.float32)
    met: Mask = times_transposed(left.swapaxes(0, 1), right.swapaxes(0, 1)) > 0
    return met


def find_specials(a: Float64, b: Float64) -> Specials:
    """Classify the entries of aᵀ·b by the operands' Inf and NaN.

    Parameters
    ----------
    a : (K, m[, G]) array
    b : (K, n[, G]) array
        With a last axis, G products side by side.
    """
    plus_a, minus_a, plus_b, minus_b = np.isposinf(a), np.isneginf(a), np.isposinf(b), np.isneginf(b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    every_a, every_b = np.ones_like(nan_a), np.ones_like(nan_b)
    with np.errstate(invalid="ignore"):
        above_a, below_a, above_b, below_b = a > 0, a < 0, b > 0, b < 0
    return Specials(
        nan=_counts(
            [(nan_a, every_b), (every_a, nan_b), (plus_a | minus_a, b == 0), (a == 0, plus_b | minus_b)]
        ),
        positive=_counts([(plus_a, above_b), (minus_a, below_b), (above_a, plus_b), (below_a, minus_b)]),
        negative=_counts([(plus_a, below_b), (minus_a, above_b), (above_a, minus_b), (below_a, plus_b)]),
    )
