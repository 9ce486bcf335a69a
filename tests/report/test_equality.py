"""Equality: bits, but for NaN, and for what a mathematical library computes."""

import ml_dtypes
import numpy as np
import pytest

from mxgemm.report.equality import KERNEL_ULPS, differing, tolerance

TYPES = ["float16", ml_dtypes.bfloat16, "float32", "float64", ml_dtypes.float8_e4m3fn]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_any_nan_equals_any_nan_and_nothing_else(dtype: object) -> None:
    x = np.array([np.nan, 1.0], dtype)
    other = -x
    other[1] = 1
    assert not differing(x, other).any()
    assert differing(x, np.array([1.0, np.nan], dtype)).all()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_zeros_of_both_signs_differ(dtype: object) -> None:
    assert differing(np.array([0.0], dtype), np.array([-0.0], dtype)).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("start", [1.0, -1.0, 0.0, 0.49999])
def test_the_allowance_counts_numbers_in_between(dtype: str, start: float) -> None:
    x = np.array([start], dtype)
    y = x
    for _ in range(3):
        y = np.nextafter(y, np.array([2], dtype))
    assert not differing(x, y, 3).any()
    assert differing(x, y, 2).all()
    assert differing(x, y).all()


def test_infinity_is_one_number_beyond_the_largest_and_nan_is_none() -> None:
    x = np.array([np.inf, np.finfo(np.float32).max], np.float32)
    assert not differing(x, x[::-1], 1).any()
    assert differing(x, np.full(2, np.nan, np.float32), 10**6).all()


def test_integers_are_equal_or_not() -> None:
    assert differing(np.array([1, 2], np.int8), np.array([1, 3], np.int8)).tolist() == [False, True]


def test_only_what_a_library_computes_has_a_tolerance() -> None:
    for exact in ("identity", "relu", "clamp"):
        assert tolerance(exact, "float32", "float32") == 0
    assert tolerance("gelu", "float32", "float32") == KERNEL_ULPS["gelu"]["float32"] + 1
    assert tolerance("silu", "float32", "float16") == 1
