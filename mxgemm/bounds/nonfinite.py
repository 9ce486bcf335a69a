"""Entries of a product that NaN and Inf among the operands decide, whatever the finite part is."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.factors import upward
from mxgemm.bounds.formats import FORMATS, UNIT_FORMAT
from mxgemm.configs import Configuration

__all__ = ["decided", "rounded_class"]

Mask = NDArray[np.bool_]
Counts = tuple[Float64, Float64, Float64]

DEPTH = 1 << 16
"""Products along K that are counted at once: masks and signs are many times a narrow operand's size."""


def rounded_class(x: Float64, configuration: Configuration) -> Float64:
    """``x`` with the entries that rounding to the unit's format makes Inf or 0 made so.

    Only the class matters here (zero, finite and its sign, Inf, NaN); the others stay unrounded.
    """
    if not configuration.rounds_to:
        return x
    form = FORMATS[UNIT_FORMAT[configuration.rounds_to]]
    magnitude = np.abs(x)
    overflows = (magnitude >= upward(form.overflow)) & np.isfinite(x)
    vanishes = magnitude <= upward(form.half_subnormal)  # ties go to the even 0
    if not (overflows.any() or vanishes.any()):
        return x
    return np.where(overflows, np.copysign(np.inf, x), np.where(vanishes, np.copysign(0.0, x), x))


def decided(a: Float64, b: Float64) -> Float64 | None:
    """NaN or Inf where a row of A or a column of B holds a value that is not finite; 0 elsewhere.

    NaN if one factor is NaN, if 0·Inf occurs, or if infinite products of both signs
    occur; else that Inf.

    Parameters
    ----------
    a : (…, M, K) array
    b : (…, K, N) array

    Returns
    -------
    (…, M, N) array or None
        None when every operand is finite.
    """
    if np.isfinite(a).all() and np.isfinite(b).all():
        return None
    parts = (slice(k, k + DEPTH) for k in range(0, a.shape[-1], DEPTH))
    invalid, net, total = reduce(_together, (_counted(a[..., k], b[..., k, :]) for k in parts))
    both = np.abs(net) < total
    result = np.where(total > 0, np.copysign(np.inf, net), 0.0)
    return np.where((invalid > 0) | both, np.nan, result)


def _together(x: Counts, y: Counts) -> Counts:
    return x[0] + y[0], x[1] + y[1], x[2] + y[2]


def _counted(a: Float64, b: Float64) -> Counts:
    """Invalid products of each entry, the sum of the signs of its infinite ones, and how many they are."""
    a_inf, b_inf = np.isinf(a), np.isinf(b)
    one_a, one_b = np.ones_like(a), np.ones_like(b)
    invalid = (
        _count(np.isnan(a), one_b)
        + _count(one_a, np.isnan(b))
        + _count(a_inf, b == 0)
        + _count(a == 0, b_inf)
    )
    sign_a = np.where(np.isnan(a), 0.0, np.sign(a))
    sign_b = np.where(np.isnan(b), 0.0, np.sign(b))
    net = _infinite(sign_a, sign_b, a_inf, b_inf)
    return invalid, net, _infinite(np.abs(sign_a), np.abs(sign_b), a_inf, b_inf)


def _count(x: Float64 | Mask, y: Float64 | Mask) -> Float64:
    """How many products of an entry have both factors in the masks; exact below 2^53."""
    found: Float64 = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return found


def _infinite(sign_a: Float64, sign_b: Float64, a_inf: Mask, b_inf: Mask) -> Float64:
    """Sum of the signs of the infinite products."""
    return _count(sign_a * a_inf, sign_b) + _count(sign_a * ~a_inf, sign_b * b_inf)
