"""verify="full" and mx.check: right results pass, each kind of fault fails, and out stays untouched."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import units
from mxgemm.configs import CONFIGURATIONS, Configuration, has_unit
from mxgemm.problem import default_out_dtype
from tests.policies import outcome, policy_with, product, under
from tests.strategies import Array, numpy_type, same, small_integers, values

F32 = np.float32
ROWS = [row for row in CONFIGURATIONS if has_unit(row.unit, "sm_90") and row.moduli in (0, 6, 14)]
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def operands(row: Configuration, m: int = 17, n: int = 9, k: int = 133) -> tuple[Array, Array, Array]:
    dtype = row.source_types[0]
    rng = np.random.default_rng(5)
    if row.is_integer:
        a, b = values(dtype, (m, k), 1), values(dtype, (k, n), 2)
    else:
        a, b = (rng.uniform(-1, 1, s).astype(numpy_type(dtype)) for s in ((m, k), (k, n)))
    result = default_out_dtype(dtype)
    c = values(result, (m, n), 3) if row.is_integer else rng.uniform(-1, 1, (m, n)).astype(numpy_type(result))
    return a, b, c


def check(result: Any, *of: Any, **options: Any) -> mx.CheckResult:
    with under(policy_with()):
        return mx.check(result, *of, **options)


# Right results


@each_row
def test_what_gemm_gives_is_verified_and_certified(row: Configuration) -> None:
    a, b, c = operands(row)
    scalars: dict[str, Any] = {"alpha": 3, "beta": -2, "precision": row.precision}
    spec = mx.epilogue.relu(bias=c[0])
    found = outcome(a, b, c, verify="full", epilogue=spec, **scalars)
    certificate = found.certificate
    assert certificate is not None
    assert (certificate.level, certificate.passed, certificate.entries) == ("full", True, 17 * 9)
    assert 0 <= certificate.ratio <= 1
    assert certificate.bound == found.outcome.plan.bound
    assert same(found.array, product(a, b, c, epilogue=spec, **scalars))
    checked = check(found.array, a, b, c, epilogue=spec, **scalars)
    assert checked
    assert (checked.ratio, checked.where) == (certificate.ratio, certificate.where)


def test_without_verify_there_is_no_certificate() -> None:
    assert outcome(np.ones((2, 2), F32), np.ones((2, 2), F32)).certificate is None


@pytest.mark.parametrize(
    ("a", "b"), [((0, 3), (3, 2)), ((3, 0), (0, 2)), ((4,), (4, 2)), ((2, 4), (4,)), ((5, 1, 4), (4, 2))]
)
def test_every_shape_can_be_verified(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = small_integers("float32", a, 1), small_integers("float32", b, 2)
    found = outcome(x, y, alpha=3, verify="full")
    assert found.certificate is not None
    assert found.certificate.entries == found.array.size
    assert check(found.array, x, y, alpha=3)
    if found.array.size:
        assert not check(found.array + F32(1), x, y, alpha=3)


# Faults


def _with(result: units.UnitRun, array: Array) -> units.UnitRun:
    return units.UnitRun(array, result.flags)


def _one_entry(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    found = run(*args, **extras)
    found.array[-1, -1] += found.array.dtype.type(1)
    return found


def _rows_swapped(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    found = run(*args, **extras)
    return _with(found, np.concatenate([found.array[1:2], found.array[:1], found.array[2:]]))


# What the road hands to the models: problem, configuration, architecture, A, B, C.
def _c_dropped(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    return run(*args[:5], np.zeros_like(args[5]), **extras)


def _last_k_missing(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    shorter = np.array(args[3])
    shorter[..., -1] = 0
    return run(*args[:3], shorter, *args[4:], **extras)


def _nan(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    found = run(*args, **extras)
    if found.array.dtype.kind in "iu":
        found.array[0, 0] ^= 1
    else:
        found.array[0, 0] = np.nan
    return found


def _bias_dropped(run: Callable[..., Any], *args: Any, **extras: Any) -> Any:
    return run(*args, **{**extras, "bias": np.zeros_like(extras["bias"])})


FAULTS = {
    "one entry": _one_entry,
    "two rows swapped": _rows_swapped,
    "C dropped": _c_dropped,
    "the last k missing": _last_k_missing,
    "a NaN": _nan,
    "the bias dropped": _bias_dropped,
}
FAULTY_ROWS = (
    "float32/scalar",
    "float32/bf16x9",
    "float16/native",
    "float64/native",
    "int8|uint8/exact",
    "int64/exact",
)


@pytest.mark.parametrize("name", FAULTY_ROWS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_out_is_untouched(
    fault: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = next(row for row in ROWS if row.name == name)
    a, b, c = operands(row)
    out = np.full(c.shape, 55).astype(c.dtype)
    asked: dict[str, Any] = {
        "alpha": 3, "beta": 2, "precision": row.precision, "epilogue": mx.epilogue.identity(bias=c[0]),
    }  # fmt: skip
    run = units.run
    monkeypatch.setattr("mxgemm.units.run", lambda *args, **extras: FAULTS[fault](run, *args, **extras))
    with pytest.raises(mx.VerificationError) as caught:
        product(a, b, c, out=out, verify="full", **asked)
    assert (out == out.dtype.type(55)).all()
    certificate = caught.value.certificate
    assert not certificate.passed
    assert certificate.ratio > 1
    assert str(certificate) in str(caught.value)
    assert caught.value.array.shape == c.shape
    assert not check(caught.value.array, a, b, c, **asked)


def test_a_product_with_a_float16_accumulator_is_found() -> None:
    a, b, _ = operands(next(row for row in ROWS if row.name == "float16/native"))
    narrow = np.zeros((17, 9), np.float16)
    for k in range(a.shape[1]):
        narrow += np.outer(a[:, k], b[k])
    assert not check(narrow.astype(F32), a, b, precision="native")
    assert check(product(a, b, precision="native", out_dtype="float32"), a, b, precision="native")


@pytest.mark.parametrize(
    ("claimed", "ran"), [("bf16x9", "bf16x3"), ("bf16x6", "bf16x3"), ("scalar", "tf32"), ("tf32", "bf16")]
)
def test_a_less_accurate_precision_than_claimed_is_found(claimed: str, ran: str) -> None:
    a, b = np.full((3, 64), 1 + 2.0**-9 + 2.0**-18, F32), np.full((64, 2), 1 + 2.0**-9 + 2.0**-18, F32)
    found = product(a, b, precision=ran)
    assert check(found, a, b, precision=ran)
    assert not check(found, a, b, precision=claimed)


# The checker at its edge


@pytest.mark.parametrize("precision", ["scalar", "bf16x6", "tf32", "f16x3"])
def test_a_fault_of_101_hundredths_of_the_bound_fails_and_of_99_passes(precision: str) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(1, 9, (3, 64)).astype(F32), rng.integers(1, 9, (64, 2)).astype(F32)
    a[:, 32:], b[32:] = -a[:, :32], b[:32]  # D is 0, so that any error is a float32
    found = np.zeros((3, 2), F32)
    assert same(found, product(a, b, precision=precision))
    found[2, 1] = 1e-3
    bound = 1e-3 / check(found, a, b, precision=precision).ratio
    for error, verdict in ((0.99, True), (1.01, False), (-0.99, True), (-1.01, False)):
        found[2, 1] = error * bound
        result = check(found, a, b, precision=precision)
        assert bool(result) is verdict
        assert result.where == (2, 1)
        assert result.ratio == pytest.approx(abs(error), rel=1e-6)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_never_passes_where_the_operands_are(value: float) -> None:
    a, b, _ = operands(next(row for row in ROWS if row.name == "float32/scalar"))
    found = product(a, b)
    found[3, 4] = value
    assert not check(found, a, b)


def test_what_the_operands_decide_must_come_out() -> None:
    a, b = np.ones((2, 3), F32), np.ones((3, 2), F32)
    a[0, 1] = np.inf
    for wrong in (np.nan, -np.inf, 3.0):
        found = np.array([[wrong, np.inf], [3, 3]], F32)
        assert not check(found, a, b)
    assert check(np.array([[np.inf, np.inf], [3, 3]], F32), a, b)


# What is asked


def test_check_takes_what_gemm_takes() -> None:
    a, b, c = operands(next(row for row in ROWS if row.name == "float32/scalar"))
    asked: dict[str, Any] = {"alpha": 1.2, "beta": 2, "epilogue": mx.epilogue.relu(bias=c[0])}
    found = product(a, b, c, **asked)
    assert check(found, a, b, c, **asked)
    assert check(found, a.T, b.T, c, transpose_a=True, transpose_b=True, **asked)
    for changed in ({"alpha": 1.3}, {"beta": 1}, {"epilogue": None}, {"epilogue": mx.epilogue.relu()}):
        assert not check(found, a, b, c, **(asked | changed))
    elsewhere = {"precision": "tf32", "device": "cpu:sm_80"}
    assert check(product(a, b, **elsewhere), a, b, **elsewhere)


def test_check_needs_no_grant_for_a_named_precision_and_defaults_to_what_would_run() -> None:
    x, one = np.array([[1 + 2.0**-12]], F32), np.ones((1, 1), F32)
    rounded = product(x, one, precision="f16")
    assert check(rounded, x, one, precision="f16")
    assert not check(rounded, x, one)  # scalar would run
    with under(policy_with("relaxed", "f16")):
        assert mx.check(rounded, x, one)


def test_check_neither_reports_nor_advises() -> None:
    heard: list[Any] = []
    policy = policy_with()
    policy.set_reporter(heard.append)
    ones = np.ones((2, 2), F32)
    with under(policy), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mx.check(2 * ones, ones, ones)
    assert heard == []


@pytest.mark.parametrize("scalar", [1e-60, 0])
def test_check_knows_which_terms_are_absent(scalar: float) -> None:
    poisoned, ones = np.full((2, 2), np.nan, F32), np.ones((2, 2), F32)
    assert check(3 * ones, poisoned, ones, ones, alpha=scalar, beta=3)
    assert check(6 * ones, ones, ones, poisoned, alpha=3, beta=scalar)


def test_a_result_of_another_shape_or_type_is_refused() -> None:
    ones = np.ones((2, 2), F32)
    with pytest.raises(mx.ShapeError, match=r"\(2,\).*\(2, 2\)"):
        check(np.ones(2, F32), ones, ones)
    with pytest.raises(mx.DTypeError, match=r"float32.*float64"):
        check(ones, ones, ones, out_dtype="float64")
    with pytest.raises(mx.DTypeError, match="out_dtype float16"):
        check(ones.astype(np.float16), ones, ones)
    with pytest.raises(mx.UnsupportedError, match="f64"):
        check(ones, ones, ones, precision="f64", device="cpu:sm_80")
