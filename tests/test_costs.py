"""Costs are femtoseconds an operation, from rates that are measured, from datasheets or derived."""

from pathlib import Path

import pytest

from mxgemm.configs import ARCHITECTURES, CONFIGURATIONS, Configuration, configuration, has_unit
from mxgemm.costs import costs

each_row = pytest.mark.parametrize("row", CONFIGURATIONS, ids=lambda row: row.name)


def rate(dtype: str, precision: str, arch: str) -> float:
    """TFLOP/s of the caller's product."""
    return 1000 / configuration(dtype, dtype, precision).cost(arch)


@each_row
def test_a_row_has_a_cost_exactly_where_its_unit_has_a_row(row: Configuration) -> None:
    with_unit = [arch for arch in ARCHITECTURES if has_unit(row.unit, arch)]
    assert sorted(row.costs) == sorted(with_unit)
    assert [arch for arch in ARCHITECTURES if 0 < row.cost(arch) < float("inf")] == with_unit


@pytest.mark.parametrize(
    ("dtype", "precision", "tflops"),
    [
        ("float16", "native", 655),
        ("bfloat16", "native", 655),
        ("float8_e4m3fn", "native", 1140),
        ("float64", "native", 61),
        ("float32", "tf32", 350),
        ("float32", "f64", 61),
        ("float32", "f16x3", 193),
        ("float32", "scalar", 51),
        ("int8", "exact", 845),
        ("int32", "exact", 148),
        ("int32", "scalar", 22),
        ("int64", "scalar", 5.2),
    ],
)
def test_hopper_rates_were_measured(dtype: str, precision: str, tflops: float) -> None:
    assert rate(dtype, precision, "sm_90") == pytest.approx(tflops, rel=1e-12)
    assert configuration(dtype, dtype, precision).costs["sm_90"].basis == "measured"


@pytest.mark.parametrize(
    ("dtype", "precision", "arch", "tflops"),
    [
        ("float16", "native", "sm_70", 125),
        ("float16", "native", "sm_75", 65),
        ("float16", "native", "sm_80", 312),
        ("float32", "tf32", "sm_86", 35.6),
        ("float32", "bf16", "sm_89", 362),
        ("int8", "exact", "sm_80", 624),
        ("float32", "scalar", "sm_70", 15.7),
        ("float64", "scalar", "sm_80", 9.7),
    ],
)
def test_elsewhere_rates_are_datasheets_and_marked_so(
    dtype: str, precision: str, arch: str, tflops: float
) -> None:
    assert rate(dtype, precision, arch) == pytest.approx(tflops, rel=1e-12)
    assert configuration(dtype, dtype, precision).costs[arch].basis == "datasheet"


@pytest.mark.parametrize(
    ("dtype", "arch", "like", "factor"),
    [
        ("float16", "sm_90", "float32", 1),
        ("float8_e5m2", "sm_80", "float32", 1),
        ("int32", "sm_80", "float32", 1 / 2),
        ("int16", "sm_90", "int32", 1),
        ("uint64", "sm_75", "int32", 1 / 4),
    ],
)
def test_scalar_rates_of_other_types_are_derived(dtype: str, arch: str, like: str, factor: float) -> None:
    assert rate(dtype, "scalar", arch) == pytest.approx(factor * rate(like, "scalar", arch))
    assert configuration(dtype, dtype, "scalar").costs[arch].basis == "derived"


@pytest.mark.parametrize(
    ("precision", "unit", "products"),
    [("bf16x3", "bf16", 3), ("tf32x3", "tf32", 3), ("bf16x6", "bf16", 6), ("bf16x9", "bf16", 9)],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_split_costs_its_products(precision: str, unit: str, products: int, arch: str) -> None:
    assert rate("float32", unit, arch) / rate("float32", precision, arch) == pytest.approx(products)
    assert costs("float32", precision)[arch].basis == "derived"


@pytest.mark.parametrize(("dtype", "products"), [("int16", 3), ("int32", 10), ("int64", 36), ("uint64", 36)])
def test_limbs_cost_their_products(dtype: str, products: int) -> None:
    assert rate("int8", "exact", "sm_80") / rate(dtype, "exact", "sm_80") == pytest.approx(products)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_i8crt_costs_its_moduli(dtype: str) -> None:
    assert rate(dtype, "i8crt5", "sm_90") / rate(dtype, "i8crt20", "sm_90") == pytest.approx(4)
    # GEMMul8 at 4096: 108, 95 and 83 TFLOP/s for 6, 7 and 8 moduli, 51.6 and 43.7 for 14 and 15.
    for n, measured in ((6, 108), (7, 95), (8, 83), (14, 51.6), (15, 43.7)):
        assert rate(dtype, f"i8crt{n}", "sm_90") == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90"])
def test_float16_and_bfloat16_units_tie(arch: str) -> None:
    assert rate("float32", "f16", arch) == rate("float32", "bf16", arch)
    assert rate("float16", "native", arch) == rate("bfloat16", "native", arch)


def test_the_documentation_shows_the_costs_of_the_table() -> None:
    text = (Path(__file__).parents[1] / "docs" / "configurations.md").read_text()
    table = text.partition("| configuration | sm_70 ")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {row.name.replace("|", ", "): row for row in CONFIGURATIONS}
    marks = {"measured": " (m)", "datasheet": " (d)", "derived": ""}
    assert len(table) > 20
    for line in table:
        name, *cells = (cell.strip() for cell in line.strip("| ").split("|"))
        found = rows[name].costs
        assert cells == [
            f"{1000 / found[arch].femtoseconds:.4g}{marks[found[arch].basis]}" if arch in found else "–"
            for arch in ARCHITECTURES
        ], name
