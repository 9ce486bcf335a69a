"""The tools that bounds are computed with: upward products, doubled precision, single roundings."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm.bounds.doubled import dot2, two_product, two_sum
from mxgemm.bounds.formats import FORMATS
from mxgemm.bounds.magnitudes import upward_product
from mxgemm.bounds.scalars import nearest, rounded_scalar
from mxgemm.bounds.slices import sliced_product
from mxgemm.verify.exact import dot

FLOATS = st.floats(-1e100, 1e100, allow_subnormal=False)


@given(FLOATS, FLOATS)
def test_sums_and_products_keep_their_error(x: float, y: float) -> None:
    s, e = two_sum(np.array(x), np.array(y))
    assert Fraction(float(s)) + Fraction(float(e)) == Fraction(x) + Fraction(y)
    if abs(x * y) > 1e-250:
        p, e = two_product(np.array(x), np.array(y))
        assert Fraction(float(p)) + Fraction(float(e)) == Fraction(x) * Fraction(y)


@pytest.mark.parametrize("spread", [0, 30, 500, 1000])
def test_upward_products_are_not_below_and_hardly_above(spread: int) -> None:
    rng = np.random.default_rng(spread)
    a = np.ldexp(rng.random((4, 50)), rng.integers(-spread, spread + 1, (4, 1)))
    b = np.ldexp(rng.random((50, 4)), rng.integers(-spread, spread + 1, (1, 4)))
    a[1], b[:, 2] = 0, 5e-324
    found = upward_product(a, b)
    for i in range(4):
        for j in range(4):
            exact = dot(a[i], b[:, j])
            if np.isfinite(found[i, j]):
                assert Fraction(float(found[i, j])) >= exact
                assert Fraction(float(found[i, j])) <= exact * (1 + Fraction(1, 2**40)) + Fraction(1, 2**1060)
            else:
                assert exact > Fraction(2) ** 1023
    assert (found[1] == 0).all()


def test_the_doubled_product_is_within_its_radius() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((5, 300)), rng.standard_normal((300, 5))
    b[150:] = -b[:150]
    a[:, 150:] = a[:, :150] * (1 + 2.0**-40)
    high, low = dot2(a, b)
    for i in range(5):
        for j in range(5):
            error = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - dot(a[i], b[:, j]))
            assert error <= Fraction(2 * 302**2, 2**106) * dot(np.abs(a[i]), np.abs(b[:, j]))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float32", np.float32),
        ("float64", np.float64),
    ],
)
@given(x=st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_once_is_the_formats(name: str, kind: type, x: float) -> None:
    with np.errstate(over="ignore"):
        # float64 to bfloat16 goes through float32 in ml_dtypes, so start from a float32 there.
        start = float(np.float32(x)) if name == "bfloat16" else x
        expected = float(np.array(start).astype(kind))
    if np.isfinite(start):
        assert nearest(Fraction(start), FORMATS[name]) == expected


def test_scalars_are_rounded_once() -> None:
    assert rounded_scalar(2**24 + 1, "float32") == 2.0**24
    assert rounded_scalar((2**24 + 1) * 2**40 + 1, "float32") == (2.0**24 + 2) * 2**40
    assert rounded_scalar(1e300, "float32") == np.inf
    assert np.isnan(rounded_scalar(float("nan"), "float32"))
    assert rounded_scalar(10**400, "float64") == np.inf


@pytest.mark.parametrize("k", [1, 7, 300, 5000])
def test_the_sliced_product_is_within_its_radius(k: int) -> None:
    rng = np.random.default_rng(k)
    a = rng.standard_normal((4, k)) * np.ldexp(1.0, rng.integers(-30, 30, (4, k)))
    b = rng.standard_normal((k, 4)) * np.ldexp(1.0, rng.integers(-90, 90, (1, 4)))
    high, low, radius = sliced_product(a, b)
    for i in range(4):
        for j in range(4):
            error = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - dot(a[i], b[:, j]))
            assert error <= Fraction(float(radius[i, j]))
    assert (radius <= 2.0**-78 * k * np.abs(a).max(axis=1)[:, None] * np.abs(b).max(axis=0)).all()
