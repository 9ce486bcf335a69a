"""Number formats as error analysis sees them: roundoff, range and what becomes zero or Inf.

Constants only, exact as Fractions.  They are written down here and not taken from the
arithmetic models, so that a checker shares nothing with what it checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

__all__ = ["FORMATS", "UNIT_FORMAT", "Format", "power", "product_grid"]


def power(exponent: int) -> Fraction:
    """2^exponent, exactly."""
    return Fraction(2) ** exponent


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    digits : int
        Significand digits p, the leading one included.
    emin, emax : int
        Exponents of the least and the largest normal number.
    largest : Fraction
        The largest finite number.
    saturates : bool
        Whether conversion to it clips instead of overflowing to Inf.
    """

    name: str
    digits: int
    emin: int
    emax: int
    largest: Fraction = Fraction(0)
    saturates: bool = False

    @property
    def roundoff(self) -> Fraction:
        """Unit roundoff 2^-p: the relative error of rounding to nearest."""
        return power(-self.digits)

    @property
    def least_normal(self) -> Fraction:
        """2^emin."""
        return power(self.emin)

    @property
    def half_subnormal(self) -> Fraction:
        """Half of the least subnormal: the absolute error of rounding below the normal range."""
        return power(self.emin - self.digits)

    @property
    def overflow(self) -> Fraction:
        """The least magnitude that rounds to Inf: the largest finite number plus half its last place."""
        return self.largest + power(self.emax - self.digits)


def _format(name: str, digits: int, emax: int) -> Format:
    largest = power(emax + 1) - power(emax + 1 - digits)
    return Format(name, digits, 1 - emax, emax, largest)


# Sources: IEEE 754-2019 table 3.5; OCP 8-bit floating point (e4m3 has no Inf and reaches 448).
FORMATS = {
    "float16": _format("float16", 11, 15),
    "bfloat16": _format("bfloat16", 8, 127),
    "tf32": _format("tf32", 11, 127),
    "float32": _format("float32", 24, 127),
    "float64": _format("float64", 53, 1023),
    "float8_e4m3fn": Format("float8_e4m3fn", 4, -6, 8, Fraction(448), True),
    "float8_e5m2": Format("float8_e5m2", 3, -14, 15, Fraction(57344), True),
}

UNIT_FORMAT = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32", "f64": "float64"}


def product_grid(dtype_a: str, dtype_b: str) -> int:
    """Exponent g such that every product of the two formats is a multiple of 2^g."""
    a, b = FORMATS[dtype_a], FORMATS[dtype_b]
    return a.emin - a.digits + b.emin - b.digits + 2
