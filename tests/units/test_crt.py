"""i8crtN against the exact integer product of the truncated operands."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mxgemm.configs import configuration
from mxgemm.errors import UnsupportedError
from mxgemm.units import crt, multiply
from mxgemm.units.crt import MODULI, operand_bits
from mxgemm.units.formats import FORMATS
from mxgemm.units.words import WORDS, round_words
from tests.reference import integers as reference
from tests.units.data import generate, same_bits

STRESS = ("normal", "special", "wide", "subnormal", "overflow", "cancel")


@pytest.mark.parametrize("generator", STRESS)
@pytest.mark.parametrize("count", [5, 8, 13, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_agree_with_python_integers(dtype: str, count: int, generator: str) -> None:
    row = configuration(dtype, dtype, f"i8crt{count}")
    rng = np.random.default_rng([count, STRESS.index(generator)])
    a, b = generate(generator, rng, (3, 37), dtype), generate(generator, rng, (37, 4), dtype)
    q = reference.crt_bits(MODULI[:count], 37)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
    expected = reference.product(*wide, row, None, (0, 0), q).astype(dtype)
    assert same_bits(multiply(a, b, row), expected)


@pytest.mark.parametrize("count", range(5, 21))
def test_the_operands_get_as_many_bits_as_fit(count: int) -> None:
    for k in (1, 2, 3, 4096, 10**6):
        assert operand_bits(count, k) == reference.crt_bits(MODULI[:count], k)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [5, 6, 12, 20])
def test_the_largest_sums_keep_their_sign(count: int, sign: int) -> None:
    row = configuration("float64", "float64", f"i8crt{count}")
    # Nearly 2^q in every entry; with K a power of two the sum comes as near to Πm/2 as it can.
    a = np.full((1, 64), np.nextafter(2.0, 1.0))
    b = (sign * a).T
    q = reference.crt_bits(MODULI[:count], 64)
    expected = reference.product(a, b, row, None, (0, 0), q)
    assert same_bits(multiply(a, b, row), expected)


def test_moduli_are_coprime() -> None:
    assert len(MODULI) == 20
    assert math.lcm(*MODULI) == math.prod(MODULI)


def test_a_depth_that_leaves_no_bit_is_refused_by_name() -> None:
    too_deep = math.prod(MODULI[:5]) // 8 + 1
    with pytest.raises(UnsupportedError, match=r"i8crt5 at K = .*more moduli"):
        operand_bits(5, too_deep)
    assert operand_bits(5, too_deep - 1) == 1


def test_a_missing_modulus_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    row = configuration("float32", "float32", "i8crt8")
    rng = np.random.default_rng(3)
    a, b = generate("normal", rng, (3, 20), "float32"), generate("normal", rng, (20, 3), "float32")
    whole = multiply(a, b, row)
    products = crt._residue_products

    def without_one(*args: object) -> np.ndarray:
        found = products(*args)
        found[3] = 0
        return found

    monkeypatch.setattr(crt, "_residue_products", without_one)
    assert not same_bits(multiply(a, b, row), whole)


def test_depths_beyond_one_block_are_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    row = configuration("float64", "float64", "i8crt14")
    rng = np.random.default_rng(4)
    a, b = generate("normal", rng, (3, 100), "float64"), generate("normal", rng, (100, 3), "float64")
    whole = multiply(a, b, row)
    monkeypatch.setattr(crt, "BLOCK", 32)
    monkeypatch.setattr(crt, "ENTRIES", 4)
    monkeypatch.setattr(crt, "STRIPE_ENTRIES", 6)
    assert same_bits(multiply(a, b, row), whole)


@pytest.mark.parametrize("fmt", ["f32", "f64"])
def test_wide_integers_are_rounded_once(fmt: str) -> None:
    rng = np.random.default_rng(5)
    kind = reference.KINDS["float32" if fmt == "f32" else "float64"]
    values, exponents = [], []
    for _ in range(600):
        length = int(rng.integers(1, 160))
        value = (1 << (length - 1)) | int.from_bytes(rng.bytes(20), "little") % (1 << (length - 1) or 1)
        cut = max(length - int(rng.integers(20, 60)), 0)
        values.append((value >> cut << cut) + int(rng.integers(0, 2)))
        exponents.append(int(rng.integers(-1, 2)) * int(rng.integers(0, kind.emax + 60)) - length)
    values[:3] = 0, 1, (1 << 53) + 1
    words = np.array([[(v >> (32 * w)) & 0xFFFFFFFF for v in values] for w in range(WORDS)], np.int64)
    with np.errstate(over="ignore", under="ignore"):
        found = round_words(words, np.array(exponents), FORMATS[fmt])
    expected = [
        reference.rounded(v * reference.Fraction(2) ** e, kind)
        for v, e in zip(values, exponents, strict=True)
    ]
    assert found.tolist() == expected
