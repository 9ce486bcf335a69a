"""T̂ in place of T: a subnormal operand aligns at its format's least exponent."""

from fractions import Fraction

import numpy as np
import pytest

from mxgemm import bounds
from mxgemm.verify.exact import dot
from tests.bounds.products import product, typed

# (source, precision, least exponent, fraction digits, a partner that keeps the sum in range)
CASES = [("float16", "native", -14, 10, 2.0**15), ("bfloat16", "native", -126, 7, 2.0**100)]


def _subnormal_dominates(
    source: str, emin: int, fraction: int, partner: float
) -> tuple[np.ndarray, np.ndarray]:
    """A product of the least subnormal, and fifteen that its alignment cuts away.

    Its raw exponent is emin + log2(partner), however small the product is.
    """
    cut = emin + int(np.log2(partner)) - 25
    significand = 2 - 2.0**-fraction
    half = (cut - 2) // 2
    a = np.full((1, 16), significand * 2.0**half)
    b = np.full((16, 1), significand * 2.0 ** (cut - 2 - half))
    a[0, 0], b[0, 0] = 2.0 ** (emin - fraction), partner
    return typed(a, source), typed(b, source)


@pytest.mark.parametrize(("source", "precision", "emin", "fraction", "partner"), CASES)
def test_with_t_the_bound_is_false_and_with_t_hat_it_holds(
    source: str, precision: str, emin: int, fraction: int, partner: float
) -> None:
    a, b = _subnormal_dominates(source, emin, fraction, partner)
    asked = product(precision, a, b, out_dtype="float32")
    result = asked.run()
    total = dot(np.abs(a.astype(float))[0], np.abs(b.astype(float))[:, 0])
    error = abs(Fraction(float(result[0, 0])) - dot(a.astype(float)[0], b.astype(float)[:, 0]))
    leading = bounds.leading(asked.configuration, "sm_90", 16)
    assert leading is not None
    assert error > 20 * Fraction(leading) * total, "with T the bound would hold: the inputs prove nothing"
    assert error <= Fraction(float(asked.bound()[0, 0]))
    assert asked.check(result).passed


@pytest.mark.parametrize(
    "precision", ["f16", "f16x3", "bf16", "bf16x3", "bf16x6", "bf16x9", "tf32", "tf32x3"]
)
def test_operands_that_the_format_rounds_to_subnormals_stay_within_the_bound(precision: str) -> None:
    rng = np.random.default_rng(5)
    scale = 2.0**-18 if precision.startswith("f16") else 2.0**-130
    a = typed(rng.standard_normal((8, 48)) * np.ldexp(scale, rng.integers(-8, 24, (8, 48))), "float32")
    b = typed(rng.standard_normal((48, 8)), "float32")
    asked = product(precision, a, b)
    assert asked.check(asked.run()).passed
