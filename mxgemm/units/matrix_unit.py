"""The truncating matrix unit: D = c + Σ a_k·b_k over groups of L products, to the bit.

For each group (docs/units.md, "The model"):

1. products are exact, with the raw sum of the operands' exponents as exponent;
2. η is the largest exponent among the products and c, a zero c counting as :data:`ZERO_EXPONENT`;
3. every term is truncated towards zero to a multiple of 2^(η − F);
4. the terms are added exactly;
5. the sum is converted (:attr:`~mxgemm.configs.UnitArithmetic.output`), and a zero is +0.

A tile of entries advances one k at a time.  Products of at most 22 bits, their quotients
by 2^(η − F) and sums of at most 33 of them are exact in float64, so that steps 3 and 4
are one multiplication, one ``trunc`` and one addition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import UnitArithmetic
from mxgemm.units.formats import Float64, raw_exponents
from mxgemm.units.special import Specials, find_specials

__all__ = ["ZERO_EXPONENT", "Panel", "accumulate", "panel"]

Exponents = NDArray[np.int16]

ZERO_EXPONENT = -133
"""Exponent with which a zero term takes part, whatever its sign (e_zero, confirmed on Hopper)."""

_EXPONENT_FIELD = np.int64(0x7FF << 52)


@dataclass(frozen=True, slots=True)
class Panel:
    """A slice of one operand along K, as the unit reads it.

    Attributes
    ----------
    values : (K, rows or columns[, G]) float64 array
        Finite values; Inf and NaN are replaced by 0.
    exponents : int16 array of that shape
        Raw exponents (:func:`~mxgemm.units.formats.raw_exponents`).
    specials : float64 array or None
        The values with Inf and NaN, when there are any.
    low, high : int
        Least and largest exponent of a nonzero value; (0, 0) when all are zero.
    """

    values: Float64
    exponents: Exponents
    specials: Float64 | None
    low: int
    high: int


def panel(values: Float64, emin: int) -> Panel:
    """Prepare values, k first, whose format has least exponent ``emin``."""
    finite = np.isfinite(values)
    specials = None
    if not finite.all():
        specials, values = values, np.where(finite, values, 0.0)
    exponents = raw_exponents(values, emin)
    nonzero = exponents[values != 0]
    low, high = (int(nonzero.min()), int(nonzero.max())) if nonzero.size else (0, 0)
    return Panel(values, exponents, specials, low, high)


@dataclass(frozen=True, slots=True)
class _Output:
    """How a sum becomes the unit's output."""

    bits: int
    emin: int
    max_finite: float
    to_nearest: bool

    @property
    def mask(self) -> np.int64:
        """Keeps the leading ``bits`` significant bits of a float64."""
        return np.int64(-1 << (53 - self.bits))

    @property
    def least(self) -> float:
        """Spacing of the output below 2^emin."""
        return 2.0 ** (self.emin - self.bits + 1)


_MAX_F32 = (2 - 2.0**-23) * 2.0**127
_OUTPUTS = {
    "f32-rz": _Output(24, -126, _MAX_F32, False),
    "f32-rz-13": _Output(14, -126, _MAX_F32, False),
    "f16-rne": _Output(11, -14, 65504.0, True),
}


class _Workspace:
    """Buffers of one tile, reused for every group."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.exponent = np.empty(shape, np.int16)
        self.largest = np.empty(shape, np.int16)
        self.power = np.empty(shape, np.float64)
        self.scale = np.empty(shape, np.float64)
        self.term = np.empty(shape, np.float64)


def _largest_product_exponent(a: Exponents, b: Exponents, work: _Workspace) -> Exponents:
    np.add(a[0][:, None], b[0], out=work.largest)
    for left, right in zip(a[1:], b[1:], strict=True):
        np.add(left[:, None], right, out=work.exponent)
        np.maximum(work.largest, work.exponent, out=work.largest)
    return np.maximum(work.largest, ZERO_EXPONENT, out=work.largest)


def _set_alignment(c: Float64, emin: int, exact_range: bool, fraction_bits: int, work: _Workspace) -> None:
    """Put 2^η into ``work.power`` and 2^(F − η) into ``work.scale``."""
    power, scale = work.power.view(np.int64), work.scale.view(np.int64)
    np.copyto(power, work.largest)
    power += 1023
    power <<= 52
    np.bitwise_and(c.view(np.int64), _EXPONENT_FIELD, out=scale)
    if not exact_range:
        np.maximum(work.scale, 2.0**emin, out=work.scale, where=work.scale != 0)
    np.maximum(work.power, work.scale, out=work.power)
    # The exponent fields of x and 2^F/x add up to 2·1023 + F; the difference is right modulo 2^64.
    np.subtract(np.int64((fraction_bits - 2050) << 52), power, out=scale)


def _truncated_sum(a: Float64, b: Float64, c: Float64, work: _Workspace) -> None:
    """Replace c by the exact sum of its own and the products' truncated multiples of 2^(η − F)."""
    c *= work.scale
    np.trunc(c, out=c)
    for left, right in zip(a, b, strict=True):
        np.multiply(left[:, None], right, out=work.term)
        work.term *= work.scale
        np.trunc(work.term, out=work.term)
        c += work.term


