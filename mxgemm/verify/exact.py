"""Single entries of D, exactly: what float64 cannot decide is settled here.

Python integers hold the product, Fractions the epilogue, mpmath the transcendental
activations, so that no rounding takes part in a verdict.
"""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds import activations
from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.formats import FORMATS
from mxgemm.bounds.scalars import rounded_array, rounded_scalar
from mxgemm.bounds.tiles import Array, Subject, widened
from mxgemm.problem import GemmProblem

if TYPE_CHECKING:
    import mpmath

__all__ = ["deviation", "dot", "entry"]

PRECISION = 600
"""Bits for transcendental activations; verdicts need about 100."""


_CONTEXTS = threading.local()


def _context() -> mpmath.MPContext:
    """An mpmath for each thread: ``mpmath.mp`` is the program's, and its precision that of all threads."""
    if not hasattr(_CONTEXTS, "own"):
        import mpmath  # a tenth of a second, for the few entries that need it

        _CONTEXTS.own = mpmath.MPContext()
        _CONTEXTS.own.prec = PRECISION
    return _CONTEXTS.own


def _integers(x: Float64) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Significands as Python integers and their exponents: x = significand·2^exponent."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(fraction, 53).astype(np.int64).astype(object), exponent.astype(np.int64) - 53


def dot(a: Float64, b: Float64) -> Fraction:
    """Σ a_k·b_k exactly; terms that are not finite count as zero."""
    used = np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)
    if not used.any():
        return Fraction(0)
    (m, e), (n, f) = _integers(a[used]), _integers(b[used])
    exponents = e + f
    least = int(exponents.min())
    total = int(np.sum((m * n) << (exponents - least).astype(object)))
    return Fraction(total) * Fraction(2) ** least


def _value(x: Array | None, position: tuple[int, ...], kind: str) -> Fraction:
    if x is None:
        return Fraction(0)
    return Fraction(float(rounded_array(x[position], kind)))


def entry(subject: Subject, position: tuple[int, ...]) -> Fraction | mpmath.mpf:
    """The exact entry of D at ``position``, before the rounding to D's element type.

    Parameters
    ----------
    subject : Subject
        alpha, beta, bias and scales are rounded to its accumulator's type first.
    position : tuple of int
        Index in (*batch, M, N); finite operands alone take part.
    """
    problem, kind, operands = subject.problem, subject.kind, subject.operands
    total = Fraction(0)
    if problem.reads_operands:
        *batch, i, j = position
        a, b = operands.a[tuple(batch)][i], operands.b[tuple(batch)][:, j]
        total = dot(widened(a), widened(b)) * Fraction(rounded_scalar(problem.alpha, kind))
        for scale in (operands.scale_rows, operands.scale_cols):
            if scale is not None:
                total *= _value(scale, position, kind)
    if problem.reads_c:
        total += Fraction(rounded_scalar(problem.beta, kind)) * _value(operands.c, position, kind)
    total += _value(operands.bias, position, kind)
    return _activated(problem, kind, total)


def _activated(problem: GemmProblem, kind: str, total: Fraction) -> Fraction | mpmath.mpf:
    spec = problem.epilogue
    if spec.is_transcendental:
        own = _context()
        return activations.exact(spec, own.mpf(total.numerator) / total.denominator, own)
    if spec.activation == "relu":
        total = max(total, Fraction(0))
    elif spec.activation == "clamp":
        lo, hi = (Fraction(rounded_scalar(bound, kind)) for bound in (spec.lo, spec.hi))
        total = min(max(total, lo), hi)
    form = FORMATS[problem.d.dtype]
    return min(max(total, -form.largest), form.largest) if form.saturates else total


def deviation(value: float, exact: Fraction | mpmath.mpf) -> Fraction | mpmath.mpf:
    """|value − exact|, exactly or at mpmath's 600 bits."""
    if isinstance(exact, Fraction):
        return abs(Fraction(value) - exact)
    return abs(_context().mpf(value) - exact)
