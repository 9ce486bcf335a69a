"""tf32 operands are rounded to nearest even by integer arithmetic before sm_90, and a NaN stays one."""

from typing import Any

import numpy as np
import pytest

from mxgemm.units.convert import round_operand

Words = np.ndarray[Any, np.dtype[np.uint32]]
DROPPED = 13  # bits that the unit ignores
CANONICAL = np.uint32(0x7FFFFFFF)


def to_even(words: Words) -> Words:
    return words + np.uint32(0xFFF) + ((words >> np.uint32(DROPPED)) & np.uint32(1))


def as_the_kernel_rounds(words: Words) -> Words:
    """convert.cuh, rounded_to_tf32: what the product makes of NaN, then the larger of two signed words."""
    canonical = np.where(np.isnan(words.view(np.float32)), CANONICAL, words)
    return np.maximum(to_even(canonical).view(np.int32), canonical.view(np.int32)).view(np.uint32)


def as_the_unit_reads(words: Words) -> Words:
    return (words >> np.uint32(DROPPED)) << np.uint32(DROPPED)


def wrong(words: Words) -> int:
    """How many words the unit reads otherwise than the model's rounding has it."""
    found = as_the_unit_reads(as_the_kernel_rounds(words))
    expected = round_operand(words.view(np.float32), "tf32").view(np.uint32)
    both_nan = np.isnan(found.view(np.float32)) & np.isnan(expected.view(np.float32))
    return int(np.count_nonzero((found != as_the_unit_reads(expected)) & ~both_nan))


def test_every_tf32_number_at_the_ends_of_both_halves() -> None:
    # Both roundings are monotone among the 2^13 words that share the leading bits: their ends decide.
    leading = np.arange(2**19, dtype=np.uint32) << np.uint32(DROPPED)
    for low in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF):
        assert wrong(leading | np.uint32(low)) == 0


def test_every_nan_at_the_ends_of_the_payload() -> None:
    near = np.arange(2**14, dtype=np.uint32)
    for first in (0x7F800000, 0x7FC00000, 0x7FFFC000, 0xFF800000, 0xFFC00000, 0xFFFFC000):
        assert wrong(near + np.uint32(first)) == 0


@pytest.mark.parametrize(("word", "mutant"), [(0x7FFFFFFF, "sums"), (0x7F800001, "words")])
def test_neither_half_of_the_guard_for_nan_can_go(word: int, mutant: str) -> None:
    words = np.array([word], np.uint32)
    rounded = to_even(words)
    if mutant == "words":  # the larger of the two, but without the product
        rounded = np.maximum(rounded.view(np.int32), words.view(np.int32)).view(np.uint32)
    assert not np.isnan(as_the_unit_reads(rounded).view(np.float32)).any()


@pytest.mark.slow
def test_every_word() -> None:
    chunk = np.arange(2**22, dtype=np.uint32)
    assert sum(wrong(chunk + np.uint32(first)) for first in range(0, 2**32, 2**22)) == 0
