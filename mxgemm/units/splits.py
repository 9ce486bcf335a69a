"""Operands cut into terms for the matrix units, with the traps of docs/units.md, "Splits".

A term is a float32 array of values that the unit's format holds.  Entries that are not
finite are 0 in every term of a split: the caller's operands decide them afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import Configuration
from mxgemm.units.convert import round_operand
from mxgemm.units.formats import FORMATS, Float64, powers_of_two

__all__ = ["Terms", "prepare", "row_exponents", "split"]

Float32 = NDArray[np.float32]

SCALED_EXPONENT = 14
"""Exponent that scaling gives a row's largest entry: twice it still fits float16."""


@dataclass(frozen=True, slots=True)
class Terms:
    """One operand ready for the unit.

    Attributes
    ----------
    arrays : tuple of (rows, K[, G]) arrays
        The terms, largest first.
    emin : int
        Least exponent of the format fed to the unit.
    scale : (rows[, G]) int array or None
        Each row was multiplied by 2^scale.
    """

    arrays: tuple[NDArray[Any], ...]
    emin: int
    scale: NDArray[np.int64] | None = None


def split(x: Float32, fmt: str, count: int) -> tuple[Float32, ...]:
    """Cut finite float32 values into ``count`` terms, each rounded to nearest of what is left.

    A finite value whose nearest is Inf takes the largest finite value of the format.
    """
    largest = np.float32(FORMATS[fmt].max_finite)
    terms = []
    rest = x
    for _ in range(count):
        term = round_operand(rest, fmt)
        too_large = np.isinf(term)
        if too_large.any():
            term = np.where(too_large, np.copysign(largest, rest), term)
        terms.append(term)
        rest = rest - term
    return tuple(terms)


def row_exponents(x: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Exponent of each row's largest finite entry; rows without one (or all zero) give the least int64."""
    size = np.where(np.isfinite(x), np.abs(x), 0).max(axis=1, initial=0.0)
    exponents = np.frexp(size)[1].astype(np.int64) - 1
    return np.where(size == 0, np.iinfo(np.int64).min, exponents)


def _scaled(x: Float32) -> tuple[Float32, NDArray[np.int64]]:
    """Rows scaled so that the largest finite entry has exponent 14.

    What float32 cannot hold after scaling lies below half of float16's least subnormal,
    and is 0 in both terms however it is rounded.
    """
    exponents = row_exponents(x)
    scale = np.where(exponents == np.iinfo(np.int64).min, 0, SCALED_EXPONENT - exponents)
    wide: Float64 = x.astype(np.float64) * powers_of_two(scale)[:, None]
    return wide.astype(np.float32), scale


def prepare(x: NDArray[Any], configuration: Configuration, emin: int) -> Terms:
    """Round or split an operand as the configuration says.

    Parameters
    ----------
    x : (rows, K[, G]) array of a source type
    configuration : Configuration
        With a floating-point unit.
    emin : int
        Least exponent of the format fed to the unit.
    """
    unit = configuration.unit or ""
    if configuration.rounds_to:
        return Terms((round_operand(x, unit),), emin)
    if configuration.terms == 1:
        return Terms((x,), emin)
    x = np.where(np.isfinite(x), x, np.float32(0))
    scale = None
    if configuration.scaling == "rows-and-columns":
        x, scale = _scaled(x)
    return Terms(split(x, unit, configuration.terms), emin, scale)
