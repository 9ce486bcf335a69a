"""The factors of T and T̂ in a product's error bound, as exact rationals.

Everything here depends on the configuration, the architecture and K alone.  The
derivations stand in docs/error-bounds.md under the section that each function names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from mxgemm.bounds.formats import FORMATS, UNIT_FORMAT, power, product_grid
from mxgemm.configs import Configuration, UnitArithmetic, unit_arithmetic

__all__ = ["Factors", "Split", "factors", "gamma", "moduli_bits", "split_of", "upward"]

_OUTPUT_FRACTION = {"f32-rz": 23, "f32-rz-13": 13}
_MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173)


def upward(value: Fraction | None) -> float:
    """The least float64 that is not below ``value``; None, a void bound, is infinity."""
    if value is None:
        return math.inf
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def gamma(n: int, v: Fraction) -> Fraction | None:
    """γ_n(v) = n·v / (1 − n·v); None where n·v >= 1 (Higham, Accuracy and Stability, eq. 3.4)."""
    return n * v / (1 - n * v) if n * v < 1 else None


@dataclass(frozen=True, slots=True)
class Split:
    """Magnitudes of an operand's terms, of what they leave out and of what the products leave out.

    See "Splits" and "Rounded operands" in docs/error-bounds.md.

    Attributes
    ----------
    weights : tuple of Fraction
        ρ_i with |x_i| <= ρ_i·|x|, for |x| at least ``aligned``.
    operand : Fraction
        Factor of T: error of the exact sum of the products made, against A·B.
    aligned : Fraction
        Entries below it enter T̂ as if they were it.
    exact_from : Fraction
        Entries below it (not 0) also carry the absolute error ``residual``.
    residual : Fraction
        Half the least subnormal of the terms' format.
    """

    weights: tuple[Fraction, ...]
    operand: Fraction
    aligned: Fraction
    exact_from: Fraction
    residual: Fraction


@dataclass(frozen=True, slots=True)
class Factors:
    """|error of P| <= operand·T + accumulation·T̂ + absolute, row and column terms aside.

    ``accumulation`` is None where the bound is void (K·u >= 1).
    """

    operand: Fraction
    accumulation: Fraction | None
    absolute: Fraction

    @property
    def leading(self) -> float:
        """Factor of T where no operand is subnormal, rounded up; infinity where void."""
        return upward(None if self.accumulation is None else self.operand + self.accumulation)


def split_of(configuration: Configuration) -> Split | None:
    """How the operands are rounded or split; None where the unit is fed the source itself."""
    if not (configuration.rounds_to or configuration.terms > 1):
        return None
    form = FORMATS[UNIT_FORMAT[str(configuration.unit)]]
    v, terms = form.roundoff, configuration.terms
    if terms == 1:
        return Split((1 + v,), (1 + v) ** 2 - 1, form.least_normal, form.least_normal, form.half_subnormal)
    g = 1 / (1 - v)
    weights = (1 + v, v * g, v**2 * g)[:terms]
    left = v**2 / 2 * g
    dropped = {
        3: v**2 * g**2 + 2 * left + left**2,
        6: 2 * v * g * left + left**2,
        9: Fraction(0),
    }[len(configuration.products)]
    aligned = form.least_normal / v ** (terms - 1)
    # Two terms of float16 keep the relative error while the second is normal with a bit to spare.
    exact_from = aligned * 2 if terms == 2 else aligned
    return Split(weights, dropped, aligned, exact_from, form.half_subnormal)


def _chain(row: UnitArithmetic, n: int, pairs: tuple[Fraction, ...]) -> Fraction:
    """Factor of T̂ of one chain of ``n`` products a pair; see "Truncating units".

    ``pairs`` are the weights of the term products in order; while a pair runs, the
    accumulator and the group are at most the sum of the weights so far.
    """
    truncation = power(-row.fraction_bits)
    conversion = max(power(-_OUTPUT_FRACTION[row.output]) - truncation, Fraction(0))
    groups, tail = divmod(n, row.group)
    whole = row.group * truncation + conversion
    part = tail * truncation + conversion if tail else Fraction(0)
    total, reached = Fraction(0), Fraction(0)
    for position, weight in enumerate(pairs):
        reached += weight
        added = groups * whole + part
        if position == 0:
            # The first group starts from zero: its largest term loses nothing, and one product is exact.
            added -= (truncation + conversion) if n == 1 else truncation
        total += added * reached
    return total


def _additions(configuration: Configuration, k: int) -> int:
    """Rounded additions that a chain's result passes through at most; see "Sections added"."""
    section = min(k, configuration.section or k)
    chains, sections = -(-section // min(section, configuration.chain or k)), -(-k // section)
    return chains - 1 + sections - 1


def _truncating(configuration: Configuration, row: UnitArithmetic, k: int) -> Fraction | None:
    split = split_of(configuration)
    weights = split.weights if split else (Fraction(1),)
    pairs = tuple(weights[i - 1] * weights[j - 1] for i, j in configuration.products)
    length = min(k, configuration.chain or k)
    summed = gamma(_additions(configuration, k), power(-24))
    if summed is None:
        return None
    return _chain(row, length, pairs) + summed * sum(pairs)


def _group_absolute(row: UnitArithmetic) -> Fraction:
    """What underflow can add in one group; see "Underflow in the unit"."""
    if row.unit in ("f16", "f8"):
        return Fraction(0)
    return power(-149) + row.group * power(-126 - row.fraction_bits)


def _fma_absolute(configuration: Configuration) -> Fraction:
    """What underflow can add in one fused multiply-add; see "Chains of fused multiply-adds"."""
    form = FORMATS[configuration.accumulator]
    grid = min(product_grid(a, a) for a in configuration.source_types)
    return form.half_subnormal if grid < form.emin - form.digits + 1 else Fraction(0)


def moduli_bits(configuration: Configuration, k: int) -> int:
    """The bits q of i8crtN: the largest integer with 2K·2^(2q) <= Πm; below 1 there is no such product."""
    room = math.prod(_MODULI[: configuration.moduli]) // (2 * max(k, 1))
    return (room.bit_length() - 1) // 2


@lru_cache(maxsize=4096)
def factors(configuration: Configuration, arch: str, k: int) -> Factors:
    """The factors of a product of ``k`` terms; zero for exact integers.

    Raises
    ------
    UnsupportedError
        When ``arch`` has no row for the unit.
    """
    zero = Fraction(0)
    if configuration.is_integer or k == 0:
        return Factors(zero, zero, zero)
    row = unit_arithmetic(configuration.unit, arch) if configuration.unit else None
    v = FORMATS[configuration.accumulator].roundoff
    if configuration.moduli:
        # One rounding of the exact integer; the truncation has row and column terms only.
        return Factors(zero, v, FORMATS[configuration.accumulator].half_subnormal)
    if row is None or row.kind == "fma-chain":
        growth = gamma(k, v)
        lost = k * _fma_absolute(configuration)
        # What one step loses absolutely grows with the relative errors of the steps after it.
        return Factors(zero, growth, lost * (1 + growth) if growth is not None else zero)
    split = split_of(configuration)
    length = min(k, configuration.chain or k)
    full, rest = divmod(k, length)
    groups = len(configuration.products) * (full * -(-length // row.group) + -(-rest // row.group))
    # Unscaling is by a power of two: it rounds only where the result is subnormal.
    unscaling = power(-150) if configuration.scaling != "none" else zero
    return Factors(
        split.operand if split else zero,
        _truncating(configuration, row, k),
        groups * _group_absolute(row) + unscaling,
    )
