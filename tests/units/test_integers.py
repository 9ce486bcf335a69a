"""Integer products against arbitrary-precision Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxgemm.configs import SIGNED, UNSIGNED, configuration
from mxgemm.units import integers, multiply
from mxgemm.units.integers import byte_product, limb_product
from tests.reference.integers import integer_product
from tests.units.data import same_bits

WIDE = (*SIGNED[1:], *UNSIGNED[1:])


def _full(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("precision", ["exact", "scalar"])
@pytest.mark.parametrize("right", ["int8", "uint8"])
@pytest.mark.parametrize("left", ["int8", "uint8"])
def test_bytes_of_any_signs_give_int32(left: str, right: str, precision: str) -> None:
    rng = np.random.default_rng(1)
    a, b = _full(rng, (3, 1500), left), _full(rng, (1500, 4), right)
    found = multiply(a, b, configuration(left, right, precision))
    assert same_bits(found, integer_product(a, b, "int32"))


@pytest.mark.parametrize("precision", ["exact", "scalar"])
@pytest.mark.parametrize("dtype", WIDE)
def test_wider_integers_are_exact_modulo_their_bits(dtype: str, precision: str) -> None:
    rng = np.random.default_rng(2)
    a, b = _full(rng, (3, 300), dtype), _full(rng, (300, 4), dtype)
    a[0, :2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    found = multiply(a, b, configuration(dtype, dtype, precision))
    assert same_bits(found, integer_product(a, b, dtype))


@given(data=st.data(), dtype=st.sampled_from(WIDE), k=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_any_integers_agree(data: st.DataObject, dtype: str, k: int) -> None:
    limits = np.iinfo(dtype)
    value = st.integers(int(limits.min), int(limits.max))
    a = np.array([data.draw(st.lists(value, min_size=k, max_size=k))], dtype)
    b = np.array([data.draw(st.lists(value, min_size=k, max_size=k))], dtype).T
    assert same_bits(multiply(a, b, configuration(dtype, dtype, "exact")), integer_product(a, b, dtype))


def test_a_long_sum_of_bytes_wraps_like_int32() -> None:
    a = np.full((1, 65536 * 3), -128, np.int8)
    found = multiply(a, a.T, configuration("int8", "int8", "exact"))
    assert found.tolist() == [[(128 * 128 * 65536 * 3 + 2**31) % 2**32 - 2**31]]


def test_uint32_beyond_half_its_range() -> None:
    a = np.array([[2**31 + 5, 2**32 - 1]], np.uint32)
    found = multiply(a, a.T, configuration("uint32", "uint32", "exact"))
    assert found.tolist() == [[((2**31 + 5) ** 2 + (2**32 - 1) ** 2) % 2**32]]


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("int32", "int64"),
        ("int16", "int64"),
        ("int16", "int32"),
        ("uint32", "int64"),
        ("int8", "int64"),
        ("uint8", "uint64"),
    ],
)
def test_a_wider_result_is_the_exact_sum(source: str, result: str) -> None:
    rng = np.random.default_rng(3)
    a, b = _full(rng, (2, 400), source), _full(rng, (400, 3), source)
    found = multiply(a, b, configuration(source, source, "exact"), accumulator=result)
    assert same_bits(found, integer_product(a, b, result))


LONG = 70_000


def _long() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return (_full(rng, (2, LONG), "int64") | 0x7F7F7F7F), (_full(rng, (LONG, 2), "int64") | 0x7F7F7F7F)


def test_int64_over_a_long_sum() -> None:
    a, b = _long()
    assert same_bits(multiply(a, b, configuration("int64", "int64", "exact")), integer_product(a, b, "int64"))


def test_a_missing_drain_is_caught() -> None:
    a, b = _long()
    assert not same_bits(limb_product(a, b.T, "int64", drain=LONG), integer_product(a, b, "int64"))


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_every_limb_product_counts(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    a, b = _full(rng, (4, 9), dtype), _full(rng, (9, 4), dtype)
    expected = integer_product(a, b, dtype)
    size = np.dtype(dtype).itemsize
    whole = integers.limb_pairs
    pairs = [p for w in range(size) for p in whole(size, size, size, w)]
    assert len(pairs) == {2: 3, 4: 10, 8: 36}[size]
    for missing in pairs:
        monkeypatch.setattr(
            integers, "limb_pairs", lambda *args, gone=missing: [p for p in whole(*args) if p != gone]
        )
        assert not same_bits(limb_product(a, b.T, dtype), expected), missing


def test_a_missing_last_byte_product_is_caught() -> None:
    rng = np.random.default_rng(6)
    a, b = _full(rng, (3, 600), "uint8"), _full(rng, (600, 3), "uint8")
    expected = integer_product(a, b, "int32")
    assert same_bits(byte_product(a, b.T), expected)
    assert not same_bits(byte_product(a[:, :-1], b[:-1].T), expected)
