"""Our own conversions against exact fractions, and their rules for NaN, Inf and overflow."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from mxgemm.errors import UnsupportedError
from mxgemm.units.convert import (
    operand_overflows,
    round_operand,
    round_scalar,
    saturates,
    to_accumulator,
    to_output,
)
from mxgemm.units.formats import format_of, numpy_dtype, widen
from tests.reference import integers as reference
from tests.units.data import same_bits

NARROW = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float32": "float32",
}


def _floats(seed: int, count: int = 3000) -> np.ndarray:
    """Random float32 bits, with many in the range of the narrow formats and on their ties."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, count, dtype=np.uint32)
    words[::2] = (words[::2] & 0x80FFFFFF) | (
        rng.integers(0x30, 0x48, words[::2].size, dtype=np.uint32) << 24
    )
    words[::3] &= 0xFFFFF000
    words[::5] &= 0xFFFF8000
    words[::7] &= 0xFFF00000
    return words.view(np.float32)


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32"])
def test_operands_are_rounded_once(fmt: str) -> None:
    x = _floats(1)
    x = x[np.isfinite(x)]
    found = round_operand(x, fmt)
    expected = np.array([reference.to_format(float(v), fmt) for v in x], np.float32)
    assert same_bits(found, expected)


# What the copy engine of an NVIDIA H200 makes of words: ties both ways, and next to ties; the last word that
# stays finite and the first that does not; subnormals; Inf.
TF32_WORDS = {
    0x3F801000: 0x3F800000, 0x3F803000: 0x3F804000, 0xBF801000: 0xBF800000, 0xBF803000: 0xBF804000,
    0x3F800FFF: 0x3F800000, 0x3F801001: 0x3F802000, 0x7F7FEFFF: 0x7F7FE000, 0x7F7FF000: 0x7F800000,
    0x00000FFF: 0x00000000, 0x00001000: 0x00000000, 0x00003000: 0x00004000, 0x80001001: 0x80002000,
    0x007FFFFF: 0x00800000, 0x80000000: 0x80000000, 0xFF800000: 0xFF800000,
}  # fmt: skip


def test_tf32_operands_are_rounded_as_the_copy_engine_rounds_them() -> None:
    words = np.array(list(TF32_WORDS), np.uint32)
    found = round_operand(words.view(np.float32), "tf32").view(np.uint32)
    assert [f"{x:08x}" for x in found] == [f"{x:08x}" for x in TF32_WORDS.values()]


@pytest.mark.parametrize("fmt", ["f16", "bf16", "tf32"])
def test_operand_nan_is_canonical_and_inf_stays(fmt: str) -> None:
    words = np.array([0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000], np.uint32)
    found = round_operand(words.view(np.float32), fmt).view(np.uint32)
    assert found.tolist() == [0x7FFFFFFF, 0x7FFFFFFF, 0x7F800000, 0xFF800000]


@pytest.mark.parametrize(("fmt", "last", "first"), [("f16", 65519.996, 65520.0), ("bf16", 3.3895e38, 3.4e38)])
def test_operands_overflow_to_inf(fmt: str, last: float, first: float) -> None:
    x = np.array([last, -first], np.float32)
    assert np.isfinite(round_operand(x[:1], fmt)).all()
    assert round_operand(x, fmt)[1] == -np.inf
    assert not operand_overflows(x[:1], fmt)
    assert operand_overflows(x, fmt)
    assert not operand_overflows(np.array([np.inf, np.nan], np.float32), fmt)


def test_tf32_overflows_from_half_a_last_place_beyond_its_largest_number() -> None:
    largest, last, first = np.array([0x7F7FE000, 0x7F7FEFFF, 0x7F7FF000], np.uint32).view(np.float32)
    assert round_operand(last, "tf32") == largest
    assert not operand_overflows(np.array([last, np.inf, np.nan], np.float32), "tf32")
    assert operand_overflows(np.array([first]), "tf32")
    assert operand_overflows(np.array([-np.finfo(np.float32).max], np.float32), "tf32")


def test_an_unknown_operand_format_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="f16, bf16 or tf32"):
        round_operand(np.zeros(1, np.float32), "e4m3")


def _converted(v: float, dtype: str) -> float:
    if not math.isfinite(v):
        return v
    fmt = NARROW[dtype]
    kind = reference.KINDS[fmt]
    size = reference.rounded(Fraction(v), kind)
    largest = format_of(dtype).max_finite
    if abs(size) > largest:
        size = largest if "float8" in dtype else math.inf
    return math.copysign(size, v)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", NARROW)
def test_results_are_rounded_once(dtype: str, wide: bool) -> None:
    x = _floats(2)
    x = x[np.isfinite(x)].astype(np.float64)
    if wide:
        x = x * (1 + np.random.default_rng(3).integers(-2, 3, x.size) * 2.0**-52)
    found = to_output(x if wide else x.astype(np.float32), dtype)
    expected = np.array([_converted(v, dtype) for v in x.tolist()])
    assert found.dtype == numpy_dtype(dtype)
    assert same_bits(widen(found), expected)


@pytest.mark.parametrize(
    ("dtype", "largest", "nan"), [("float8_e4m3fn", 448.0, 0x7F), ("float8_e5m2", 57344.0, 0x7F)]
)
def test_fp8_saturates_and_keeps_nan(dtype: str, largest: float, nan: int) -> None:
    x = np.array([np.inf, -1e9, np.nan, -np.nan], np.float32)
    found = to_output(x, dtype)
    assert widen(found)[:2].tolist() == [largest, -largest]
    assert found.view(np.uint8)[2:].tolist() == [nan, nan]
    assert saturates(x[:1].astype(np.float64), dtype)
    assert not saturates(np.array([largest * (1 + 2.0**-5), np.nan]), dtype)


def test_float16_results_overflow_to_inf_and_make_one_nan() -> None:
    x = np.array([65520.0, -65519.0, np.nan], np.float32)
    assert to_output(x, "float16").view(np.uint16).tolist() == [0x7C00, 0xFBFF, 0x7FFF]


def test_integers_narrow_modulo_their_bits_and_widen_exactly() -> None:
    x = np.array([300, -1, -129], np.int32)
    assert to_output(x, "int8").tolist() == [44, -1, 127]
    assert to_output(x, "uint8").tolist() == [44, 255, 127]
    assert to_output(x, "int64").tolist() == [300, -1, -129]


def test_scalars_are_rounded_once() -> None:
    assert round_scalar(2**24 + 1 + 2**-20, "float32") == np.float32(2**24 + 2)
    # One above a float32 midpoint, below half a last place of float64: rounding twice would go down.
    value = (2**60 + 2**36) + 1
    assert int(round_scalar(value, "float32")) == 2**60 + 2**37
    assert round_scalar(10**400, "float64") == math.inf
    assert round_scalar(-(10**400), "float32") == -math.inf
    assert round_scalar(2**32 + 5, "int32") == 5
    assert round_scalar(2**31, "int32") == -(2**31)
    assert round_scalar(-1, "uint64") == 2**64 - 1


def test_what_enters_after_the_product_is_converted_once() -> None:
    x = np.array([1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50])
    assert to_accumulator(x, "float32").tolist() == [1.0, 1 + 2.0**-23]
    assert to_accumulator(np.array([-1], np.int64), "int32").tolist() == [-1]
    assert to_accumulator(np.array([1.5], np.float16), "float64").tolist() == [1.5]
