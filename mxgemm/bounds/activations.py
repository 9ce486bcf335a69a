"""Activations in a bound: the reference, its radius, slopes, and the error each may have of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.bounds.doubled import Float64
from mxgemm.epilogue import EpilogueSpec

if TYPE_CHECKING:
    import mpmath

__all__ = ["ERRORS", "REFERENCE_ERROR", "SLOPES", "exact", "limit", "reference"]

SLOPES: Mapping[str, float] = {
    "identity": 1.0, "relu": 1.0, "clamp": 1.0, "gelu": 1.13, "gelu-tanh": 1.13, "silu": 1.1,
}  # fmt: skip
"""Lipschitz constants, rounded up; docs/error-bounds.md, "Activations"."""

ERRORS: Mapping[str, int] = {"float32": 8, "float64": 32}
"""Units of u·|x| that a library's gelu or silu may be off; docs/error-bounds.md, "Activations"."""

REFERENCE_ERROR = 2.0**-49
"""What :func:`reference` may be off, in units of |x|: 16 units of float64's roundoff (libm within 4 ulp)."""

_erfc: Callable[[Any], Any] = np.frompyfunc(math.erfc, 1, 1)


def _gelu(x: Float64) -> Float64:
    phi: Float64 = 0.5 * _erfc(x * -math.sqrt(0.5)).astype(np.float64)
    return x * phi


def _gelu_tanh(x: Float64) -> Float64:
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return np.asarray(0.5 * x * (1.0 + np.tanh(inner)))


def _silu(x: Float64) -> Float64:
    return np.asarray(x / (1.0 + np.exp(-x)))


_REFERENCES: Mapping[str, Callable[[Float64], Float64]] = {
    "gelu": _gelu, "gelu-tanh": _gelu_tanh, "silu": _silu,
}  # fmt: skip


def reference(spec: EpilogueSpec, x: Float64) -> Float64:
    """Evaluate gelu or silu in float64, within :data:`REFERENCE_ERROR`·|x| of the exact function."""
    return _REFERENCES[spec.activation](x)


def limit(spec: EpilogueSpec, x: Float64, lo: float, hi: float) -> Float64:
    """The activation of values of which some are NaN or Inf; NaN stays, −Inf gives gelu and silu 0."""
    if spec.activation == "relu":
        return np.where(x <= 0, 0.0, x)
    if spec.activation == "clamp":
        return np.where(x < lo, lo, np.where(x > hi, hi, x))
    if spec.is_transcendental:
        return np.where(np.isneginf(x), 0.0, x)
    return x


def exact(spec: EpilogueSpec, x: mpmath.mpf, numbers: mpmath.MPContext) -> mpmath.mpf:
    """Evaluate gelu or silu of one number, at the working precision of the context that it belongs to."""
    if abs(x) > 4096:
        # The function differs from max(x, 0) by less than 2^-5000·|x|.
        return max(x, numbers.mpf(0))
    if spec.activation == "gelu":
        return x * numbers.ncdf(x)
    if spec.activation == "gelu-tanh":
        inner = numbers.sqrt(2 / numbers.pi) * (x + numbers.mpf("0.044715") * x**3)
        return x * (1 + numbers.tanh(inner)) / 2
    return x / (1 + numbers.exp(-x))
