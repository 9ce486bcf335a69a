"""One tile of D: what the exact result is, how far a configuration may be from it, and what is decided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds import activations
from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.epilogue import Quantity, Roundings, added, scaled
from mxgemm.bounds.factors import upward
from mxgemm.bounds.formats import FORMATS
from mxgemm.bounds.magnitudes import GUARD
from mxgemm.bounds.product import ProductEstimate, estimate
from mxgemm.bounds.scalars import rounded_array, rounded_scalar
from mxgemm.bounds.tiles import Subject, Tile, widened

__all__ = ["Assessment", "Mask", "assess"]

Mask = NDArray[np.bool_]

_COARSE_MODULI = 11
"""Up to here i8crtN's own error, 2^-35 and more, is far above that of one float64 product."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """What must hold for one tile of D; arrays are (matrices, rows, columns).

    Attributes
    ----------
    high, low, radius : array
        |exact D − (high + low)| <= radius, before D's element type.
    bound : array
        |D − exact D| <= bound; infinity where the result may overflow on the way.
    expected : array
        NaN or ±Inf where the operands demand it, 0 elsewhere.
    overflow : float
        Magnitude from which D's element type gives Inf; infinity where it cannot.
    error : array
        The bound before the conversion to D's element type, where that may overflow.
    overflowed : mask
        Where rounding a finite operand to the unit's format gave the Inf or NaN of ``expected``.
    """

    high: Float64
    low: Float64
    radius: Float64
    bound: Float64
    expected: Float64
    overflow: float
    error: Float64
    overflowed: Mask

    @property
    def void(self) -> Mask:
        """Where the bound is void: the verdict is "overflow possible"."""
        return np.isinf(self.bound)


def assess(subject: Subject, tile: Tile) -> Assessment:
    """Assess the entries of one tile.

    Raises
    ------
    UnsupportedError
        When ``arch`` has no row for the configuration's unit.
    """
    with np.errstate(all="ignore"):
        return _finish(subject, tile, _product(subject, tile))


def _product(subject: Subject, tile: Tile) -> ProductEstimate | None:
    problem, configuration = subject.problem, subject.configuration
    if not problem.reads_operands:
        return None
    fine = subject.kind == problem.d.dtype == "float64"
    if 0 < configuration.moduli <= _COARSE_MODULI:
        fine = False
    dtypes = (problem.a.dtype, problem.b.dtype)
    a, b = widened(tile.of_a(subject.operands.a)), widened(tile.of_b(subject.operands.b))
    return estimate(configuration, subject.arch, a, b, dtypes, fine=fine)


@dataclass(frozen=True, slots=True)
class _Term:
    """One addend of S', and its class: the NaN or Inf that it is, 0 where it is finite."""

    quantity: Quantity
    plain: Float64


def _class_of(x: Float64) -> Float64:
    return np.where(np.isfinite(x), 0.0, x)


def _terms(subject: Subject, tile: Tile, product: ProductEstimate | None) -> list[_Term]:
    problem, kind, operands = subject.problem, subject.kind, subject.operands
    roundings, found = Roundings.of(kind), []
    if product is not None:
        found.append(_product_term(subject, tile, product))
    addend = tile.of_d(operands.c)
    if problem.reads_c and addend is not None:
        values, beta = rounded_array(addend, kind), np.float64(rounded_scalar(problem.beta, kind))
        quantity = scaled(Quantity.given(values), beta, roundings)
        found.append(_Term(quantity, _class_of(values) * np.sign(beta)))
    bias = tile.of_d(operands.bias)
    if bias is not None:
        values = rounded_array(bias, kind)
        found.append(_Term(Quantity.given(values), _class_of(values)))
    return found


def _product_term(subject: Subject, tile: Tile, product: ProductEstimate) -> _Term:
    problem, kind = subject.problem, subject.kind
    quantity = Quantity(product.high, product.low, product.radius, product.error, product.reach)
    plain = np.zeros_like(product.high) if product.special is None else product.special
    alpha = [np.asarray(rounded_scalar(problem.alpha, kind))] if problem.alpha != 1 else []
    scales = (tile.of_d(x) for x in (subject.operands.scale_rows, subject.operands.scale_cols))
    factors = [*alpha, *(rounded_array(x, kind) for x in scales if x is not None)]
    for factor in factors:
        # An infinite factor makes the entry void, since 0 times it is NaN; a NaN decides it.
        finite = np.where(np.isfinite(factor), factor, 0.0)
        quantity = scaled(quantity, finite, Roundings.of(kind))
        quantity = replace(quantity, reach=np.where(np.isinf(factor), np.inf, quantity.reach))
        unusable = np.isinf(factor) & np.isfinite(plain)
        plain = np.where(unusable, np.inf, plain * np.sign(factor))
    return _Term(quantity, plain)


