"""Whole problems: batches, the epilogue's sequence of roundings, absent terms and result types."""

from __future__ import annotations

import math
import sys
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mxgemm.configs import CONFIGURATIONS, Configuration, configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.problem import Operand, pose
from mxgemm.units import UnitRun, multiply, run
from mxgemm.units import epilogue as steps
from mxgemm.units.formats import numpy_dtype
from tests.reference import integers as reference
from tests.units.data import generate, same_bits

ARRAYS = ("bias", "scale_rows", "scale_cols")


def _metadata(x: np.ndarray) -> Operand:
    return Operand(x.dtype.name, x.shape, tuple(s // x.itemsize for s in x.strides))


def _run(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, precision: str = "scalar", **options: Any
) -> UnitRun:
    arrays = {name: options.pop(name) for name in ARRAYS if name in options}
    spec = EpilogueSpec(
        options.pop("activation", "identity"),
        options.pop("lo", 0),
        options.pop("hi", 0),
        *(n in arrays for n in ARRAYS),
    )
    problem, _ = pose(
        _metadata(a), _metadata(b), None if c is None else _metadata(c), epilogue=spec,
        **{name: _metadata(x) for name, x in arrays.items()}, **options,
    )  # fmt: skip
    full = (*problem.batch, problem.m, problem.n)
    row = configuration(a.dtype.name, b.dtype.name, precision)
    left = np.broadcast_to(a, (*problem.batch, *a.shape[-2:]))
    right = np.broadcast_to(b, (*problem.batch, *b.shape[-2:]))
    spread = {
        name: np.broadcast_to(x[:, None] if name == "scale_rows" and x.ndim == 1 else x, full)
        for name, x in arrays.items()
    }
    return run(problem, row, "sm_90", left, right, None if c is None else np.broadcast_to(c, full), **spread)


def _random(*shape: int, dtype: str = "float32", seed: int = 1) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(numpy_dtype(dtype))


def _float32(value: Fraction) -> float:
    return reference.rounded(value, reference.KINDS["float32"])


def test_the_epilogue_rounds_after_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "BLOCK_ENTRIES", 8)
    a, b, c = _random(5, 9), _random(9, 4), _random(5, 4)
    bias, rows, cols = _random(4), _random(5, seed=2), _random(4, seed=3)
    found = _run(a, b, c, alpha=1.2, beta=2.3, bias=bias, scale_rows=rows, scale_cols=cols).array
    p = multiply(a, b, configuration("float32", "float32", "scalar"))
    alpha, beta = (Fraction(float(np.float32(x))) for x in (1.2, 2.3))
    for m, n in np.ndindex(5, 4):
        u = _float32(alpha * Fraction(float(p[m, n])))
        u = _float32(Fraction(u) * Fraction(float(rows[m])))
        u = _float32(Fraction(u) * Fraction(float(cols[n])))
        v = _float32(beta * Fraction(float(c[m, n])))
        s = _float32(Fraction(u) + Fraction(v))
        assert found[m, n] == _float32(Fraction(s) + Fraction(float(bias[n])))


def test_c_dropped_is_caught() -> None:
    a, b, c = _random(3, 4), _random(4, 3), _random(3, 3)
    assert not same_bits(_run(a, b, c, beta=1).array, _run(a, b).array)


def test_beta_zero_never_reads_c() -> None:
    a, b = _random(3, 4), _random(4, 3)
    c = np.full((3, 3), np.nan, np.float32)
    assert same_bits(_run(a, b, c, beta=0).array, _run(a, b).array)


def test_alpha_zero_never_reads_the_operands() -> None:
    a, b, c = np.full((2, 4), np.nan, np.float32), np.full((4, 2), np.inf, np.float32), _random(2, 2)
    assert same_bits(_run(a, b, c, alpha=0, beta=1).array, c)


def test_without_products_c_is_scaled_or_the_result_is_plus_zero() -> None:
    a, b, c = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), _random(2, 3)
    assert same_bits(_run(a, b, c, beta=2).array, c * np.float32(2))
    assert same_bits(_run(a, b).array, np.zeros((2, 3), np.float32))


def test_minus_zero_survives_where_other_terms_are_absent() -> None:
    a, b = np.zeros((1, 0), np.float32), np.zeros((0, 1), np.float32)
    minus = np.full((1, 1), -0.0, np.float32)
    assert np.signbit(_run(a, b, minus, beta=1).array).all()
    assert np.signbit(_run(a, b, bias=minus[0]).array).all()
    one = np.ones((1, 1), np.float32)
    assert not np.signbit(_run(minus, one).array).any(), "a chain starts at +0"
    assert np.signbit(_run(-one, np.full((1, 1), 1e-30, np.float32), alpha=1e-30).array).all()


def test_scalars_and_bias_are_rounded_to_the_accumulator_first() -> None:
    one, zero = np.ones((1, 1), np.float32), np.zeros((1, 0), np.float32)
    assert _run(one, one, alpha=1 + 2.0**-24 + 2.0**-40).array[0, 0] == np.float32(1 + 2.0**-23)
    assert _run(zero, zero.T, bias=np.array([1 + 2.0**-25])).array[0, 0] == 1


def test_batches_are_independent_products() -> None:
    a, b, c = _random(2, 1, 3, 4), _random(3, 4, 5), _random(3, 3, 5)
    found = _run(a, b, c, beta=1, activation="relu").array
    assert found.shape == (2, 3, 3, 5)
    for i, j in np.ndindex(2, 3):
        assert same_bits(found[i, j], _run(a[i, 0], b[j], c[j], beta=1, activation="relu").array)


