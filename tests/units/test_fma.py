"""Fused multiply-adds against exact fractions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mxgemm.units import fma
from mxgemm.units.fma_scaled import fma64
from tests.reference import integers as reference
from tests.units.data import GENERATORS, generate, same_bits

VALUES = (0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 1.7e308, -1.7e308, 5e-324, -(2.0**-1022))
DOUBLE = reference.KINDS["float64"]


def _expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, dtype: str) -> np.ndarray:
    kind = reference.KINDS[dtype]
    out = np.empty(c.shape)
    for m, n in np.ndindex(*c.shape):
        total = float(c[m, n])
        for x, y in zip(a[:, m].tolist(), b[:, n].tolist(), strict=True):
            total = reference.fma(x, y, total, kind)
        out[m, n] = total
    return out.astype(dtype)


def _model(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    total = c.copy()
    chain = fma.chain32 if c.dtype == np.float32 else fma.chain64
    with np.errstate(all="ignore"):
        chain(a.astype(np.float64), b.astype(np.float64), total)
    return total


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chains_agree_with_exact_fractions(dtype: str, generator: str) -> None:
    rng = np.random.default_rng(GENERATORS.index(generator))
    a, b = generate(generator, rng, (25, 3), dtype), generate(generator, rng, (25, 5), dtype)
    c = generate(generator, rng, (3, 5), dtype)
    assert same_bits(_model(a, b, c), _expected(a, b, c, dtype))


def test_a_double_rounding_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    # a·b = 2^-24 − 2^-70: the float64 sum with 1 + 2^-23 is midway between two float32, the exact one below.
    a, b = np.array([[2.0**-12 + 2.0**-35]]), np.array([[2.0**-12 - 2.0**-35]])
    c = np.array([[1 + 2.0**-23]], np.float32)
    expected = _expected(a, b, c, "float32")
    assert same_bits(_model(a, b, c), expected)
    monkeypatch.setattr(fma, "_settle", lambda *_: None)
    assert not same_bits(_model(a, b, c), expected)


def test_float64_agrees_on_every_triple_of_extreme_values() -> None:
    a, b, c = np.array(list(itertools.product(VALUES, repeat=3))).T
    with np.errstate(all="ignore"):
        found = fma64(a, b, c)
    expected = np.array([reference.fma(*map(float, t), DOUBLE) for t in zip(a, b, c, strict=True)])
    assert same_bits(found, expected)


@pytest.mark.parametrize(("low", "high", "addend"), [(-560, -490, -1074), (-20, 20, -60), (500, 516, 1000)])
def test_float64_agrees_near_both_ends_of_the_range(low: int, high: int, addend: int) -> None:
    rng = np.random.default_rng(7)
    a, b = (
        np.ldexp(rng.choice([-1, 1], 800) * (1 + rng.random(800)), rng.integers(low, high, 800)) for _ in "ab"
    )
    c = np.ldexp(rng.choice([-1, 1], 800) * (1 + rng.random(800)), rng.integers(addend, addend + 24, 800))
    with np.errstate(all="ignore"):
        c[:200] = -(a * b)[:200]
        found = fma64(a, b, c)
    expected = np.array([reference.fma(*map(float, t), DOUBLE) for t in zip(a, b, c, strict=True)])
    assert same_bits(found, expected)


def test_subnormal_float64_results_are_rounded_once() -> None:
    # Products of few bits around ties of the subnormal grid, with addends that break or keep them.
    rng = np.random.default_rng(8)
    a = rng.integers(1, 64, 600) * 2.0**-540
    b = rng.integers(1, 2**20, 600) * 2.0**-553
    c = rng.integers(-4, 5, 600) * 5e-324
    found = fma64(a, b, c)
    expected = np.array([reference.fma(*map(float, t), DOUBLE) for t in zip(a, b, c, strict=True)])
    assert same_bits(found, expected)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_an_addend_of_minus_zero_survives(zero: float) -> None:
    c = np.array([[-0.0]])
    found = _model(np.array([[zero]]), np.array([[1.0]]), c)
    assert np.signbit(found[0, 0]) == np.signbit(zero)
