"""i8crtN: scaled integers, one s8 product a modulus, Chinese remainder theorem (Ozaki scheme II).

Sources: arXiv 2504.08009, 2508.03984, 2602.02549; docs/units.md, "i8crtN".  Rows of A and
columns of B are scaled by powers of two and truncated to integers below 2^q; their
product is computed modulo coprime m_1 … m_N on 8-bit units, put together exactly, and
unscaled in one rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.errors import UnsupportedError
from mxgemm.units.formats import Float64, format_of
from mxgemm.units.integers import byte_product
from mxgemm.units.splits import row_exponents
from mxgemm.units.words import WORDS, Words, negate, round_words, subtract_multiple, where_at_least

__all__ = ["MODULI", "crt_product", "operand_bits", "row_scales", "scaled_integers"]

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181, 179, 173)

BLOCK = 1 << 17
"""Products along K that one 32-bit accumulator adds."""

ENTRIES = 1 << 14
"""Entries taken apart, or put together, at once."""

STRIPE_ENTRIES = 1 << 17
"""Entries whose residues are held at once."""

PART_BITS = 26


def operand_bits(count: int, k: int) -> int:
    """Return q, the largest integer with 2K·2^(2q) ≤ Πm.

    Parameters
    ----------
    count : int
        N, the number of moduli.
    k : int
        Products of one entry, all of K.

    Raises
    ------
    UnsupportedError
        When q would be below 1, naming what is supported.
    """
    room = math.prod(MODULI[:count]) // (2 * max(k, 1))
    q = (room.bit_length() - 1) // 2 if room else 0
    if q < 1:
        raise UnsupportedError(
            f"i8crt{count} at K = {k} leaves no bit for the operands; "
            f"it is supported up to K = {math.prod(MODULI[:count]) // 8}: take more moduli (up to i8crt20)"
        )
    return q


def row_scales(x: NDArray[Any], q: int) -> NDArray[np.int64]:
    """Exponents that bring each row's largest finite entry to 2^(q−1) … 2^q; 0 for zero rows."""
    exponents = row_exponents(x)
    return np.where(exponents == np.iinfo(np.int64).min, 0, q - 1 - exponents)


def scaled_integers(x: NDArray[Any], scale: NDArray[np.int64]) -> Float64:
    """Rows of ``x`` times 2^scale, truncated to integers; entries that are not finite count as 0."""
    finite = np.where(np.isfinite(x), x, 0).astype(np.float64)
    return np.trunc(np.ldexp(finite, scale[:, None]))


