"""Whole products through gemm(), bit for bit those of the slow model in Python integers."""

from typing import Any

import numpy as np
import pytest

from mxgemm.configs import CONFIGURATIONS, Configuration, has_unit, unit_arithmetic
from mxgemm.problem import default_out_dtype
from tests.policies import product
from tests.reference import integers as slow
from tests.strategies import INTEGERS, Array, numpy_type, same, values, wrapped

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173)
LEAST_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "float8_e4m3fn": -6, "float8_e5m2": -14}
FLOAT_ROWS = [row for row in CONFIGURATIONS if not row.is_integer and row.moduli in (0, 5, 8, 14, 20)]
# One architecture of each arithmetic: sm_86 and sm_89 have that of sm_80; scalar and i8crtN are one.
RUNS = [
    (row, arch)
    for row in FLOAT_ROWS
    for arch in ("sm_70", "sm_75", "sm_80", "sm_90")
    if has_unit(row.unit, arch) and (arch == "sm_90" or row.unit in ("f16", "bf16", "tf32"))
]
each_run = pytest.mark.parametrize(("row", "arch"), RUNS, ids=lambda x: x if isinstance(x, str) else x.name)


def expected(a: Array, b: Array, row: Configuration, arch: str) -> Array:
    """P of a row by the slow model, in the accumulator's type."""
    unit = unit_arithmetic(row.unit, arch) if row.unit else None
    key = [str(x.dtype) if row.unit == "f8" else str(row.unit) for x in (a, b)]
    emins = LEAST_EXPONENT.get(key[0], -1022), LEAST_EXPONENT.get(key[1], -1022)
    bits = slow.crt_bits(MODULI[: row.moduli], a.shape[1]) if row.moduli else 0
    found = slow.product(a.astype(np.float64), b.astype(np.float64), row, unit, emins, bits)
    return found.astype(row.accumulator)


def close_in_exponent(dtype: str, shape: tuple[int, int], seed: int) -> Array:
    """Random values with a few large ones and some exact zeros, so that alignment has something to cut."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * rng.choice((1.0, 1.0, 2.0**-9, 2.0**7), shape)
    x[rng.random(shape) < 0.1] = 0.0
    return x.astype(numpy_type(dtype))


@each_run
def test_a_product_in_several_groups_and_chains(row: Configuration, arch: str) -> None:
    # Past one chain of a split (64) and of fp8 (128), with a group that is not full at the end.
    k = 133 if row.chain in (64, 128) else 53
    a_type, b_type = row.source_types[0], row.source_types[-1]
    a, b = close_in_exponent(a_type, (1, k), 1), close_in_exponent(b_type, (k, 2), 2)
    found = product(a, b, precision=row.precision, device=f"cpu:{arch}", out_dtype=row.accumulator)
    assert same(found, expected(a, b, row, arch))


@each_run
def test_specials_come_out_as_in_the_slow_model(row: Configuration, arch: str) -> None:
    kind = numpy_type(row.source_types[0])
    a = np.ones((5, 6), kind)
    b = np.ones((6, 3), kind)
    b[:, 1], b[2, 2] = -2, 0
    if row.source_types[0] != "float8_e4m3fn":  # it has no infinity
        a[0, 2], a[1, 3] = np.inf, -np.inf
        a[2, [0, 4]] = np.inf, -np.inf
    a[3, 5] = np.nan
    found = product(a, b, precision=row.precision, device=f"cpu:{arch}", out_dtype=row.accumulator)
    assert same(found, expected(a, b, row, arch))


@each_run
def test_subnormal_operands_and_results(row: Configuration, arch: str) -> None:
    rng = np.random.default_rng(3)
    kind = numpy_type(row.source_types[0])
    word = f"u{kind.itemsize}"
    mantissa = {1: 3, 2: 10, 4: 23, 8: 52}[kind.itemsize] if kind.name != "bfloat16" else 7
    mantissa = 2 if kind.name == "float8_e5m2" else mantissa
    a = rng.integers(1, 2**mantissa, (3, 20)).astype(word).view(kind)  # all subnormal
    b = close_in_exponent(str(kind), (20, 2), 4)
    found = product(a, b, precision=row.precision, device=f"cpu:{arch}", out_dtype=row.accumulator)
    assert same(found, expected(a, b, row, arch))
    if row.precision in ("bf16x9", "scalar", "native", "f64"):
        assert found.all()  # nothing was flushed


def test_one_chain_ends_at_8192() -> None:
    # 8192 ones fill one chain exactly; a further 2^-24 is lost in the unit and kept by the float32 sum.
    a = np.full((1, 8193), 2.0**-13, np.float16)
    b = np.ones((8193, 1), np.float16)
    b[-1], a[0, -1] = 2.0**-11, 2.0**-13
    found = product(a, b, precision="native", out_dtype="float32")[0, 0]
    assert found == 1.0  # 1 + 2^-24 to nearest even
    a[0, -1] = 3 * 2.0**-14
    assert product(a, b, precision="native", out_dtype="float32")[0, 0] == 1 + 2.0**-23  # up, not truncated


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("precision", ["exact", "scalar"])
def test_integer_products(dtype: str, precision: str) -> None:
    a, b = values(dtype, (3, 200), 5), values(dtype, (200, 2), 6)
    assert same(product(a, b, precision=precision), slow.integer_product(a, b, default_out_dtype(dtype)))


def test_the_slow_integer_product_and_the_one_of_these_tests_agree() -> None:
    a, b = values("uint16", (2, 9), 7), values("uint16", (9, 2), 8)
    exact: Any = a.astype(object) @ b.astype(object)
    assert same(slow.integer_product(a, b, "uint16"), wrapped(exact, "uint16"))
