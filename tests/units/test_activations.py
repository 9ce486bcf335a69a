"""Activations against mpmath, and their rules for NaN, Inf and signed zeros."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from mxgemm.units.activations import ULPS, activate, scaled_erfc

CONTEXT = mpmath.mp.clone()
CONTEXT.prec = 160


def _exact(activation: str, value: float) -> mpmath.mpf:
    x = CONTEXT.mpf(value)
    if activation == "silu":
        return x / (1 + CONTEXT.exp(-x))
    if activation == "gelu":
        return x * CONTEXT.erfc(-x / CONTEXT.sqrt(2)) / 2
    u = CONTEXT.sqrt(2 / CONTEXT.pi) * (x + CONTEXT.mpf("0.044715") * x**3)
    return x / (1 + CONTEXT.exp(-2 * u))


def _inputs(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    parts = [rng.uniform(-40, 40, 400), rng.uniform(-6, 6, 400), rng.standard_normal(200) * 2.0**-20]
    if dtype == "float64":
        parts.append(rng.uniform(-745, -40, 150))
    return np.concatenate(parts).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "silu"])
def test_smooth_activations_stay_within_their_stated_ulps(activation: str, dtype: str) -> None:
    x = _inputs(dtype)
    with np.errstate(all="ignore"):
        found = activate(x, activation)
    emin, bits = (-126, 24) if dtype == "float32" else (-1022, 53)
    for value, result in zip(x.tolist(), found.tolist(), strict=True):
        exact = _exact(activation, value)
        exponent = max(int(CONTEXT.floor(CONTEXT.log(abs(exact), 2))), emin)
        ulp = CONTEXT.mpf(2) ** (exponent - bits + 1)
        assert abs(result - exact) / ulp <= ULPS[activation][dtype], (value, result)


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh", "silu"])
def test_smooth_activations_take_their_limits(activation: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -1e30, 1e30], np.float32)
    with np.errstate(all="ignore"):
        found = activate(x, activation)
    assert found[0] == np.inf
    assert np.isnan(found[2])
    assert found[6] == x[6]
    zeros = found[[1, 3, 4, 5]]
    assert (zeros == 0).all()
    assert np.signbit(zeros).tolist() == [True, False, True, True]


def test_scaled_erfc_is_accurate_from_zero_to_its_tail() -> None:
    z = np.concatenate([np.linspace(0, 8, 200), 2.0 ** np.arange(3, 300, 7)])
    for value, found in zip(z.tolist(), scaled_erfc(z).tolist(), strict=True):
        if value < 1e6:
            exact = CONTEXT.exp(CONTEXT.mpf(value) ** 2) * CONTEXT.erfc(value)
        else:
            exact = 1 / (CONTEXT.sqrt(CONTEXT.pi) * value) * (1 - 1 / (2 * CONTEXT.mpf(value) ** 2))
        assert abs(found / exact - 1) < 2.0**-49


def test_relu_makes_minus_zero_plus_zero_and_keeps_nan() -> None:
    found = activate(np.array([-0.0, -3.0, 2.0, np.nan, -np.inf]), "relu")
    assert found[[0, 1, 2, 4]].tolist() == [0, 0, 2, 0]
    assert math.copysign(1, found[0]) == 1
    assert np.isnan(found[3])


def test_clamp_limits_and_keeps_nan() -> None:
    found = activate(np.array([-5, 0.5, 7, np.nan], np.float32), "clamp", -1, 6.1)
    assert found[:3].tolist() == [-1, 0.5, float(np.float32(6.1))]
    assert np.isnan(found[3])


def test_integer_clamp_bounds_beyond_the_type_limit_nothing() -> None:
    x = np.array([-(2**31), 2**31 - 1], np.int32)
    assert activate(x, "clamp", -(10**12), 10**12).tolist() == x.tolist()
    assert activate(x, "clamp", -3, 5).tolist() == [-3, 5]
    assert activate(x, "relu").tolist() == [0, 2**31 - 1]