@pytest.mark.parametrize("out_dtype", ["float16", "float32"])
def test_results_are_converted_from_the_accumulator(out_dtype: str) -> None:
    a, b = _random(3, 40, dtype="float16"), _random(40, 2, dtype="float16")
    p = multiply(a, b, configuration("float16", "float16", "native"))
    assert same_bits(_run(a, b, precision="native", out_dtype=out_dtype).array, p.astype(out_dtype))


def test_widened_float32_is_rounded_once_at_the_end() -> None:
    a, b, c = _random(3, 40), _random(40, 2), _random(3, 2)
    p = multiply(a.astype(np.float64), b.astype(np.float64), configuration("float64", "float64", "scalar"))
    assert same_bits(_run(a, b, c, "f64", beta=1).array, (p + c).astype(np.float32))


def test_flags_tell_what_overflowed() -> None:
    large, one = np.full((1, 1), 70000, np.float32), np.ones((1, 1), np.float32)
    assert _run(large, one, precision="f16").flags == ("operand-overflow",)
    assert _run(large, one, precision="bf16").flags == ()
    fp8 = np.full((1, 2), 400, np.float32).astype(numpy_dtype("float8_e4m3fn"))
    found = _run(fp8, fp8.T, precision="native", out_dtype="float8_e4m3fn")
    assert found.flags == ("fp8-overflow",)
    assert found.array.astype(np.float32).tolist() == [[448]]


def test_an_empty_result_has_no_flags() -> None:
    large = np.full((1, 1), 70000, np.float32)
    assert _run(large[:0], large, precision="f16").flags == ()


def test_integers_wrap_in_every_step() -> None:
    a, b = np.array([[2**30]], np.int32), np.array([[3]], np.int32)
    c, bias = np.array([[2**31 - 1]], np.int32), np.array([5], np.int32)
    found = _run(a, b, c, "exact", alpha=2**32 + 3, beta=-2, bias=bias).array
    exact = (2**32 + 3) * 3 * 2**30 - 2 * (2**31 - 1) + 5
    assert found.tolist() == [[(exact + 2**31) % 2**32 - 2**31]]


def test_a_wider_integer_result_is_exact() -> None:
    a = np.array([[2**31 - 1, -(2**31)]], np.int32)
    found = _run(a, a.T, precision="exact", out_dtype="int64").array
    assert found.tolist() == [[(2**31 - 1) ** 2 + 2**62]]


def test_nan_passes_relu_and_bias() -> None:
    a = np.array([[np.nan]], np.float32)
    found = _run(a, np.ones((1, 1), np.float32), bias=np.ones(1, np.float32), activation="relu").array
    assert math.isnan(found[0, 0])


@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        ("float16", "native"), ("float8_e4m3fn", "native"), ("float32", "bf16x3"), ("float32", "f16x3"),
        ("float32", "scalar"), ("float64", "scalar"), ("float32", "i8crt20"), ("int8", "exact"),
        ("int64", "exact"),
    ],
)  # fmt: skip
def test_memory_stays_within_twelve_times_operands_and_result(dtype: str, precision: str) -> None:
    a, b = np.ones((700, 96), numpy_dtype(dtype)), np.ones((96, 600), numpy_dtype(dtype))
    tracemalloc.start()
    found = _run(a, b, precision=precision).array
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 12 * (a.nbytes + b.nbytes + found.nbytes)


def test_a_wide_row_is_finished_in_blocks_too() -> None:
    a, b = np.ones((1, 1), np.float16), np.ones((1, 4_000_000), np.float16)
    tracemalloc.start()
    found = _run(a, b, activation="gelu", bias=np.ones(1, np.float16)).array
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 12 * (b.nbytes + found.nbytes)


@pytest.mark.parametrize("row", CONFIGURATIONS, ids=lambda row: row.name)
def test_small_products_side_by_side_have_the_bits_that_each_has_alone(
    row: Configuration, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, dtype = np.random.default_rng(7), row.source_types[-1]

    def draw(*shape: int) -> np.ndarray:
        if row.is_integer:
            return rng.integers(0, 2**64, shape, np.uint64).astype(dtype)
        return generate("special", rng, shape, dtype)

    a, b = draw(4, 2, 2, 70), draw(2, 70, 3)  # B's batch is broadcast
    a[3] = np.zeros((2, 2, 70), a.dtype)
    a[0, 0], b[0] = 1, 1  # the first product alone holds no Inf and no NaN
    alone = [[_run(x, y, precision=row.precision).array for x, y in zip(z, b, strict=True)] for z in a]
    for together in (3, 8):
        monkeypatch.setattr(sys.modules["mxgemm.units.problems"], "SLAB_RESULTS", 6 * together)
        assert same_bits(_run(a, b, precision=row.precision).array, np.array(alone)), together


def test_extras_of_products_side_by_side_stay_with_their_own() -> None:
    a, b, c, bias = _random(5, 2, 4), _random(5, 4, 3), _random(5, 2, 3), _random(5, 1, 3)
    rows = _random(2)
    whole = _run(a, b, c, beta=2, bias=bias, scale_rows=rows).array
    for i in range(5):
        alone = _run(a[i], b[i], c[i], beta=2, bias=bias[i], scale_rows=rows).array
        assert same_bits(whole[i], alone), i


def test_a_large_batch_of_small_products_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = sys.modules["mxgemm.units.problems"], []
    monkeypatch.setattr(module, "multiply", lambda *x, **y: calls.append(1) or multiply(*x, **y))
    a = np.arange(65_537, dtype=np.float32)[:, None, None]
    found = _run(a, np.full((1, 1), 3, np.float32)).array
    assert np.array_equal(found, 3 * a)
    assert len(calls) < 10
