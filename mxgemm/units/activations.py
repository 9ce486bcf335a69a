"""Activations on accumulators: relu and clamp by comparison, gelu and silu in float64, rounded once.

gelu and silu are evaluated in float64 and rounded to the accumulator's type, so that
float32 results are within :data:`ULPS` of the exact function; a GPU's mathematical
library may differ by its own bound.  At −Inf both take their limit, −0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.units.formats import Float64
from mxgemm.units.sums import two_product

__all__ = ["ULPS", "activate", "scaled_erfc"]

Array = NDArray[Any]

ULPS: Mapping[str, Mapping[str, float]] = {
    "gelu": {"float32": 0.51, "float64": 16.0},
    "gelu-tanh": {"float32": 0.51, "float64": 4096.0},
    "silu": {"float32": 0.51, "float64": 8.0},
}
"""Largest error in units in the last place of the result, for results that are not subnormal
(there: of the least subnormal); docs/units.md, "Activations"."""

# Chebyshev coefficients of (1 + 2z)·exp(z²)·erfc(z) in s = (z − 4)/(z + 4), computed with 60 digits;
# the idea is Shepherd & Laframboise's (Math. Comp. 36, 1981, 249-253).
_ERFCX = (
    1.1774832005374487, -0.007260796620301901, -0.081265123236185, 0.06009212804122225,
    -0.02875393558027666, 0.01059566336347286, -0.003136927294554264, 0.0007456494372536184,
    -0.0001369696503010054, 1.7183861600300937e-05, -7.158364623450346e-07, -2.4261399442449534e-07,
    5.5765709395703566e-08, -2.1057869513809494e-09, -1.1717889351884957e-09, 1.9098355172456693e-10,
    1.4088717642088185e-11, -6.901108320480743e-12, 9.167958364119961e-14, 2.1454508286564587e-13,
    -1.4716575026898144e-14, -6.668675118647471e-15, 7.504598511195533e-16, 2.2200930080480648e-16,
    -3.170489881360513e-17, -8.19357016475394e-18, 1.24598211866519e-18, 3.3664037077523605e-19,
)  # fmt: skip


def scaled_erfc(z: Float64) -> Float64:
    """exp(z²)·erfc(z) for z ≥ 0, by Clenshaw's recurrence."""
    s = (z - 4.0) / (z + 4.0)
    ahead, here = np.zeros_like(s), np.zeros_like(s)
    for coefficient in reversed(_ERFCX[1:]):
        ahead, here = here, 2.0 * s * here - ahead + coefficient
    return (s * here - ahead + _ERFCX[0]) / (1.0 + 2.0 * z)


def _gelu(x: Float64) -> Float64:
    """x·Φ(x); Φ(−|x|) = exp(−x²/2)·erfcx(|x|/√2)/2 with the square's rounding error put back."""
    size = np.minimum(np.abs(x), 64.0)  # beyond, Φ is 0 or 1 and the square need not be taken
    square, error = two_product(size, size)
    root = np.exp(-0.25 * square)  # its square would be subnormal before x makes up for it
    factor = 0.5 * (1.0 - 0.5 * error) * scaled_erfc(size * np.sqrt(0.5))
    return np.where(x < 0, x * root * factor * root, x * (1.0 - root * factor * root))


def _logistic_product(x: Float64, u: Float64) -> Float64:
    """x/(1 + exp(−u)) for u of x's sign, without overflow."""
    root = np.exp(-0.5 * np.abs(u))  # its square would be subnormal before x makes up for it
    denominator = 1.0 + root * root
    return np.where(u < 0, x * root / denominator * root, x / denominator)


def _gelu_tanh(x: Float64) -> Float64:
    """x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))), as a logistic function that cancels nowhere."""
    return _logistic_product(x, np.sqrt(8.0 / np.pi) * (x + 0.044715 * (x * x * x)))


def _silu(x: Float64) -> Float64:
    return _logistic_product(x, x)


_SMOOTH: Mapping[str, Callable[[Float64], Float64]] = {
    "gelu": _gelu,
    "gelu-tanh": _gelu_tanh,
    "silu": _silu,
}


def _bound(value: float, kind: np.dtype[Any]) -> Any:
    """A clamp bound in the accumulator's type; integers saturate."""
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return kind.type(min(max(int(value), int(limits.min)), int(limits.max)))
    return kind.type(value)


def activate(x: Array, activation: str, lo: float = 0, hi: float = 0) -> Array:
    """Apply an activation to accumulators.

    Parameters
    ----------
    x : array of an accumulator's type
    activation : str
        "identity", "relu" (relu(−0) = +0), "clamp" (lo where x < lo, hi where x > hi), both
        keeping NaN; "gelu", "gelu-tanh", "silu".
    lo, hi : float or int
        Bounds of "clamp", rounded to x's type.

    Returns
    -------
    array of x's type
    """
    if activation == "identity":
        return x
    if activation == "relu":
        return np.where(x <= 0, x.dtype.type(0), x)
    if activation == "clamp":
        low, high = _bound(lo, x.dtype), _bound(hi, x.dtype)
        raised = np.where(x < low, low, x)
        return np.where(raised > high, high, raised)
    wide = x.astype(np.float64)
    result = np.where(np.isneginf(wide), -0.0, _SMOOTH[activation](wide))
    return result.astype(x.dtype)
