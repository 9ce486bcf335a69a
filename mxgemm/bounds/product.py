"""P = A·B: an estimate with its radius, and the bound on what a configuration may answer instead."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds.doubled import Float64, dot2
from mxgemm.bounds.factors import Factors, factors, split_of, upward
from mxgemm.bounds.magnitudes import GUARD, LEAST, in_safe_range, safely_scaled, upward_product
from mxgemm.bounds.nonfinite import decided, rounded_class
from mxgemm.bounds.operands import Side, side
from mxgemm.bounds.slices import sliced_product
from mxgemm.configs import Configuration, unit_arithmetic

__all__ = ["ProductEstimate", "estimate"]


@dataclass(frozen=True, slots=True)
class ProductEstimate:
    """What is known of P, entry by entry; all arrays are (…, M, N).

    Attributes
    ----------
    high, low, radius : array
        |exact P − (high + low)| <= radius, over the finite operands.
    error : array
        |computed P − exact P| <= error, for operands that are finite.
    reach : array
        No value that the computation passes through is larger.
    special : array or None
        NaN or ±Inf where operands that are not finite decide the entry, 0 elsewhere.
    overflowed : array or None
        Where rounding a finite operand to the unit's format made the Inf of ``special``.
    """

    high: Float64
    low: Float64
    radius: Float64
    error: Float64
    reach: Float64
    special: Float64 | None
    overflowed: NDArray[np.bool_] | None


def estimate(
    configuration: Configuration,
    arch: str,
    a: Float64,
    b: Float64,
    dtypes: tuple[str, str],
    *,
    fine: bool,
) -> ProductEstimate:
    """Estimate A·B and bound its error.

    Parameters
    ----------
    a : (…, M, K) array
    b : (…, K, N) array
        The caller's operands, widened exactly.
    dtypes : (str, str)
        Their element types before widening.
    fine : bool
        Whether the estimate needs twice float64's precision.
    """
    k = a.shape[-1]
    row = unit_arithmetic(configuration.unit, arch) if configuration.unit else None
    fed_a, fed_b = rounded_class(a, configuration), rounded_class(b, configuration)
    special = decided(fed_a, fed_b)
    overflowed = None
    if special is not None:
        by_caller = decided(a, b)
        overflowed = ~np.isfinite(special)
        if by_caller is not None:
            overflowed &= np.isfinite(by_caller)
        a, b = np.where(np.isfinite(fed_a), a, 0.0), np.where(np.isfinite(fed_b), b, 0.0)
    left = side(configuration, row, np.abs(a), dtypes[0], -1)
    right = side(configuration, row, np.abs(b), dtypes[1], -2)
    total = upward_product(left.magnitude, right.magnitude)
    raised = total
    if left.aligned is not left.magnitude or right.aligned is not right.magnitude:
        raised = upward_product(left.aligned, right.aligned)
    found = factors(configuration, arch, k)
    error = _error(configuration, found, (left, right), (total, raised))
    reach = _reach(configuration, found, raised)
    return ProductEstimate(*_reference(a, b, total, fine=fine), error, reach, special, overflowed)


def _weight(configuration: Configuration) -> Fraction:
    """Σ|A_i||B_j| over the products made, in units of T̂."""
    split = split_of(configuration)
    if split is None:
        return Fraction(1)
    weights = split.weights
    return sum((weights[i - 1] * weights[j - 1] for i, j in configuration.products), Fraction(0))


def _reach(configuration: Configuration, found: Factors, raised: Float64) -> Float64:
    if found.accumulation is None:
        return np.where(raised > 0, np.inf, 0.0)
    return raised * upward(_weight(configuration) * (1 + found.accumulation)) * GUARD


def _error(
    configuration: Configuration, found: Factors, sides: tuple[Side, Side], sums: tuple[Float64, Float64]
) -> Float64:
    """The bound on P's error; ``sums`` are T and T̂."""
    (left, right), (total, raised) = sides, sums
    if found.accumulation is None:
        return np.where(raised > 0, np.inf, 0.0)
    error = upward(found.operand) * total + upward(found.accumulation) * raised
    error += np.where(total > 0, upward(found.absolute), 0.0)
    if left.lost is not None or right.lost is not None:
        error += _absolute_operand_error(configuration, left, right)
    return np.where(total > 0, error * GUARD + LEAST, 0.0)


def _absolute_operand_error(configuration: Configuration, left: Side, right: Side) -> Float64:
    """docs/error-bounds.md, "Absolute terms of operands": h_a·|b| + |a|·h_b and their product."""
    factor, joint = _LOST_EXACT if configuration.moduli else _LOST_SPLIT
    nothing = np.zeros((1, 1))
    lost_a = left.lost if left.lost is not None else nothing * left.magnitude
    lost_b = right.lost if right.lost is not None else nothing * right.magnitude
    first = upward_product(lost_a, right.magnitude + joint * lost_b)
    return factor * (first + upward_product(left.magnitude, lost_b))


# (c, d) in c·(H_a·(|B| + d·H_b) + |A|·H_b).  Truncation towards zero cannot enlarge an operand.
_LOST_EXACT = (1.0, 0.0)
# 1 + 8·ρ_2 with ρ_2 <= 2^-8/(1 − 2^-8), and the largest count of joint terms.
_LOST_SPLIT = (1.04, 13.0)


def _reference(a: Float64, b: Float64, total: Float64, *, fine: bool) -> tuple[Float64, Float64, Float64]:
    """An estimate of A·B and its radius; ``total`` is |A||B| rounded up."""
    if in_safe_range(np.abs(a), np.abs(b)):
        high, low, radius = _fine(a, b, total) if fine else _plain(a, b, total)
        return high, low, radius * GUARD
    scaled = safely_scaled(a, b)
    shrunk = np.ldexp(total, -scaled.exponent) + 2.0**-1070
    high, low, radius = (_fine if fine else _plain)(scaled.a, scaled.b, shrunk)
    raised = np.ldexp(radius * GUARD + 10 * scaled.lost, scaled.exponent) + 2.0**-1073
    high, low = np.ldexp(high, scaled.exponent), np.ldexp(low, scaled.exponent)
    return high, low, np.where(total > 0, raised, 0.0)


def _plain(a: Float64, b: Float64, total: Float64) -> tuple[Float64, Float64, Float64]:
    """One float64 product: within γ_K(2^-53)·|A||B| in any order."""
    high = np.matmul(a, b)
    return high, np.zeros_like(high), total * ((a.shape[-1] + 2) * 2.0**-53)


def _fine(a: Float64, b: Float64, total: Float64) -> tuple[Float64, Float64, Float64]:
    """Twice the precision: by BLAS where rows and columns are scaled well enough, else entry by entry."""
    high, low, radius = sliced_product(a, b)
    if np.all(radius <= total * 2.0**-64):
        return high, low, radius
    high, low = dot2(a, b)
    return high, low, total * (2 * (a.shape[-1] + 2) ** 2 * 2.0**-106)
