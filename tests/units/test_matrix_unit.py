"""The group model against Python integers, on every row of the table of units."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mxgemm.configs import UNITS, UnitArithmetic, unit_arithmetic
from mxgemm.units import matrix_unit
from mxgemm.units.formats import FORMATS, widen
from mxgemm.units.matrix_unit import accumulate, panel
from tests.reference import integers as reference
from tests.units.data import DTYPES, GENERATORS, generate, same_bits

OPERANDS = {"f8": ("e4m3", "e5m2"), "f16.f16": ("f16", "f16"), "e4m3.f16": ("e4m3", "e4m3")}
ROWS = [key for key, unit in UNITS.items() if unit.kind == "truncating"]
SHAPE = (3, 4)


def _operands(unit: str) -> tuple[str, str]:
    return OPERANDS.get(unit, (unit, unit))


def _inputs(
    unit: UnitArithmetic, generator: str, groups: int = 3
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([unit.group, unit.fraction_bits, GENERATORS.index(generator)])
    k = unit.group * groups - 1
    left, right = (
        widen(generate(generator, rng, (k, n), DTYPES[f]), "tf32" if f == "tf32" else None)
        for n, f in zip(SHAPE, _operands(unit.unit), strict=True)
    )
    half = unit.output == "f16-rne"
    c = generate(generator, rng, SHAPE, "float16" if half else "float32").astype(np.float64)
    return left, right, c


def _emins(unit: UnitArithmetic) -> tuple[int, int]:
    first, second = _operands(unit.unit)
    return FORMATS[first].emin, FORMATS[second].emin


def _model(a: np.ndarray, b: np.ndarray, c: np.ndarray, unit: UnitArithmetic) -> np.ndarray:
    total = c.copy()
    with np.errstate(all="ignore"):
        accumulate(*(panel(x, e) for x, e in zip((a, b), _emins(unit), strict=True)), total, unit)
    return total


def _expected(a: np.ndarray, b: np.ndarray, c: np.ndarray, unit: UnitArithmetic) -> np.ndarray:
    return np.array(
        [
            [
                reference.unit_chain(a[:, m].tolist(), b[:, n].tolist(), float(c[m, n]), _emins(unit), unit)
                for n in range(SHAPE[1])
            ]
            for m in range(SHAPE[0])
        ]
    )


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize(("unit", "arch"), ROWS, ids=str)
def test_every_row_agrees_with_python_integers(unit: str, arch: str, generator: str) -> None:
    row = unit_arithmetic(unit, arch)
    inputs = _inputs(row, generator)
    assert same_bits(_model(*inputs, row), _expected(*inputs, row))


def _one(products: list[tuple[float, float]], c: float, unit: str = "f16", arch: str = "sm_90") -> float:
    row = unit_arithmetic(unit, arch)
    a, b = (np.array([[p[i]] for p in products], dtype=np.float64) for i in (0, 1))
    return float(_model(a, b, np.array([[c]]), row)[0, 0])


SMALL = (2.0**-13, 2.0**-13)


@pytest.mark.parametrize(
    ("products", "c", "expected"),
    [
        ([SMALL] * 16, 1.0, 1.0),
        ([SMALL] * 16, 1 - 2.0**-24, 1 + 2 * 2.0**-24),
        ([(1.5, 1.5), *[(2.0**-12, 2.0**-13)] * 8], 0.0, 2.25 + 2.0**-22),
        ([(1.0, 1.0)], 2.0**24, 2.0**24),
        ([(1.0, 1.0)] * 16, 2.0**24, 2.0**24 + 16),
    ],
)
def test_the_alignment_probes_of_hopper(
    products: list[tuple[float, float]], c: float, expected: float
) -> None:
    assert _one(products, c) == expected


def test_a_raw_exponent_is_not_renormalised() -> None:
    products = [(1.5, 1.5), *[(2.0**-12, 2.0**-13)] * 7]
    assert _one(products, 0.0, "tf32") == 2.25


@pytest.mark.parametrize("c", [-0.0, 0.0])
def test_a_zero_result_is_plus_zero(c: float) -> None:
    for products in ([(-0.0, 1.0)] * 4, [(1.0, 1.0), (-1.0, 1.0)], [(0.0, -1.0)]):
        assert math.copysign(1, _one(products, c)) == 1


def test_a_negative_sum_that_underflows_is_plus_zero() -> None:
    result = _one([(-(2.0**-75), 2.0**-76)], 0.0, "bf16")
    assert result == 0
    assert math.copysign(1, result) == 1


def test_overflow_needs_a_whole_last_place() -> None:
    largest = float(np.finfo(np.float32).max)
    assert _one([(2.0**51, 2.0**52)], largest, "bf16") == largest
    assert _one([(2.0**52, 2.0**52)], largest, "bf16") == math.inf


def test_products_beyond_float32_cancel_within_a_group() -> None:
    products = [(2.0**100, 2.0**100), (-(2.0**100), 2.0**100), (1.0, 1.0)]
    assert _one(products, 0.0, "bf16") == 0.0


def test_tf32_drops_the_low_bits_of_a_word() -> None:
    words = np.array([0x3F801FFF, 0x7F800001], np.uint32).view(np.float32)
    assert widen(words, "tf32").tolist() == [1.0, math.inf]


def test_fp8_results_keep_13_fraction_bits_of_c() -> None:
    c = float(np.array([0x3F8007FF], np.uint32).view(np.float32)[0])
    assert _one([(0.0, 1.0)] * 32, c, "f8") == float(np.array([0x3F800400], np.uint32).view(np.float32)[0])


def test_the_short_road_of_moderate_ranges_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    row = unit_arithmetic("f16", "sm_90")
    inputs = _inputs(row, "normal", groups=8)
    short = _model(*inputs, row)
    monkeypatch.setattr(matrix_unit, "_stays_in_range", lambda *_: False)
    assert same_bits(short, _model(*inputs, row))


def _to_nearest(a: Any, b: Any, c: Any, work: Any) -> None:
    c *= work.scale
    np.rint(c, out=c)
    for left, right in zip(a, b, strict=True):
        c += np.rint(left[:, None] * right * work.scale)


def _caught(unit: str) -> bool:
    row = unit_arithmetic(unit, "sm_90")
    inputs = _inputs(row, "wide")
    return not same_bits(_model(*inputs, row), _expected(*inputs, row))


@pytest.mark.parametrize("unit", ["f16", "bf16", "tf32", "f8"])
def test_a_unit_that_rounds_to_nearest_is_caught(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_unit, "_truncated_sum", _to_nearest)
    assert _caught(unit)


def test_a_float16_output_ties_by_the_truncated_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    products = [(2.0**-5, 2.0**-6), (1.5 * 2.0**-13, 2.0**-13)]
    assert _one(products, 1.0, "f16.f16") == 1.0
    monkeypatch.setattr(matrix_unit, "_truncated_sum", _to_nearest)
    assert _one(products, 1.0, "f16.f16") == 1 + 2.0**-10


@pytest.mark.parametrize("unit", ["f16", "f8"])
def test_a_dropped_product_is_caught(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = matrix_unit._truncated_sum
    monkeypatch.setattr(matrix_unit, "_truncated_sum", lambda a, b, c, work: whole(a[1:], b[1:], c, work))
    assert _caught(unit)


def test_another_exponent_for_zero_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    row = unit_arithmetic("bf16", "sm_90")
    a, b, c = np.full((16, 3), 2.0**-76), np.full((16, 4), 2.0**-76), np.zeros(SHAPE)
    expected = _expected(a, b, c, row)
    assert same_bits(_model(a, b, c, row), expected)
    monkeypatch.setattr(matrix_unit, "ZERO_EXPONENT", -126)
    assert not same_bits(_model(a, b, c, row), expected)
