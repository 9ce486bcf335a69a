"""Slow and obviously right: matrix units, conversions and whole products in Python integers.

Written from the statement of the model alone, sharing nothing with ``mxgemm.units``: values
are Python floats (every format fits float64), arithmetic is :class:`fractions.Fraction`,
one entry after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

ZERO_EXPONENT = -133


@dataclass(frozen=True)
class Kind:
    """A binary format: significant bits, least and largest exponent."""

    bits: int
    emin: int
    emax: int

    @property
    def largest(self) -> float:
        return float((Fraction(2) - Fraction(1, 2 ** (self.bits - 1))) * Fraction(2) ** self.emax)


KINDS = {
    "f16": Kind(11, -14, 15),
    "bf16": Kind(8, -126, 127),
    "tf32": Kind(11, -126, 127),
    "e4m3": Kind(4, -6, 8),
    "e5m2": Kind(3, -14, 15),
    "float32": Kind(24, -126, 127),
    "float64": Kind(53, -1022, 1023),
}


def exponent(value: Fraction) -> int:
    """Floor of log2 of a positive value."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def rounded(value: Fraction, kind: Kind, mode: str = "even") -> float:
    """``value`` in ``kind`` by rounding "even" (to nearest) or towards "zero"; Inf on overflow."""
    if value == 0:
        return 0.0
    size = abs(value)
    step = Fraction(2) ** (max(exponent(size), kind.emin) - kind.bits + 1)
    whole = math.floor(size / step)
    rest = size / step - whole
    up = mode == "even" and (2 * rest > 1 or (2 * rest == 1 and whole % 2 == 1))
    size = (whole + up) * step
    found = math.inf if size >= Fraction(2) ** (kind.emax + 1) else float(size)
    return -found if value < 0 else found


def raw_exponent(x: float, emin: int) -> int:
    """Exponent of an operand as the unit sees it; a subnormal has the format's least."""
    return max(exponent(abs(Fraction(x))), emin)


def special(pairs: Iterable[tuple[float, float]], c: float = 0.0) -> float | None:
    """NaN or Inf when the operands decide so, else None."""
    found = [c] if not math.isfinite(c) else []
    for a, b in pairs:
        if not (math.isfinite(a) and math.isfinite(b)):
            found.append(a * b)
    if not found:
        return None
    return math.fsum(found) if len(set(found)) == 1 else math.nan


def convert(total: Fraction, output: str) -> float:
    """The unit's output conversion; a zero is +0."""
    if output == "f16-rne":
        return rounded(total, KINDS["f16"]) + 0.0
    kept = Kind(14, -126, 127) if output == "f32-rz-13" else KINDS["float32"]
    size = rounded(total, kept, "zero")
    return size + 0.0


def unit_group(  # noqa: PLR0917  # the arguments of the model
    pairs: Sequence[tuple[float, float]],
    c: float,
    emins: tuple[int, int],
    fraction_bits: int,
    output: str,
    shorten: Callable[[Fraction], int] = math.trunc,
) -> float:
    """One group: c + Σ a·b, truncated to 2^(η − F), added and converted."""
    decided = special(pairs, c)
    if decided is not None:
        return decided
    c_emin = -14 if output == "f16-rne" else -126
    terms = [(Fraction(c), ZERO_EXPONENT if c == 0 else raw_exponent(c, c_emin))]
    for a, b in pairs:
        zero = a == 0 or b == 0
        height = ZERO_EXPONENT if zero else raw_exponent(a, emins[0]) + raw_exponent(b, emins[1])
        terms.append((Fraction(a) * Fraction(b), height))
    step = Fraction(2) ** (max(height for _, height in terms) - fraction_bits)
    return convert(sum(shorten(value / step) for value, _ in terms) * step, output)


def unit_chain(a: Sequence[float], b: Sequence[float], c: float, emins: tuple[int, int], unit: Any) -> float:
    """Groups of ``unit.group`` products in k order."""
    for k in range(0, len(a), unit.group):
        pairs = list(zip(a[k : k + unit.group], b[k : k + unit.group], strict=True))
        c = unit_group(pairs, c, emins, unit.fraction_bits, unit.output)
    return c


def fma(a: float, b: float, c: float, kind: Kind) -> float:
    """a·b + c with one rounding; IEEE 754's zeros, Inf and NaN."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return (
            a * b + c
            if a == 0 or b == 0
            else (c if c == 0 and math.copysign(1, a * b) == math.copysign(1, c) else 0.0)
        )
    found = rounded(exact, kind)
    return math.copysign(found, -1.0) if exact < 0 else found


def fma_chain(a: Sequence[float], b: Sequence[float], kind: Kind) -> float:
    """One fused multiply-add after the other in k order, from +0."""
    c = 0.0
    for x, y in zip(a, b, strict=True):
        c = fma(x, y, c, kind)
    return c


def to_format(x: float, fmt: str, *, saturate: bool = False) -> float:
    """Round one operand to nearest even in a unit's format."""
    if not math.isfinite(x):
        return x
    found = rounded(Fraction(x), KINDS[fmt])
    if saturate and math.isinf(found):
        found = math.copysign(KINDS[fmt].largest, x)
    return math.copysign(found, x)


