"""Bounds that need no operands: the factor of |A||B|, and the bound in words."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from mxgemm.bounds.factors import factors, moduli_bits
from mxgemm.configs import Configuration, unit_arithmetic

__all__ = ["describe", "leading"]


def leading(configuration: Configuration, arch: str, k: int) -> float | None:
    """The factor f in |computed P − A·B| <= f·|A||B|, rounded up.

    For operands without subnormals, absolute (underflow) terms aside.

    Parameters
    ----------
    configuration : Configuration
    arch : str
        Its unit's arithmetic decides the factor.
    k : int
        Products of one entry.

    Returns
    -------
    float or None
        0 for exact integers, infinity where the bound is void, None where it has terms
        in row and column maxima or in the range of a format, so that no factor exists.

    Raises
    ------
    UnsupportedError
        When ``arch`` has no row for the unit.
    """
    if configuration.has_range_terms:
        return None
    return factors(configuration, arch, k).leading


def _rounded_up(factor: Fraction | None) -> str:
    """Three digits, never below the factor."""
    if factor is None:
        return "inf"
    up = Context(prec=3, rounding=ROUND_CEILING)
    return f"{float(up.divide(Decimal(factor.numerator), Decimal(factor.denominator))):.3g}"


def describe(configuration: Configuration, arch: str, k: int) -> str:
    """The bound of P = A·B in one line, T = |A||B|, T̂ its aligned form.

    Raises
    ------
    UnsupportedError
        When ``arch`` has no row for the unit.
    """
    if configuration.is_integer:
        return f"exact, modulo 2^{configuration.accumulator.strip('uint')}"
    found = factors(configuration, arch, k)
    if configuration.moduli:
        return _describe_moduli(configuration, k)
    parts = []
    if found.operand:
        parts.append(f"{_rounded_up(found.operand)}·T")
    parts.append(f"{_rounded_up(found.accumulation)}·T̂")
    if configuration.scaling != "none":
        parts.append("2^-39·(row maxima·|B| + |A|·column maxima)")
    elif configuration.rounds_to == "f16":
        parts.append("2^-25·Σ(|a| + |b|) for operands below 2^-14")
    return f"{' + '.join(parts)} ({_how(configuration, arch, k)})"


def _describe_moduli(configuration: Configuration, k: int) -> str:
    bits = moduli_bits(configuration, k)
    if bits < 1:
        return f"none: {configuration.moduli} moduli leave no bit at K = {k}"
    digits = 53 if configuration.accumulator == "float64" else 24
    return f"2^{1 - bits}·(row maxima·|B| + |A|·column maxima) + 2^-{digits}·T ({bits} bits an operand)"


def _how(configuration: Configuration, arch: str, k: int) -> str:
    row = unit_arithmetic(configuration.unit, arch) if configuration.unit else None
    if row is None or row.kind == "fma-chain":
        digits = 53 if configuration.accumulator == "float64" else 24
        return f"gamma_{k}(2^-{digits}), one chain of fused multiply-adds"
    length = min(k, configuration.chain or k)
    chains = -(-k // length) if length else 0
    products = len(configuration.products)
    what = f"{products} products, " if products > 1 else ""
    many = "s" if chains != 1 else ""
    sections = -(-k // configuration.section) if configuration.section else 1
    within = f" in {sections} sections" if sections > 1 else ""
    groups = f"groups of {row.group} truncated at 2^-{row.fraction_bits}"
    return f"{what}{chains} chain{many} of {length}{within}, {groups}"