def _finish(subject: Subject, tile: Tile, product: ProductEstimate | None) -> Assessment:
    roundings = Roundings.of(subject.kind)
    zeros = np.zeros(tile.shape)
    terms = _terms(subject, tile, product) or [_Term(Quantity.given(zeros), zeros)]
    total = reduce(lambda x, y: added(x, y, roundings), (term.quantity for term in terms))
    plain = reduce(np.add, (term.plain for term in terms))
    # A NaN among the operands decides an entry even where its finite part may overflow.
    void = ~((total.reach < roundings.largest) & (total.error < np.inf)) & ~np.isnan(plain)
    special = ~np.isfinite(plain) & ~void
    activated, expected = _activated(subject, total, np.where(special, plain, 0.0), special)
    flagged = zeros > 0 if product is None or product.overflowed is None else product.overflowed & special
    found = _converted(subject, activated, expected, flagged)
    return replace(found, bound=np.where(void, np.inf, found.bound))


def _clipped(
    high: Float64, low: Float64, radius: Float64, limits: tuple[float, float]
) -> tuple[Float64, Float64, Float64]:
    """Limit an estimate; at a limit ``low`` is dropped, and the radius makes up for it."""
    clipped = np.clip(high, *limits)
    at_limit = (clipped == limits[0]) | (clipped == limits[1])
    return clipped, np.where(at_limit, 0.0, low), np.where(at_limit, radius + np.abs(low), radius)


def _activated(subject: Subject, x: Quantity, plain: Float64, special: Mask) -> tuple[Quantity, Float64]:
    """The activation of a quantity; decided entries become exact values or stay in ``expected``."""
    spec, kind = subject.problem.epilogue, subject.kind
    lo, hi = (rounded_scalar(bound, kind) for bound in (spec.lo, spec.hi))
    expected = np.where(special, activations.limit(spec, plain, lo, hi), 0.0)
    high, low, radius, error = x.high, x.low, x.radius, x.error
    if spec.activation in ("relu", "clamp"):
        limits = (0.0, np.inf) if spec.activation == "relu" else (lo, hi)
        high, low, radius = _clipped(high, low, radius, limits)
    elif spec.is_transcendental:
        slope, size = activations.SLOPES[spec.activation], x.size
        roundings = Roundings.of(kind)
        own = activations.ERRORS[kind] * roundings.u * (size + error) + roundings.h
        error = (slope * error + np.where(x.reach > 0, own, 0.0)) * GUARD
        radius = (slope * (radius + np.abs(low)) + activations.REFERENCE_ERROR * size) * GUARD
        high, low = activations.reference(spec, high), np.zeros_like(low)
    settled = special & np.isfinite(expected)
    high = np.where(special, np.where(settled, expected, 0.0), high)
    low, radius, error = (np.where(special, 0.0, part) for part in (low, radius, error))
    return Quantity(high, low, radius, error, x.reach), np.where(settled, 0.0, expected)


def _converted(subject: Subject, x: Quantity, expected: Float64, overflowed: Mask) -> Assessment:
    """Conversion to D's element type: one rounding, which saturates or overflows as the type does."""
    dtype = subject.problem.d.dtype
    form = FORMATS[dtype]
    if dtype == subject.kind:
        return Assessment(x.high, x.low, x.radius, x.error, expected, np.inf, x.error, overflowed)
    size = x.size + x.error
    if form.saturates:
        size = np.minimum(size, float(form.largest))
    made = upward(form.roundoff) * size + upward(form.half_subnormal)
    # An entry that nothing has reached is 0, and stays it.
    made = np.where((x.reach > 0) | (x.high != 0), made, 0.0)
    bound = (x.error + made) * GUARD
    if not form.saturates:
        return Assessment(
            x.high, x.low, x.radius, bound, expected, upward(form.overflow), x.error, overflowed
        )
    largest = float(form.largest)
    high, low, radius = _clipped(x.high, x.low, x.radius, (-largest, largest))
    high = np.where(np.isinf(expected), np.copysign(largest, expected), high)
    expected = np.where(np.isinf(expected), 0.0, expected)
    return Assessment(high, low, radius, bound, expected, np.inf, x.error, overflowed)
