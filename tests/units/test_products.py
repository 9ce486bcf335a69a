"""Whole products, with their splits, chains and rules for Inf and NaN, against Python integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mxgemm.configs import CONFIGURATIONS, UNITS, Configuration, configuration, has_unit, unit_arithmetic
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from mxgemm.units import chains, multiply, splits, tiles
from mxgemm.units.formats import FORMATS, format_of, numpy_dtype, widen
from tests.reference import integers as reference
from tests.units.data import generate, same_bits, uneven_chains

FLOATS = [c for c in CONFIGURATIONS if not c.is_integer and not c.moduli]
ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_90")
CASES = [(c, a) for c in FLOATS for a in ARCHITECTURES if has_unit(c.unit, a) and (c.unit or a == "sm_90")]
STRESS = ("normal", "special", "wide", "subnormal", "overflow")


def _operands(row: Configuration, generator: str, seed: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    types = (row.source_types[0], row.source_types[-1])
    return generate(generator, rng, (2, k), types[0]), generate(generator, rng, (k, 3), types[1])


def _expected(a: np.ndarray, b: np.ndarray, row: Configuration, arch: str) -> np.ndarray:
    unit = unit_arithmetic(row.unit, arch) if row.unit else None
    by_operand = tuple(format_of(x.dtype.name).emin for x in (a, b))
    emins = by_operand if row.unit in (None, "f8") else (FORMATS[row.unit].emin,) * 2
    return reference.product(widen(a), widen(b), row, unit, emins).astype(row.accumulator)


def _names(case: object) -> str:
    return case.name if isinstance(case, Configuration) else str(case)


@pytest.mark.parametrize("generator", STRESS)
@pytest.mark.parametrize(("row", "arch"), CASES, ids=_names)
def test_products_agree_with_python_integers(row: Configuration, arch: str, generator: str) -> None:
    if row.chain and row.chain > 128:
        row = replace(row, chain=64)  # so that a small product has several chains
    a, b = _operands(row, generator, STRESS.index(generator), 133 if row.chain else 40)
    assert same_bits(multiply(a, b, row, arch), _expected(a, b, row, arch))


def _split_case(precision: str) -> tuple[np.ndarray, np.ndarray, Configuration]:
    row = configuration("float32", "float32", precision)
    return (*_operands(row, "normal", 5, 133), row)


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6", "bf16x9", "tf32x3", "f16x3"])
def test_a_dropped_product_of_a_split_is_caught(precision: str) -> None:
    row = configuration("float32", "float32", precision)
    rng = np.random.default_rng(13)
    # A low byte of 0x3F makes the third term as large as it gets, so that even product 33 shows somewhere.
    words = [
        (1 + rng.random((200, 8)) / 2).astype(np.float32).view(np.uint32) & ~np.uint32(0xFF) for _ in "ab"
    ]
    a, b = ((w | np.uint32(0x3F)).view(np.float32) for w in words)
    b = b.T
    whole = multiply(a, b, row)
    assert same_bits(whole[:2, :2], _expected(a[:2], b[:, :2], row, "sm_90"))
    for i in range(len(row.products)):
        mutant = replace(row, products=row.products[:i] + row.products[i + 1 :])
        assert not same_bits(multiply(a, b, mutant), whole), row.products[i]


@pytest.mark.parametrize(
    ("dtype", "precision"), [("float16", "native"), ("float32", "bf16x6"), ("float32", "scalar")]
)
def test_a_missing_last_step_is_caught(dtype: str, precision: str) -> None:
    row = configuration(dtype, dtype, precision)
    a, b = _operands(row, "normal", 6, 70)
    assert not same_bits(multiply(a[:, :-1], b[:-1], row), _expected(a, b, row, "sm_90"))


def test_two_swapped_rows_are_caught() -> None:
    row = configuration("float16", "float16", "native")
    a, b = _operands(row, "normal", 6, 20)
    assert not same_bits(multiply(a[::-1], b, row), _expected(a, b, row, "sm_90"))


def test_another_order_of_the_products_is_caught() -> None:
    a, b, row = _split_case("bf16x6")
    mutant = replace(row, products=row.products[::-1])
    assert not same_bits(multiply(a, b, mutant), _expected(a, b, row, "sm_90"))


def test_another_chain_length_is_caught() -> None:
    a, b, row = _split_case("bf16x6")
    assert not same_bits(multiply(a, b, replace(row, chain=128)), _expected(a, b, row, "sm_90"))


FLOAT8 = configuration("float8_e4m3fn", "float8_e5m2", "native")


@pytest.mark.parametrize("k", [8192, 8193, 8320, 8448, 16384 + 300])
def test_sections_agree_with_python_integers(k: int) -> None:
    a, b = uneven_chains(1, 1, k)
    assert same_bits(multiply(a, b, FLOAT8), _expected(a, b, FLOAT8, "sm_90"))


@pytest.mark.parametrize(("k", "changed"), [(8192, False), (8193, False), (8320, False), (8448, True)])
def test_sections_change_no_bit_up_to_one_chain_of_the_second(k: int, changed: bool) -> None:
    a, b = uneven_chains(4, 20, k)
    one_master = replace(FLOAT8, section=None)
    assert same_bits(multiply(a, b, FLOAT8), multiply(a, b, one_master)) != changed


def test_sections_are_summed_apart_and_added_in_order() -> None:
    k = 3 * 8192 + 300
    a, b = uneven_chains(4, 20, k)
    whole = multiply(a, b, FLOAT8)
    apart = [multiply(a[:, i : i + 8192], b[i : i + 8192], FLOAT8) for i in range(0, k, 8192)]
    assert same_bits(whole, sum(apart[1:], apart[0]))
    assert not same_bits(whole, sum(apart[-2::-1], apart[-1])), "the reverse order is caught"


@pytest.mark.parametrize("section", [None, 4096, 16384])
def test_another_section_length_is_caught(section: int | None) -> None:
    a, b = uneven_chains(4, 20, 20000)
    assert not same_bits(multiply(a, b, replace(FLOAT8, section=section)), multiply(a, b, FLOAT8))


def test_a_chain_longer_than_a_panel_is_one_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(configuration("float32", "float32", "bf16x3"), chain=8192)
    a, b = _operands(row, "normal", 7, 600)
    in_panels = multiply(a, b, row)
    monkeypatch.setattr(chains, "PANEL_DEPTH", 8192)
    assert same_bits(in_panels, multiply(a, b, row))


@pytest.mark.parametrize("precision", ["native", "scalar"])
def test_tall_and_wide_products_are_the_same_entries(precision: str) -> None:
    row = configuration("float16", "float16", precision)
    rng = np.random.default_rng(9)
    a, b = generate("normal", rng, (200, 40), "float16"), generate("normal", rng, (40, 100), "float16")
    whole = multiply(a, b, row)
    assert same_bits(whole[:, :3], multiply(a, b[:, :3], row))
    assert same_bits(whole[:2], multiply(a[:2], b, row))


def test_a_turned_split_keeps_its_pairs() -> None:
    row = replace(configuration("float32", "float32", "bf16x3"), products=((2, 1), (1, 1)))
    rng = np.random.default_rng(9)
    a, b = generate("normal", rng, (100, 70), "float32"), generate("normal", rng, (70, 100), "float32")
    assert same_bits(multiply(a, b, row)[:, :3], multiply(a, b[:, :3], row))


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    row = configuration("float16", "float16", "native")
    rng = np.random.default_rng(10)
    a, b = generate("normal", rng, (150, 200), "float16"), generate("normal", rng, (200, 150), "float16")
    alone = multiply(a, b, row)
    monkeypatch.setattr(tiles, "SERIAL_PRODUCTS", 0)
    monkeypatch.setattr(tiles.os, "cpu_count", lambda: 4)
    assert same_bits(alone, multiply(a, b, row))


@pytest.mark.parametrize(
    "row", [c for c in CONFIGURATIONS if c.source_types == ("float32",)], ids=lambda c: c.name
)
def test_inf_and_nan_come_out_as_in_the_scalar_product(row: Configuration) -> None:
    a = np.array(
        [[np.inf, 1, 2], [np.inf, -np.inf, 1], [np.nan, 1, 1], [1, 2, 3], [0, np.inf, 0]], np.float32
    )
    b = np.array([[1, 0, 1, -1], [2, 1, 1, 1], [3, 1, np.inf, 1]], np.float32)
    with np.errstate(all="ignore"):
        expected = np.where(
            np.isfinite(a.astype(float) @ b.astype(float)), 0, a.astype(float) @ b.astype(float)
        )
    found = multiply(a, b, row)
    special = np.where(np.isfinite(found), 0, found).astype(np.float64)
    assert same_bits(special, expected)


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6", "bf16x9", "tf32x3", "f16x3"])
def test_the_largest_finite_value_stays_finite_in_a_split(precision: str) -> None:
    row = configuration("float32", "float32", precision)
    largest = np.finfo(np.float32).max
    found = multiply(np.array([[largest]]), np.array([[np.float32(0.5)]]), row)
    assert np.isfinite(found).all()
    assert abs(found[0, 0] / largest - 0.5) < 2.0**-15


def test_one_rounded_term_overflows_to_inf() -> None:
    row = configuration("float32", "float32", "f16")
    found = multiply(np.array([[65519.0, 0], [65520, 0]], np.float32), np.ones((2, 1), np.float32), row)
    assert found[:, 0].tolist() == [65504.0, np.inf]


def test_scaling_ignores_entries_that_are_not_finite() -> None:
    row = configuration("float32", "float32", "f16x3")
    a, b = np.array([[np.inf, 1.5], [2.0**-100, 0]], np.float32), np.ones((2, 1), np.float32)
    assert multiply(a, b, row)[:, 0].tolist() == [np.inf, 2.0**-100]
    assert splits.row_exponents(a).tolist() == [0, -100]


def test_small_integers_are_exact_in_every_float_type() -> None:
    rng = np.random.default_rng(11)
    a, b = rng.integers(-4, 5, (5, 70)), rng.integers(-4, 5, (70, 6))
    for row in CONFIGURATIONS:
        if row.is_integer or row.moduli:
            continue
        left, right = (x.astype(np.float64).astype(_dtype(row)) for x in (a, b))
        assert (multiply(left, right, row).astype(np.float64) == a @ b).all(), row.name


def _dtype(row: Configuration) -> np.dtype:
    return numpy_dtype(row.source_types[0])


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1)])
@pytest.mark.parametrize("row", [c for c in CONFIGURATIONS if c.precision != "scalar"], ids=lambda c: c.name)
def test_empty_products_have_their_shape_and_are_zero(
    row: Configuration, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    found = multiply(np.ones((m, k), _dtype(row)), np.ones((k, n), _dtype(row)), row)
    assert found.shape == (m, n)
    assert found.dtype == row.accumulator
    assert (found == k).all()


def test_views_of_any_strides_work() -> None:
    row = configuration("float16", "float16", "native")
    rng = np.random.default_rng(12)
    a, b = generate("normal", rng, (6, 40), "float16"), generate("normal", rng, (40, 7), "float16")
    turned = np.asfortranarray(a)[::-1, ::-1]
    assert same_bits(
        multiply(turned, b[::-1], row), multiply(np.ascontiguousarray(turned), b[::-1].copy(), row)
    )


def test_a_pair_without_a_row_is_refused_by_name() -> None:
    row = configuration("bfloat16", "bfloat16", "native")
    x = np.ones((2, 2), _dtype(row))
    assert ("bf16", "sm_75") not in UNITS
    with pytest.raises(UnsupportedError, match=r"bf16 unit of sm_75.*sm_80"):
        multiply(x, x, row, "sm_75")


def test_operands_of_another_type_or_shape_are_refused() -> None:
    row = configuration("float16", "float16", "native")
    with pytest.raises(DTypeError, match="takes operands of float16"):
        multiply(np.ones((2, 2)), np.ones((2, 2)), row)
    with pytest.raises(ShapeError, match=r"\(M, K\) and \(K, N\)"):
        multiply(np.ones((2, 3), np.float16), np.ones((2, 3), np.float16), row)
