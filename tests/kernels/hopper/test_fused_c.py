"""Why beta C may be multiplied and added by one instruction: for which beta it is exact whatever C is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxgemm.units.formats import numpy_dtype

UNIT = 2.0**-12  # as in store.cuh


def values(dtype: str) -> np.ndarray[Any, Any]:
    """Every finite value of a type of 16 bits."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    exponent = {"float16": 0x7C00, "bfloat16": 0x7F80}[dtype]
    return patterns[patterns & exponent != exponent].view(numpy_dtype(dtype)).astype(np.float64)


def is_exact(beta: float, dtype: str) -> bool:
    """Whether float32 holds beta C for every C; float64 holds 24 bits times 11 of any exponent."""
    c = values(dtype)
    with np.errstate(over="ignore", under="ignore"):
        return bool(((c * beta).astype(np.float32).astype(np.float64) == c * beta).all())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_multiples_of_a_4096th_up_to_1_are_exact(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for multiple in (1, 2, 3, 4095, 4096, *rng.integers(1, 4097, 60)):
        assert is_exact(float(multiple) * UNIT, dtype)
        assert is_exact(-float(multiple) * UNIT, dtype)


def test_more_bits_or_a_larger_beta_need_two_roundings() -> None:
    assert not is_exact(float(np.float32(0.3)), "float16")
    assert not is_exact(1 + 2.0**-14, "float16")
    assert not is_exact(2.0, "bfloat16")  # which overflows
