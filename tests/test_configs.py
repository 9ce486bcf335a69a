"""The configuration table says what the arithmetic sheet says, row by row, and refuses the rest by name."""

from dataclasses import FrozenInstanceError
from itertools import product

import pytest

from mxgemm import bounds
from mxgemm.configs import (
    ARCHITECTURES,
    CONFIGURATIONS,
    ELEMENT_TYPES,
    UNITS,
    Configuration,
    configuration,
    configurations_for,
    has_unit,
    precisions_for,
    rounding_precisions,
    unit_arithmetic,
)
from mxgemm.errors import DTypeError, UnsupportedError

CRT = tuple(f"i8crt{n}" for n in range(5, 21))
FLOAT32_UNIT = ("f16", "bf16", "tf32", "f16x3", "bf16x3", "tf32x3", "bf16x6", "bf16x9", "f64")
PRECISIONS = {
    **{name: {"exact"} for name in ELEMENT_TYPES if "int" in name},
    **{name: {"native"} for name in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")},
    "float64": {"native", *CRT},
    "float32": {*FLOAT32_UNIT, *CRT},
}
EIGHT_BITS = ("int8", "uint8")
FP8 = ("float8_e4m3fn", "float8_e5m2")

# (unit, architecture): L, F, output; the confirmed table, with its three Ampere-like architectures spelt out.
ARITHMETIC = {
    ("f16", "sm_70"): (4, 23, "f32-rz"),
    ("f16", "sm_75"): (8, 24, "f32-rz"),
    **{(unit, arch): (8, 24, "f32-rz") for unit in ("f16", "bf16") for arch in ("sm_80", "sm_86", "sm_89")},
    **{("tf32", arch): (4, 24, "f32-rz") for arch in ("sm_80", "sm_86", "sm_89")},
    ("f16", "sm_90"): (16, 25, "f32-rz"),
    ("bf16", "sm_90"): (16, 25, "f32-rz"),
    ("tf32", "sm_90"): (8, 25, "f32-rz"),
    ("f16.f16", "sm_90"): (16, 25, "f16-rne"),
    ("e4m3.f16", "sm_90"): (32, 13, "f16-rne"),
    ("f8", "sm_90"): (32, 13, "f32-rz-13"),
}

each_row = pytest.mark.parametrize("row", CONFIGURATIONS, ids=lambda row: row.name)
each_type = pytest.mark.parametrize("dtype", ELEMENT_TYPES)


def row_of(dtype: str, precision: str) -> Configuration:
    return configuration(dtype, dtype, precision)


@each_type
def test_an_element_type_has_its_precisions_and_scalar(dtype: str) -> None:
    names = precisions_for(dtype, dtype)
    assert set(names) == PRECISIONS[dtype] | {"scalar"}
    assert len(names) == len(set(names))


def test_names_of_rows_are_unique() -> None:
    assert len({row.name for row in CONFIGURATIONS}) == len(CONFIGURATIONS)


@each_row
def test_a_row_is_a_frozen_hashable_value(row: Configuration) -> None:
    assert hash(row) == hash(row_of(row.source_types[0], row.precision))
    with pytest.raises(FrozenInstanceError):
        row.chain = 1


# Grants


@each_row
def test_grants_are_those_of_the_precision(row: Configuration) -> None:
    relaxed, rounding = "relaxed-accumulation", f"operand-rounding-{row.precision}"
    free = row.precision in ("exact", "scalar") or row.name == "float64/native"
    rounds = row.precision in (*FLOAT32_UNIT, *CRT) and row.precision not in ("f64", "bf16x9")
    expected = () if free else (relaxed, rounding) if rounds else (relaxed,)
    assert row.grants == expected


def test_operand_rounding_is_a_matter_of_these_precisions() -> None:
    assert set(rounding_precisions()) == {"f16", "bf16", "tf32", "f16x3", "bf16x3", "tf32x3", "bf16x6", *CRT}


# Arithmetic of the rows


@pytest.mark.parametrize(
    ("precision", "unit", "terms", "order", "chain"),
    [
        ("f16", "f16", 1, "11", 8192),
        ("bf16", "bf16", 1, "11", 8192),
        ("tf32", "tf32", 1, "11", 8192),
        ("f16x3", "f16", 2, "21 12 11", 64),
        ("bf16x3", "bf16", 2, "21 12 11", 64),
        ("tf32x3", "tf32", 2, "21 12 11", 64),
        ("bf16x6", "bf16", 3, "13 31 22 12 21 11", 64),
        ("bf16x9", "bf16", 3, "33 23 32 13 31 22 12 21 11", 64),
    ],
)
def test_a_float32_row_splits_and_chains_as_stated(
    precision: str, unit: str, terms: int, order: str, chain: int
) -> None:
    row = row_of("float32", precision)
    assert (row.unit, row.terms, row.chain, row.accumulator) == (unit, terms, chain, "float32")
    assert row.products == tuple((int(pair[0]), int(pair[1])) for pair in order.split())
    assert row.scaling == ("rows-and-columns" if precision == "f16x3" else "none")


@pytest.mark.parametrize(
    ("dtype", "unit", "accumulator", "chain"),
    [
        ("float16", "f16", "float32", 8192),
        ("bfloat16", "bf16", "float32", 8192),
        ("float8_e4m3fn", "f8", "float32", 128),
        ("float8_e5m2", "f8", "float32", 128),
        ("float64", "f64", "float64", None),
    ],
)
def test_a_native_row_chains_as_stated(dtype: str, unit: str, accumulator: str, chain: int | None) -> None:
    row = row_of(dtype, "native")
    assert (row.unit, row.accumulator, row.chain, row.products) == (unit, accumulator, chain, ((1, 1),))


def test_float8_alone_sums_its_chains_by_sections() -> None:
    assert {row.name: row.section for row in CONFIGURATIONS if row.section} == {
        row_of("float8_e4m3fn", "native").name: 8192
    }
    assert all(row.section % row.chain == 0 for row in CONFIGURATIONS if row.section and row.chain)


@pytest.mark.parametrize(
    ("dtype", "precision", "part"),
    [
        ("float16", "native", 8192),
        ("float32", "tf32", 8192),
        ("float32", "bf16x6", 64),
        ("float8_e5m2", "native", 8192),
        ("float64", "native", None),
        ("int8", "exact", None),
    ],
)
def test_a_part_is_what_the_total_adds(dtype: str, precision: str, part: int | None) -> None:
    assert row_of(dtype, precision).part == part


def test_float32_on_float64_units_rounds_once_at_the_end() -> None:
    row = row_of("float32", "f64")
    assert (row.unit, row.accumulator, row.chain, row.terms) == ("f64", "float64", None, 1)


@pytest.mark.parametrize("dtype", [name for name in ELEMENT_TYPES if "int" in name])
def test_integers_are_exact_in_byte_limbs(dtype: str) -> None:
    row = row_of(dtype, "exact")
    limbs = {"8": 0, "16": 2, "32": 4, "64": 8}[dtype.strip("uint")]
    accumulator = "int32" if dtype in EIGHT_BITS else dtype
    assert (row.unit, row.limbs, row.accumulator) == ("s8", limbs, accumulator)
    assert row.is_integer
    assert not row.is_scalar


@each_type
def test_scalar_uses_no_unit_and_the_accumulator_of_the_type(dtype: str) -> None:
    row = row_of(dtype, "scalar")
    narrow = {"int8": "int32", "uint8": "int32"} | dict.fromkeys(("float16", "bfloat16", *FP8), "float32")
    assert row.is_scalar
    assert (row.unit, row.chain, row.accumulator) == (None, None, narrow.get(dtype, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", range(5, 21))
def test_i8crt_sums_in_the_type_of_its_source(dtype: str, n: int) -> None:
    row = row_of(dtype, f"i8crt{n}")
    assert (row.unit, row.moduli, row.accumulator) == ("s8", n, dtype)
    assert row.scaling == "rows-and-columns"
    assert not row.is_integer


@each_row
def test_operands_are_rounded_once_in_three_rows_only(row: Configuration) -> None:
    rounds = row.precision if row.name in ("float32/f16", "float32/bf16", "float32/tf32") else None
    assert row.rounds_to == rounds


@each_row
def test_range_terms_are_in_the_bounds_of_f16_f16x3_and_i8crt(row: Configuration) -> None:
    assert row.has_range_terms == (row.precision in ("f16", "f16x3", *CRT))


@each_row
def test_every_row_has_a_bound_on_each_architecture_that_runs_it(row: Configuration) -> None:
    for arch in ARCHITECTURES:
        if has_unit(row.unit, arch):
            leading = bounds.leading(row, arch, 100)
            assert (leading is None) == row.has_range_terms
            assert (leading == 0) == row.is_integer
            assert bounds.describe(row, arch, 100)


# Units


@pytest.mark.parametrize(("unit", "arch"), ARITHMETIC)
def test_a_truncating_unit_adds_as_stated(unit: str, arch: str) -> None:
    row = unit_arithmetic(unit, arch)
    assert row.kind == "truncating"
    assert (row.group, row.fraction_bits, row.output) == ARITHMETIC[unit, arch]


def test_the_float64_unit_is_a_chain_of_fused_multiply_adds_on_hopper_alone() -> None:
    assert unit_arithmetic("f64", "sm_90").kind == "fma-chain"
    assert [arch for unit, arch in UNITS if unit == "f64"] == ["sm_90"]


def test_the_8_bit_integer_unit_is_exact_from_turing_on() -> None:
    found = {arch: row.kind for (unit, arch), row in UNITS.items() if unit == "s8"}
    assert found == dict.fromkeys((a for a in ARCHITECTURES if a != "sm_70"), "exact")


def test_there_is_no_other_unit() -> None:
    assert {key for key, row in UNITS.items() if row.kind == "truncating"} == set(ARITHMETIC)
    assert {unit for unit, _ in UNITS} == {unit for unit, _ in ARITHMETIC} | {"f64", "s8"}


@pytest.mark.parametrize(
    ("unit", "arch"), sorted(set(product({u for u, _ in UNITS}, ARCHITECTURES)) - set(UNITS))
)
def test_a_pair_without_a_row_is_refused_by_name(unit: str, arch: str) -> None:
    assert not has_unit(unit, arch)
    with pytest.raises(UnsupportedError) as caught:
        unit_arithmetic(unit, arch)
    supported = str(caught.value).partition("supported on")[2]
    assert f"{unit} unit of {arch} " in str(caught.value)
    assert [a for a in ARCHITECTURES if a in supported] == [a for a in ARCHITECTURES if (unit, a) in UNITS]


def test_a_unit_that_nobody_has_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"fp4 unit of sm_90 .* no architecture"):
        unit_arithmetic("fp4", "sm_90")


@pytest.mark.parametrize("arch", [*ARCHITECTURES, "sm_999"])
def test_scalar_runs_everywhere(arch: str) -> None:
    assert has_unit(None, arch)


# Kernels: what the GPU families bring


@each_row
def test_the_kernels_column(row: Configuration) -> None:
    ampere = {"sm_80", "sm_86", "sm_89", "sm_90"}
    expected = {
        "int8|uint8/exact": {"sm_75", *ampere, "sm_100", "sm_120"},
        "float16/native": {"sm_75", *ampere},
        "bfloat16/native": ampere,
        "float8_e4m3fn|float8_e5m2/native": {"sm_90"},
        "float32/f16": ampere,
        "float32/bf16": ampere,
        "float32/tf32": ampere,
        "float64/native": {"sm_90"},
        "float32/f64": {"sm_90"},
    }
    missing: set[str] = set()
    assert row.kernels == (set(ARCHITECTURES) if row.is_scalar else expected.get(row.name, missing))


@each_row
def test_a_kernel_has_a_unit_and_a_cost(row: Configuration) -> None:
    for arch in row.kernels:
        assert has_unit(row.unit, arch)
        assert row.cost(arch) < float("inf")


# Look-up


@pytest.mark.parametrize(("a", "b"), [p for p in product(ELEMENT_TYPES, repeat=2) if p[0] != p[1]])
def test_mixed_operands_mix_within_8_bit_integers_and_within_fp8_only(a: str, b: str) -> None:
    if {a, b} in ({*EIGHT_BITS}, {*FP8}):
        assert configurations_for(a, b) == configurations_for(a, a)
    else:
        with pytest.raises(DTypeError) as caught:
            configurations_for(a, b)
        for word in (a, b, *EIGHT_BITS, *FP8):
            assert word in str(caught.value)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "object", "float128", ""])
def test_an_unknown_element_type_is_refused_with_the_known(dtype: str) -> None:
    for pair in ((dtype, "float32"), ("float32", dtype)):
        with pytest.raises(DTypeError) as caught:
            configurations_for(*pair)
        for name in ELEMENT_TYPES:
            assert name in str(caught.value)


@each_type
def test_an_unknown_precision_is_refused_with_the_known(dtype: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        configuration(dtype, dtype, "fp12")
    offered = str(caught.value).partition("supported are ")[2].replace(" or ", ", ").split(", ")
    assert "'fp12'" in str(caught.value)
    assert set(offered) == set(precisions_for(dtype, dtype))


def test_float32_rows_stand_in_the_order_that_breaks_ties() -> None:
    names = precisions_for("float32", "float32")
    assert names[:3] == ("f16", "bf16", "tf32")
    assert names[-1] == "scalar"