def split(x: float, fmt: str, count: int) -> list[float]:
    """Terms of one operand, each nearest to what is left; not finite is 0 in every term."""
    rest = Fraction(x) if math.isfinite(x) else Fraction(0)
    terms = []
    for _ in range(count):
        term = to_format(float(rest), fmt, saturate=True)
        terms.append(term)
        rest -= Fraction(term)
    return terms


def row_exponent(row: Sequence[float]) -> int | None:
    """Exponent of the largest finite entry; None when there is none or it is 0."""
    largest = max((abs(x) for x in row if math.isfinite(x)), default=0.0)
    return exponent(Fraction(largest)) if largest else None


def _split_entry(
    a: Sequence[float], b: Sequence[float], configuration: Any, emins: tuple[int, int], unit: Any
) -> float:
    """One entry of a split: chains, products in order, the float32 sum, unscaling, specials."""
    decided = special(zip(a, b, strict=True))
    if decided is not None:
        return decided
    shifts = [0, 0]
    if configuration.scaling != "none":
        shifts = [0 if e is None else 14 - e for e in (row_exponent(a), row_exponent(b))]
    count = configuration.terms
    left = [
        split(float(Fraction(x) * Fraction(2) ** shifts[0]), configuration.unit, count)
        if math.isfinite(x)
        else [0.0] * count
        for x in a
    ]
    right = [
        split(float(Fraction(x) * Fraction(2) ** shifts[1]), configuration.unit, count)
        if math.isfinite(x)
        else [0.0] * count
        for x in b
    ]
    total = 0.0
    for k in range(0, len(a), configuration.chain):
        c = 0.0
        for i, j in configuration.products:
            xs = [t[i - 1] for t in left[k : k + configuration.chain]]
            ys = [t[j - 1] for t in right[k : k + configuration.chain]]
            c = unit_chain(xs, ys, c, emins, unit)
        total = add32(total, c)
    if not math.isfinite(total):
        return total
    return rounded(Fraction(total) / Fraction(2) ** (shifts[0] + shifts[1]), KINDS["float32"])


def add32(x: float, y: float) -> float:
    """Add two float32 with one rounding."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    return rounded(Fraction(x) + Fraction(y), KINDS["float32"])


def _crt_entry(a: Sequence[float], b: Sequence[float], q: int, kind: Kind) -> float:
    """One entry of i8crtN: the exact integer product of the truncated operands, unscaled once."""
    decided = special(zip(a, b, strict=True))
    if decided is not None:
        return decided
    shifts = [0 if e is None else q - 1 - e for e in (row_exponent(a), row_exponent(b))]

    def integer(x: float, shift: int) -> int:
        return math.trunc(Fraction(x) * Fraction(2) ** shift) if math.isfinite(x) else 0

    total = sum(integer(x, shifts[0]) * integer(y, shifts[1]) for x, y in zip(a, b, strict=True))
    return rounded(Fraction(total) / Fraction(2) ** sum(shifts), kind)


def crt_bits(moduli: Sequence[int], k: int) -> int:
    """The largest q with 2K·2^(2q) ≤ Πm, by trying."""
    q = 0
    while 2 * k * 4 ** (q + 1) <= math.prod(moduli):
        q += 1
    return q


def product(  # noqa: PLR0917  # the arguments of the model
    a: np.ndarray, b: np.ndarray, configuration: Any, unit: Any, emins: tuple[int, int], q: int = 0
) -> np.ndarray:
    """A·B entry by entry in a floating-point configuration.

    ``a`` (M, K) and ``b`` (K, N) are float64 arrays of the operands' values; ``q`` is i8crtN's.
    """
    kind = KINDS[configuration.accumulator]
    result = np.empty((a.shape[0], b.shape[1]))
    for m in range(a.shape[0]):
        for n in range(b.shape[1]):
            row, column = a[m].tolist(), b[:, n].tolist()
            if configuration.moduli:
                found = _crt_entry(row, column, q, kind)
            elif unit is None or unit.kind == "fma-chain":
                found = fma_chain(row, column, kind)
            elif configuration.terms > 1:
                found = _split_entry(row, column, configuration, emins, unit)
            else:
                found = _one_term_entry(row, column, configuration, emins, unit)
            result[m, n] = found
    return result


def _one_term_entry(
    a: Sequence[float], b: Sequence[float], configuration: Any, emins: tuple[int, int], unit: Any
) -> float:
    if configuration.operand_rounding:
        a, b = ([to_format(x, configuration.unit) for x in xs] for xs in (a, b))
    total, section = 0.0, configuration.section or len(a)
    for first in range(0, len(a), section):
        master = 0.0
        for k in range(first, min(first + section, len(a)), configuration.chain):
            ks = slice(k, k + configuration.chain)
            master = add32(master, unit_chain(a[ks], b[ks], 0.0, emins, unit))
        total = add32(total, master)
    return total


def integer_product(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    """A·B in Python integers, modulo 2^bits of ``dtype``."""
    exact = a.astype(object) @ b.astype(object)
    bits, signed = int(dtype.strip("uint")), not dtype.startswith("u")
    half = 1 << (bits - 1) if signed else 0
    wrapped = np.vectorize(lambda x: (x + half) % (1 << bits) - half, otypes=[object])(exact)
    return wrapped.astype(dtype)
