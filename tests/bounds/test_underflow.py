"""What underflow takes is part of each bound, and nothing but it explains these results."""

import numpy as np
import pytest

from mxgemm.bounds.factors import factors
from tests.bounds.products import product, typed

CASES = [
    ("bfloat16", "native", "sm_80", 1.5),
    ("bfloat16", "native", "sm_90", 1.5),
    ("bfloat16", "scalar", "sm_90", 1.25),
    ("float32", "scalar", "sm_90", 1.25),
    ("float32", "bf16x9", "sm_90", 1.5),
    ("float32", "tf32x3", "sm_80", 1.5),
    ("float32", "f16x3", "sm_90", 1.25),
    ("float32", "i8crt9", "sm_90", 1.25),
    ("float64", "native", "sm_90", 1.25),
    ("float64", "scalar", "sm_70", 1.25),
]


@pytest.mark.parametrize(("source", "precision", "arch", "significand"), CASES)
def test_a_product_that_underflows_is_off_by_more_than_its_relative_bound_and_passes(
    source: str, precision: str, arch: str, significand: float
) -> None:
    out, least = ("float64", 1074) if source == "float64" else ("float32", 149)
    a = typed([[np.ldexp(significand, -least // 2)]], source)
    b = typed([[np.ldexp(1.0, -least - 1 - (-least // 2))]], source)
    asked = product(precision, a, b, arch=arch, out_dtype=out)
    result = asked.run()
    # In units of the least subnormal, the exact result is significand/2: nothing that the type holds.
    error = abs(np.ldexp(float(result[0, 0]), least) - significand / 2)
    relative = factors(asked.configuration, arch, 1).leading * significand / 2
    assert error > relative
    assert asked.check(result).passed
