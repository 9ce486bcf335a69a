"""Integers are equal modulo 2^bits, or they fail."""

import numpy as np
import pytest

from mxgemm.configs import SIGNED, UNSIGNED
from tests.bounds.products import product

WIDER = [("int8", "int64"), ("uint8", "int64"), ("int32", "int64"), ("uint16", "uint64"), ("int64", "int64")]


def _random(shape: tuple[int, ...], name: str, seed: int) -> np.ndarray:
    ends = np.iinfo(name)
    return np.random.default_rng(seed).integers(ends.min, ends.max, shape, dtype=name, endpoint=True)


def _exact(a: np.ndarray, b: np.ndarray, out: str) -> np.ndarray:
    """The product of Python integers, wrapped."""
    total = a.astype(object) @ b.astype(object)
    bits = 8 * np.dtype(out).itemsize
    return (
        np.array([int(x) & ((1 << bits) - 1) for x in total.flat], dtype=f"u{bits // 8}")
        .view(out)
        .reshape(total.shape)
    )


@pytest.mark.parametrize("source", [*SIGNED, *UNSIGNED])
def test_only_the_product_of_integers_passes(source: str) -> None:
    a, b = _random((5, 40), source, 1), _random((40, 6), source, 2)
    out = "int32" if source.endswith("int8") else source
    asked = product("exact", a, b)
    result = _exact(a, b, out)
    assert asked.check(result)
    result[4, 5] ^= 1
    found = asked.check(result)
    assert not found
    assert found.where == (4, 5)
    assert found.ratio == np.inf


@pytest.mark.parametrize(("left", "right"), [("int8", "uint8"), ("uint8", "int8")])
def test_mixed_signs(left: str, right: str) -> None:
    a, b = _random((3, 9), left, 1), _random((9, 3), right, 2)
    assert product("exact", a, b).check(_exact(a, b, "int32"))


@pytest.mark.parametrize(("source", "out"), WIDER)
def test_wider_results_are_exact_in_their_own_type(source: str, out: str) -> None:
    a, b = _random((3, 300), source, 1), _random((300, 3), source, 2)
    assert product("exact", a, b, out_dtype=out).check(_exact(a, b, out))


def test_a_missing_limb_product_is_caught() -> None:
    a, b = _random((4, 50), "int32", 1), _random((50, 4), "int32", 2)
    low_a, low_b = (a & 0xFFFF).astype(np.int64), (b & 0xFFFF).astype(np.int64)
    without = (low_a @ low_b + ((a >> 16).astype(np.int64) @ low_b << 16)).astype(np.int32)
    assert not product("exact", a, b).check(without)


def test_a_missing_drain_is_caught_at_70000() -> None:
    a = np.full((1, 70_000), 0x7F7F7F7F7F7F7F7F, np.int64)
    b = np.full((70_000, 1), 0x7F7F7F7F7F7F7F7F, np.int64)
    right = _exact(a, b, "int64")
    assert product("exact", a, b).check(right)
    # Weight 2^24 has four limb products; its 32-bit accumulator wraps unless it is drained.
    total = 4 * 0x7F * 0x7F * 70_000
    carry = total - ((total + 2**31) % 2**32 - 2**31)
    assert carry != 0
    assert not product("exact", a, b).check(right - np.int64(carry << 24))


def test_the_epilogue_is_integer_arithmetic() -> None:
    a, b = _random((4, 9), "int8", 1), _random((9, 4), "int8", 2)
    c, bias = _random((4, 4), "int32", 3), _random((4,), "int32", 4)
    asked = product(
        "exact", a, b, c, alpha=3, beta=-2, bias=bias, activation="clamp", limits=(-(10**6), 2**40)
    )
    wide = 3 * _exact(a, b, "int64") - 2 * c.astype(np.int64) + bias
    expected = np.clip(wide.astype(np.int32), -(10**6), 2**31 - 1)
    assert asked.check(expected)
    assert not asked.check(expected + np.int32(1))