def _parts(integers: Float64, q: int) -> list[Float64]:
    """Signed pieces below 2^26, the lowest first: Σ part_i·2^(26 i)."""
    parts = []
    for _ in range(-(-q // PART_BITS) - 1):
        high = np.trunc(integers * 2.0**-PART_BITS)
        parts.append(integers - high * 2.0**PART_BITS)
        integers = high
    return [*parts, integers]


def _residue(parts: list[Float64], modulus: int) -> Float64:
    """The residue in [−m/2, m/2); sums stay below 2^36, so that the quotient is never off by one."""
    total = parts[0]
    for i, part in enumerate(parts[1:], 1):
        total = total + part * float(pow(2, PART_BITS * i, modulus))
    residue: Float64 = total - modulus * np.floor(total / modulus + 0.5)
    return residue


def _residues(x: NDArray[Any], scale: NDArray[np.int64], q: int, moduli: tuple[int, ...]) -> NDArray[np.int8]:
    """Scaled integers modulo each modulus; (N, rows, K[, G])."""
    residues = np.empty((len(moduli), *x.shape), np.int8)
    height = max(1, ENTRIES // math.prod(x.shape[1:]))
    for i in range(0, x.shape[0], height):
        rows = slice(i, i + height)
        parts = _parts(scaled_integers(x[rows], scale[rows]), q)
        for plane, modulus in zip(residues, moduli, strict=True):
            plane[rows] = _residue(parts, modulus)
    return residues


def _residue_products(a: NDArray[np.int8], b: NDArray[np.int8], moduli: tuple[int, ...]) -> NDArray[np.uint8]:
    """A·Bᵀ modulo each modulus, in [0, m), by s8 products over blocks of K; (N, entries)."""
    shape = (a.shape[1], b.shape[1], *a.shape[3:])
    products = np.empty((len(moduli), math.prod(shape)), np.uint8)
    for left, right, out, modulus in zip(a, b, products, moduli, strict=True):
        total = np.zeros(shape, np.int32)
        for k in range(0, a.shape[2], BLOCK):
            ks = slice(k, k + BLOCK)
            # 2^17·128·128 wraps to −2^31 for modulus 256 alone, which divides 2^32: the residue is right.
            total += byte_product(left[:, ks], right[:, ks]) % np.int32(modulus)
        out[...] = (total % np.int32(modulus)).reshape(-1)
    return products


@dataclass(frozen=True, slots=True)
class _Reconstruction:
    """Constants of the Chinese remainder theorem for N moduli.

    x ≡ Σ t_i·(M/m_i) modulo M with t_i = r_i·(M/m_i)^−1 mod m_i.
    """

    moduli: tuple[int, ...]
    inverses: tuple[int, ...]
    cofactors: NDArray[np.int64]
    product: int


@lru_cache(maxsize=32)
def _reconstruction(count: int) -> _Reconstruction:
    moduli = MODULI[:count]
    product = math.prod(moduli)
    cofactors = [product // m for m in moduli]
    inverses = tuple(pow(c, -1, m) for c, m in zip(cofactors, moduli, strict=True))
    words = np.array([[(c >> (32 * w)) & 0xFFFFFFFF for w in range(WORDS)] for c in cofactors], np.int64)
    return _Reconstruction(moduli, inverses, words, product)


def _integer(residues: NDArray[np.int64], constants: _Reconstruction) -> tuple[Words, NDArray[np.bool_]]:
    """The integer in [−M/2, M/2) with these residues (N, entries), as magnitude and sign."""
    moduli = np.array(constants.moduli)[:, None]
    factors = residues * np.array(constants.inverses)[:, None] % moduli
    # Sums of at most 20 terms below 2^8·2^32 fit 64 bits, and carries are settled after the subtraction.
    sums = constants.cofactors.T @ factors
    turns = np.floor((factors / moduli).sum(axis=0)).astype(np.int64)
    value = subtract_multiple(sums, constants.product, turns)
    # The quotient may be off by one next to an integer: the exact comparison settles it.
    above = where_at_least(value, (constants.product + 1) // 2)
    value = subtract_multiple(value, constants.product, above.astype(np.int64))
    return negate(value)


def _put_together(
    residues: NDArray[np.uint8], exponents: NDArray[np.int64], constants: _Reconstruction, out: NDArray[Any]
) -> None:
    """Write the integers with these residues, times 2^exponents, rounded once to the type of ``out``."""
    fmt = format_of(out.dtype.name)
    for start in range(0, out.size, ENTRIES):
        block = slice(start, start + ENTRIES)
        magnitude, negative = _integer(residues[:, block].astype(np.int64), constants)
        rounded = round_words(magnitude, exponents[block], fmt)
        out[block] = np.where(negative, -rounded, rounded)


def crt_product(a: NDArray[Any], b: NDArray[Any], count: int, accumulator: str) -> NDArray[Any]:
    """Multiply A by Bᵀ in i8crt``count``; entries that are not finite count as 0.

    Parameters
    ----------
    a : (M, K[, G]) float32 or float64 array
    b : (N, K[, G]) float32 or float64 array
        With a last axis, G products side by side.
    count : int
        Number of moduli.
    accumulator : str
        "float32" or "float64", the type that the exact integer is rounded to.

    Raises
    ------
    UnsupportedError
        When K leaves no bit for the operands (:func:`operand_bits`).
    """
    q = operand_bits(count, a.shape[1])
    constants = _reconstruction(count)
    scale_a, scale_b = row_scales(a, q), row_scales(b, q)
    left, right = (_residues(x, s, q, constants.moduli) for x, s in ((a, scale_a), (b, scale_b)))
    result = np.empty((a.shape[0], b.shape[0], *a.shape[2:]), np.dtype(accumulator))
    height = max(1, STRIPE_ENTRIES // max(math.prod(result.shape[1:]), 1))
    for i in range(0, result.shape[0], height):
        rows = slice(i, i + height)
        residues = _residue_products(left[:, rows], right, constants.moduli)
        exponents = -(scale_a[rows, None] + scale_b).reshape(-1)
        _put_together(residues, exponents, constants, result[rows].reshape(-1))
    return result
