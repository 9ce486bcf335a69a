"""alpha, beta, bias and scales as the accumulator holds them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.formats import FORMATS, Format, power
from mxgemm.bounds.tiles import Array, widened

__all__ = ["nearest", "rounded_array", "rounded_scalar"]


def nearest(value: Fraction, form: Format) -> float:
    """``value`` rounded once to nearest, ties to even; Inf from the overflow threshold on."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    sign = 1.0 if value > 0 else -1.0
    if magnitude >= form.overflow:
        return math.copysign(math.inf, sign)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if power(exponent) > magnitude:
        exponent -= 1
    quantum = power(max(exponent, form.emin) - form.digits + 1)
    return sign * float(round(magnitude / quantum) * quantum)


def rounded_scalar(value: float, accumulator: str) -> float:
    """alpha, beta or a clamp bound in the accumulator's type."""
    if not -math.inf < value < math.inf:
        return value
    return nearest(Fraction(value), FORMATS[accumulator])


def rounded_array(x: Array, accumulator: str) -> Float64:
    """C, a bias or scales in the accumulator's type, widened."""
    wide = widened(x)
    if accumulator == "float64":
        return wide
    with np.errstate(over="ignore"):
        return wide.astype(np.float32).astype(np.float64)