def _convert(c: Float64, fraction_bits: int, output: _Output, exact_range: bool, work: _Workspace) -> None:
    """Convert the sum in units of 2^(η − F) to the unit's output, in place."""
    work.power *= 2.0**-fraction_bits
    if not output.to_nearest:
        np.bitwise_and(c.view(np.int64), output.mask, out=c.view(np.int64))
    c *= work.power
    if not exact_range:
        _convert_at_the_ends(c, output)
    c += 0.0  # −0 becomes +0


def _convert_at_the_ends(c: Float64, output: _Output) -> None:
    if output.to_nearest:
        exponents = np.frexp(c)[1] - 1
        steps = np.maximum(exponents, output.emin) - (output.bits - 1)
        c[...] = np.ldexp(np.rint(np.ldexp(c, -steps)), steps)
    else:
        tiny = np.abs(c) < 2.0**output.emin
        c[tiny] = np.trunc(c[tiny] / output.least) * output.least
    large = np.abs(c) > output.max_finite
    c[large] = np.copysign(np.inf, c[large])


def _stays_in_range(a: Panel, b: Panel, c: Float64, unit: UnitArithmetic, output: _Output) -> bool:
    """Whether no sum over this panel can be subnormal, overflow or not finite, whatever cancels.

    Every term of a group is a multiple of 2^(η − F) with η at least the product's
    exponent, and c of its own last place: so is the sum.
    """
    if output.to_nearest or a.specials is not None or b.specials is not None:
        return False
    size = np.abs(c)
    smallest = size[size != 0].min(initial=np.inf)
    largest = size.max(initial=0.0)
    reach = a.high + b.high + 2 + len(a.values).bit_length()
    return bool(
        a.low + b.low - unit.fraction_bits >= output.emin
        and smallest >= 2.0 ** (output.emin + output.bits)
        and reach < 126
        and largest < 2.0**126
    )


def accumulate(a: Panel, b: Panel, c: Float64, unit: UnitArithmetic) -> None:
    """Advance a tile's accumulators through a panel, group after group, in place.

    Parameters
    ----------
    a : Panel of (K, m[, G])
    b : Panel of (K, n[, G])
        With a last axis, G products side by side.
    c : (m, n[, G]) float64 array, C order
        The accumulators' values (each one of the unit's output format); NaN means canonical NaN.
    unit : UnitArithmetic
        A row of kind "truncating".
    """
    output = _OUTPUTS[unit.output]
    exact_range = _stays_in_range(a, b, c, unit, output)
    work = _Workspace(c.shape)
    for start in range(0, len(a.values), unit.group):
        group = slice(start, start + unit.group)
        specials = None if exact_range else _group_specials(a, b, group, c)
        _largest_product_exponent(a.exponents[group], b.exponents[group], work)
        _set_alignment(c, output.emin, exact_range, unit.fraction_bits, work)
        _truncated_sum(a.values[group], b.values[group], c, work)
        _convert(c, unit.fraction_bits, output, exact_range, work)
        if specials is not None:
            specials.write(c)


def _group_specials(a: Panel, b: Panel, group: slice, c: Float64) -> Specials | None:
    """Entries that Inf or NaN decides in this group; c is left finite."""
    specials = None
    if a.specials is not None or b.specials is not None:
        left = a.values if a.specials is None else a.specials
        right = b.values if b.specials is None else b.specials
        specials = find_specials(left[group], right[group])
    finite = np.isfinite(c)
    if finite.all():
        return specials
    specials = (specials or Specials.none(c.shape)).with_addend(c)
    c[~finite] = 0.0
    return specials
