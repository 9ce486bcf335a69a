"""The factors of T and T̂ that need no operands."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from mxgemm import bounds
from mxgemm.bounds.factors import factors, gamma, moduli_bits, split_of, upward
from mxgemm.configs import ARCHITECTURES, CONFIGURATIONS, configuration, has_unit, unit_arithmetic

U = Fraction(1, 2**24)
PAIRS = [
    pytest.param(config, arch, id=f"{config.name}-{arch}")
    for config in CONFIGURATIONS
    for arch in ARCHITECTURES
    if has_unit(config.unit, arch)
]


@pytest.mark.parametrize(("config", "arch"), PAIRS)
def test_every_row_has_a_bound_in_words_and_a_factor_that_never_shrinks_with_k(config, arch) -> None:
    factor = [bounds.leading(config, arch, k) for k in (1, 2, 100, 8192, 8193, 20000)]
    if config.has_range_terms:
        assert factor == [None] * len(factor)
    else:
        assert factor == sorted(factor)
        assert all(f >= 0 for f in factor)
    assert "\n" not in bounds.describe(config, arch, 100)


def test_exact_integers_have_factor_zero() -> None:
    assert bounds.leading(configuration("int8", "uint8", "exact"), "sm_90", 10**6) == 0.0


@pytest.mark.parametrize(
    ("source", "arch", "per_product"),
    [
        ("float16", "sm_70", Fraction(2)),
        ("float16", "sm_75", Fraction(9, 8)),
        ("float16", "sm_80", Fraction(9, 8)),
        ("bfloat16", "sm_80", Fraction(9, 8)),
        ("float16", "sm_90", Fraction(19, 32)),
        ("bfloat16", "sm_90", Fraction(19, 32)),
        ("float8_e4m3fn", "sm_90", Fraction(2**11)),
    ],
)
def test_one_chain_of_a_truncating_unit_costs_its_worst_truncation_a_product(
    source, arch, per_product
) -> None:
    config = configuration(source, source, "native")
    k = 128
    first = 2**24 / Fraction(2) ** unit_arithmetic(str(config.unit), arch).fraction_bits
    assert factors(config, arch, k).accumulation == (k * per_product - first) * U


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 384, 8192])
def test_gamma_k_bounds_one_chain_on_hopper(source: str, k: int) -> None:
    found = factors(configuration(source, source, "native"), "sm_90", k).accumulation
    classical = gamma(k, U)
    assert found is not None
    assert classical is not None
    assert found <= classical


def test_chains_add_one_rounding_each() -> None:
    config = configuration("float8_e5m2", "float8_e5m2", "native")
    one, three = (factors(config, "sm_90", k).accumulation for k in (128, 384))
    assert one is not None
    assert three == one + 2 * U / (1 - 2 * U)


FLOAT8 = configuration("float8_e5m2", "float8_e5m2", "native")


@pytest.mark.parametrize(
    ("k", "additions"),
    [(8192, 63), (8193, 64), (16384, 64), (16385, 65), (65536, 63 + 7), (65537, 63 + 8)],
)
def test_a_section_adds_64_chains_and_the_total_the_sections(k: int, additions: int) -> None:
    one, found = (factors(FLOAT8, "sm_90", depth).accumulation for depth in (128, k))
    assert one is not None
    assert found == one + additions * U / (1 - additions * U)


@pytest.mark.parametrize("k", [8193, 8321, 16384, 20000, 65536, 10**6])
def test_sections_loosen_no_bound(k: int) -> None:
    found, one_master = (
        factors(row, "sm_90", k).accumulation for row in (FLOAT8, replace(FLOAT8, section=None))
    )
    assert found is not None
    assert one_master is not None
    assert found <= one_master


def test_words_name_the_sections_where_there_are_several() -> None:
    assert "64 chains of 128, groups" in bounds.describe(FLOAT8, "sm_90", 8192)
    assert "157 chains of 128 in 3 sections, groups" in bounds.describe(FLOAT8, "sm_90", 20000)


@pytest.mark.parametrize(
    ("precision", "nominal"),
    [
        ("bf16x3", Fraction(2, 2**16)), ("tf32x3", Fraction(2, 2**22)), ("f16x3", Fraction(2, 2**22)),
        ("bf16x6", Fraction(1, 2**24)), ("bf16x9", Fraction(0)),
    ],
)  # fmt: skip
def test_a_split_leaves_out_what_its_terms_do(precision: str, nominal: Fraction) -> None:
    split = split_of(configuration("float32", "float32", precision))
    assert split is not None
    assert nominal <= split.operand <= nominal * (1 + Fraction(1, 2**6))


def test_a_bound_beyond_one_unit_an_addition_is_void() -> None:
    assert bounds.leading(configuration("float32", "float32", "scalar"), "sm_90", 2**24) == math.inf


@pytest.mark.parametrize(("moduli", "bits"), [(6, 17), (7, 21), (8, 25), (14, 48), (15, 52), (16, 56)])
def test_moduli_leave_the_bits_that_the_paper_has(moduli: int, bits: int) -> None:
    config = configuration("float64", "float64", f"i8crt{moduli}")
    assert moduli_bits(config, 4096) == bits


def test_factors_are_rounded_up() -> None:
    third = Fraction(1, 3)
    assert Fraction(upward(third)) >= third
    assert Fraction(math.nextafter(upward(third), 0)) < third
    assert upward(Fraction(1, 2**1075)) == 2.0**-1074


@pytest.mark.parametrize(("config", "arch"), PAIRS)
@pytest.mark.parametrize("k", [1, 100, 4096, 20000])
def test_words_never_state_less_than_the_factor(config, arch, k: int) -> None:
    words, found = bounds.describe(config, arch, k), factors(config, arch, k)
    for symbol, factor in (("T", found.operand), ("T̂", found.accumulation)):
        stated = re.search(rf"([0-9.e+-]+)·{symbol}(?!\u0302)", words)
        if stated and not config.moduli and factor is not None:
            assert factor <= Fraction(stated[1]) <= factor * Fraction(101, 100)


def test_a_split_weighs_each_product_by_what_ran_before_it() -> None:
    found = factors(configuration("float32", "float32", "bf16x3"), "sm_90", 16).accumulation
    v = Fraction(1, 2**8)
    first, second = 1 + v, v / (1 - v)
    cross = first * second
    # One group a product: 9.5 units each, half a unit less where the accumulator starts from zero.
    assert found == (9 * cross + Fraction(19, 2) * 2 * cross + Fraction(19, 2) * (2 * cross + first**2)) * U
