"""Accumulation bounds are tight: inputs built against the arithmetic reach at least half of each.

One large product fills the accumulator with a power of two; each group then adds products
just below what alignment keeps, one of them just below what the conversion keeps, so that
all of it is lost (docs/error-bounds.md, "Truncating units").
"""

from fractions import Fraction

import numpy as np
import pytest

from mxgemm.bounds.factors import factors
from mxgemm.configs import unit_arithmetic
from mxgemm.verify.exact import dot
from tests.bounds.products import Array, product, typed

LARGE = 10
"""Exponent of the large product."""


def _just_below(exponent: int, digits: int) -> tuple[float, float]:
    """Two numbers of ``digits`` bits whose product is just below 2^exponent."""
    significand = 2 - 2.0 ** (1 - digits)
    half = (exponent - 2) // 2
    return significand * 2.0**half, significand * 2.0 ** (exponent - 2 - half)


def _adversary(unit: str, arch: str, k: int, digits: int) -> tuple[Array, Array]:
    """One row of A and one column of B."""
    row = unit_arithmetic(unit, arch)
    kept = 13 if row.output == "f32-rz-13" else 23
    a, b = np.zeros((1, k)), np.zeros((k, 1))
    for i in range(k):
        lost = LARGE - (kept if i % row.group == row.group - 1 else row.fraction_bits)
        a[0, i], b[i, 0] = _just_below(lost, digits)
    a[0, 0] = b[0, 0] = 2.0 ** (LARGE // 2)
    return a, b


def _reached(precision: str, a: Array, b: Array, arch: str) -> float:
    """The measured error over the accumulation bound."""
    asked = product(precision, a, b, arch=arch)
    wide_a, wide_b = a.astype(np.float64)[0], b.astype(np.float64)[:, 0]
    error = abs(Fraction(float(asked.run()[0, 0])) - dot(wide_a, wide_b))
    accumulation = factors(asked.configuration, arch, a.shape[1]).accumulation
    assert accumulation is not None
    assert asked.check(asked.run()).passed
    return float(error / (accumulation * dot(np.abs(wide_a), np.abs(wide_b))))


@pytest.mark.parametrize(
    ("source", "unit", "arch", "digits"),
    [
        ("float16", "f16", "sm_70", 11),
        ("float16", "f16", "sm_75", 11),
        ("float16", "f16", "sm_80", 11),
        ("float16", "f16", "sm_86", 11),
        ("float16", "f16", "sm_89", 11),
        ("float16", "f16", "sm_90", 11),
        ("bfloat16", "bf16", "sm_80", 8),
        ("bfloat16", "bf16", "sm_86", 8),
        ("bfloat16", "bf16", "sm_89", 8),
        ("bfloat16", "bf16", "sm_90", 8),
    ],
)
@pytest.mark.parametrize("k", [64, 1000])
def test_native_chains_reach_their_bound(source: str, unit: str, arch: str, digits: int, k: int) -> None:
    a, b = _adversary(unit, arch, k, digits)
    assert _reached("native", typed(a, source), typed(b, source), arch) >= 0.9


@pytest.mark.parametrize(
    ("precision", "unit", "arch"),
    [
        ("tf32", "tf32", "sm_80"),
        ("tf32", "tf32", "sm_86"),
        ("tf32", "tf32", "sm_89"),
        ("tf32", "tf32", "sm_90"),
        ("f16", "f16", "sm_70"),
        ("f16", "f16", "sm_90"),
        ("bf16", "bf16", "sm_80"),
        ("bf16", "bf16", "sm_90"),
    ],
)
def test_one_term_chains_reach_their_accumulation_bound(precision: str, unit: str, arch: str) -> None:
    a, b = _adversary(unit, arch, 512, 8 if unit == "bf16" else 11)
    assert _reached(precision, typed(a, "float32"), typed(b, "float32"), arch) >= 0.9


@pytest.mark.parametrize(("source", "digits"), [("float8_e4m3fn", 4), ("float8_e5m2", 3)])
@pytest.mark.parametrize("k", [128, 300])
def test_float8_chains_reach_their_bound(source: str, digits: int, k: int) -> None:
    a, b = _adversary("f8", "sm_90", k, digits)
    reached = _reached("native", typed(a, source), typed(b, source), "sm_90")
    # Only the first chain holds the large product; the others lose next to nothing.
    assert reached >= 0.5


@pytest.mark.parametrize("source", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("k", [8192, 8193, 3 * 8192 + 128])
def test_additions_of_chains_and_sections_reach_their_bound(source: str, k: int) -> None:
    """Chains of one product are exact; each addition but the first loses half a unit of 2^LARGE to a tie."""
    a, b = np.zeros((1, k)), np.zeros((k, 1))
    a[0, :8192:128] = b[:8192:128, 0] = 2.0 ** ((LARGE - 24) // 2)
    a[0, 8192::8192] = b[8192::8192, 0] = 2.0 ** ((LARGE - 24) // 2)
    a[0, 0] = b[0, 0] = 2.0 ** (LARGE // 2)
    asked = product("native", typed(a, source), typed(b, source))
    result = asked.run()
    error = abs(Fraction(float(result[0, 0])) - dot(a[0], b[:, 0]))
    one, whole = (factors(asked.configuration, "sm_90", depth).accumulation for depth in (128, k))
    assert one is not None
    assert whole is not None
    reached = error / ((whole - one) * dot(a[0], b[:, 0]))
    assert 0.99 <= reached <= 1
    assert asked.check(result).passed


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6", "bf16x9", "tf32x3", "f16x3"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("k", [64, 640])
def test_split_chains_reach_their_accumulation_bound(precision: str, arch: str, k: int) -> None:
    unit = precision.partition("x")[0]
    a, b = _adversary(unit, arch, k, 8 if unit == "bf16" else 11)
    # Later chains add one product each: half a unit in the sum's last place, which is lost.
    a[0, 64:] = b[64:, 0] = 0
    a[0, 64::64] = b[64::64, 0] = 2.0 ** ((LARGE - 24) // 2)
    assert _reached(precision, typed(a, "float32"), typed(b, "float32"), arch) >= 0.8


def test_volta_split_chains_reach_their_accumulation_bound() -> None:
    a, b = _adversary("f16", "sm_70", 64, 11)
    assert _reached("f16x3", typed(a, "float32"), typed(b, "float32"), "sm_70") >= 0.8


@pytest.mark.parametrize(
    ("source", "precision", "digits"),
    [
        ("float16", "scalar", 24), ("bfloat16", "scalar", 24), ("float32", "scalar", 24),
        ("float32", "f64", 53), ("float64", "native", 53), ("float64", "scalar", 53),
    ],
)  # fmt: skip
def test_chains_of_fused_multiply_adds_reach_gamma(source: str, precision: str, digits: int) -> None:
    k = 200
    low = digits // 2 if digits == 24 else 26
    a, b = np.full((1, k), 2.0**-low), np.full((k, 1), 2.0 ** (low - digits))
    a[0, 0] = b[0, 0] = 1
    if precision == "f64":
        assert _reached_in_float64(typed(a, source), typed(b, source)) >= 0.9
    else:
        assert _reached(precision, typed(a, source), typed(b, source), "sm_90") >= 0.9


def _reached_in_float64(a: Array, b: Array) -> float:
    """As :func:`_reached`, with the result in the accumulator's float64."""
    asked = product("f64", a, b, out_dtype="float64")
    result = asked.run()
    assert asked.check(result).passed
    error = abs(Fraction(float(result[0, 0])) - dot(a.astype(float)[0], b.astype(float)[:, 0]))
    return float(error / Fraction(float(asked.bound()[0, 0])))
