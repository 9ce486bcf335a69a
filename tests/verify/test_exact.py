"""Single entries settled exactly."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm.bounds import activations
from mxgemm.bounds.tiles import Subject
from mxgemm.verify.exact import deviation, dot, entry
from tests.bounds.products import normal, product

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(FINITE, FINITE), max_size=8))
def test_a_dot_product_is_that_of_fractions(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
    assert dot(a, b) == sum((Fraction(x) * Fraction(y) for x, y in pairs), Fraction(0))


def test_an_entry_takes_the_rounded_scalars() -> None:
    a, b = normal((2, 5), "float32", 1), normal((5, 3), "float32", 2)
    c, bias, rows, cols = (normal(s, "float32", 3) for s in ((2, 3), (3,), (2, 1), (3,)))
    asked = product("scalar", a, b, c, alpha=1.1, beta=0.1, bias=bias, scale_rows=rows, scale_cols=cols)
    found = entry(Subject(asked.problem, asked.configuration, "sm_90", asked.operands), (1, 2))
    alpha, beta = Fraction(float(np.float32(1.1))), Fraction(float(np.float32(0.1)))
    p = dot(a[1].astype(float), b[:, 2].astype(float)) * alpha
    scaled = p * Fraction(float(rows[1, 0])) * Fraction(float(cols[2]))
    assert found == scaled + beta * Fraction(float(c[1, 2])) + Fraction(float(bias[2]))


@pytest.mark.parametrize(("activation", "expected"), [("relu", 0), ("clamp", Fraction(-1, 4))])
def test_limits_are_exact(activation: str, expected: Fraction) -> None:
    a, b = np.array([[3.0]], np.float32), np.array([[-2.0]], np.float32)
    asked = product("scalar", a, b, activation=activation, limits=(-0.25, 1))
    assert entry(Subject(asked.problem, asked.configuration, "sm_90", asked.operands), (0, 0)) == expected


def test_a_transcendental_activation_is_settled_in_many_digits() -> None:
    a, b = np.array([[1.5]], np.float32), np.array([[-2.0]], np.float32)
    asked = product("scalar", a, b, activation="silu")
    found = entry(Subject(asked.problem, asked.configuration, "sm_90", asked.operands), (0, 0))
    with mpmath.workdps(100):
        expected = -3 / (1 + mpmath.exp(3))
        assert abs(found - expected) < mpmath.mpf(10) ** -99
        assert abs(deviation(1.0, found) - (1 - expected)) < mpmath.mpf(10) ** -99


def test_the_programs_own_mpmath_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its precision belongs to all threads: one that settles an entry must not change it for the others."""
    seen, honest = [], activations.exact

    def watched(*arguments: object) -> object:
        seen.append(mpmath.mp.prec)
        return honest(*arguments)

    monkeypatch.setattr(activations, "exact", watched)
    a, b = np.array([[1.5]], np.float32), np.array([[-2.0]], np.float32)
    asked = product("scalar", a, b, activation="gelu")
    subject = Subject(asked.problem, asked.configuration, "sm_90", asked.operands)
    with mpmath.workprec(77):
        found = entry(subject, (0, 0))
    assert seen == [77]
    assert found.context is not mpmath.mp
