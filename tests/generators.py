"""Operands of ten kinds, each a kind of stress on an arithmetic; for any element type, in pairs (A, B).

The kinds are those that the models of the matrix units were confirmed on.  Only "bits" ignores what the
other operand looks like; "cancel", "subnormal", "tiny" and "overflow" are about products and sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxgemm.units.formats import numpy_dtype

Array = np.ndarray[Any, Any]

GENERATORS = (
    "bits", "special", "normal", "uniform", "wide", "cancel", "subnormal", "tiny", "overflow", "zeros",
)  # fmt: skip


@dataclass(frozen=True)
class Format:
    """Least and largest exponent of the normal numbers of a float type, and its fraction bits."""

    least: int
    largest: int
    fraction: int


FORMATS = {
    "float8_e4m3fn": Format(-6, 8, 3),
    "float8_e5m2": Format(-14, 15, 2),
    "float16": Format(-14, 15, 10),
    "bfloat16": Format(-126, 127, 7),
    "float32": Format(-126, 127, 23),
    "float64": Format(-1022, 1023, 52),
}


def patterns(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    """Every bit pattern of the type alike."""
    size = numpy_dtype(dtype).itemsize
    return rng.integers(0, 2 ** (8 * size), shape, f"u{size}").view(numpy_dtype(dtype))


def _finite(x: Array) -> Array:
    wide = x.astype(np.float64)
    return np.where(np.isfinite(wide), x, x.dtype.type(1))


def _between(rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> Array:
    """Random signs and significands, exponents from ``low`` to ``high`` - 1 alike."""
    signs = rng.choice([-1.0, 1.0], shape)
    return np.ldexp(signs * (1 + rng.random(shape)), rng.integers(low, high, shape))


Draw = Callable[[np.random.Generator, tuple[int, ...], Format, bool], Array]


def _wide(rng: np.random.Generator, shape: tuple[int, ...], at: Format, _is_a: bool) -> Array:
    reach = min(30, at.largest - 3)
    return _between(rng, shape, -min(reach, -at.least - 2), reach)


def _subnormal(rng: np.random.Generator, shape: tuple[int, ...], at: Format, is_a: bool) -> Array:
    """A below its type's normal numbers, B large enough that products are not."""
    if is_a:
        return _between(rng, shape, at.least - at.fraction, at.least + 3)
    return _between(rng, shape, at.largest // 2, at.largest - 1)


def _tiny(rng: np.random.Generator, shape: tuple[int, ...], at: Format, _is_a: bool) -> Array:
    """Products near the least numbers of the accumulator, where the type reaches them."""
    middle = max(at.least // 2 - 8, at.least)
    return _between(rng, shape, middle - 8, middle + 8)


def _overflow(rng: np.random.Generator, shape: tuple[int, ...], at: Format, _is_a: bool) -> Array:
    """Products and sums at the accumulator's largest number, where the type reaches it."""
    middle = min(at.largest // 2 + 1, at.largest - 4) if at.largest > 15 else at.largest - 2
    return _between(rng, shape, middle - 4, middle + 2)


_FLOATS: dict[str, Draw] = {
    "normal": lambda rng, shape, _at, _is_a: rng.standard_normal(shape),
    "uniform": lambda rng, shape, _at, _is_a: rng.random(shape),
    "wide": _wide,
    "subnormal": _subnormal,
    "tiny": _tiny,
    "overflow": _overflow,
}


def _cancelling(x: Array, is_a: bool) -> Array:
    """Neighbours along K equal in B and of opposite signs in A, so that their products cancel."""
    pairs = x.shape[-1 if is_a else -2] // 2
    first, second = (
        (x[..., 0 : 2 * pairs : 2], x[..., 1 : 2 * pairs : 2])
        if is_a
        else (x[..., 0 : 2 * pairs : 2, :], x[..., 1 : 2 * pairs : 2, :])
    )
    second[...] = -first if is_a else first
    return x


def _floats(name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str, is_a: bool) -> Array:
    kind = numpy_dtype(dtype)
    if name == "bits":
        return _finite(patterns(rng, shape, dtype))
    if name == "zeros":
        zero = np.where(rng.random(shape) < 0.5, -0.0, 0.0)
        return np.where(rng.random(shape) < 0.6, zero.astype(kind), _finite(patterns(rng, shape, dtype)))
    if name == "special":
        # About every second entry of D meets one, whatever K is: else long rows give nothing but NaN.
        rate = min(0.1, 0.3 / max(1, shape[-1 if is_a else -2]))
        chosen, x = rng.random(shape) / rate, rng.standard_normal(shape).astype(kind)
        x[chosen < 0.4] = np.array(np.inf).astype(kind)
        x[chosen < 0.2] = np.array(-np.inf).astype(kind)
        x[(chosen >= 0.4) & (chosen < 0.6)] = np.array(np.nan).astype(kind)
        x[(chosen >= 0.6) & (chosen < 1)] = 0
        return x
    if name == "cancel":
        drawn = _between(rng, shape, *(-9, 5) if FORMATS[dtype].largest > 15 else (-4, 3))
        odd = rng.random(shape) < 0.1
        return np.where(odd, rng.standard_normal(shape), _cancelling(drawn, is_a)).astype(kind)
    return _FLOATS[name](rng, shape, FORMATS[dtype], is_a).astype(kind)


def _integers(name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    limits = np.iinfo(dtype)
    if name in ("special", "overflow"):  # the ends of the range and the units
        ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1]
        return rng.choice(np.array(ends, dtype), shape)
    if name in ("normal", "tiny", "cancel"):
        return rng.integers(max(limits.min, -3), 3, shape, dtype, endpoint=True)
    x = patterns(rng, shape, dtype)
    return np.where(rng.random(shape) < 0.8, np.zeros_like(x), x) if name == "zeros" else x


def generate(
    name: str, rng: np.random.Generator, shape: tuple[int, ...], dtype: str, *, is_a: bool = True
) -> Array:
    """One operand of ``dtype``, (…, M, K) for A and (…, K, N) for B, of the kind ``name``.

    Finite but for "special"; what products and sums do is the kind's own affair.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype in FORMATS:
            return _floats(name, rng, shape, dtype, is_a)
        return _integers(name, rng, shape, dtype)
