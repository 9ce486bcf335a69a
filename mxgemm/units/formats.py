"""Floating-point formats as values, and the exact way from their bits to float64.

Every format that a matrix unit is fed fits float64 exactly, so the models compute on
float64 values and keep the exponents, as the units see them, beside.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mxgemm.errors import DTypeError, one_of

__all__ = [
    "FORMATS",
    "Format",
    "dtype_name",
    "format_of",
    "k_first",
    "numpy_dtype",
    "powers_of_two",
    "raw_exponents",
    "widen",
]

Float64 = NDArray[np.float64]

NO_EXPONENT = -4096
"""Stands for the exponent of zero: below that of any product, and small enough to add two in int16."""


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes
    ----------
    name : str
        "f16", "bf16", "tf32", "e4m3", "e5m2", "f32" or "f64".
    fraction_bits : int
        Stored fraction bits; the precision is one more.
    emin, emax : int
        Least and largest exponent of a normal number.
    max_finite : float
        Largest finite value.
    """

    name: str
    fraction_bits: int
    emin: int
    emax: int
    max_finite: float

    @property
    def least(self) -> float:
        """Least positive value, a subnormal."""
        return 2.0 ** (self.emin - self.fraction_bits)


FORMATS = {
    f.name: f
    for f in (
        Format("f16", 10, -14, 15, 65504.0),
        Format("bf16", 7, -126, 127, (2 - 2.0**-7) * 2.0**127),
        Format("tf32", 10, -126, 127, (2 - 2.0**-10) * 2.0**127),
        Format("e4m3", 3, -6, 8, 448.0),
        Format("e5m2", 2, -14, 15, 57344.0),
        Format("f32", 23, -126, 127, (2 - 2.0**-23) * 2.0**127),
        Format("f64", 52, -1022, 1023, float(np.finfo(np.float64).max)),
    )
}

_DTYPES: dict[str, np.dtype[np.generic]] = {
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    **{f"float{bits}": np.dtype(f"float{bits}") for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
}

_FORMAT_OF_DTYPE = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """NumPy's dtype for an element type's name.

    Raises
    ------
    DTypeError
        For a name that is not an element type.
    """
    found = _DTYPES.get(name)
    if found is None:
        raise DTypeError(f"element type {name} is not supported; supported are {one_of(sorted(_DTYPES))}")
    return found


def dtype_name(x: NDArray[np.generic]) -> str:
    """The element type's name of an array, as the configuration table spells it."""
    return x.dtype.name


def format_of(dtype: str) -> Format:
    """The floating-point format of an element type.

    Raises
    ------
    DTypeError
        When the element type is no float.
    """
    name = _FORMAT_OF_DTYPE.get(dtype)
    if name is None:
        raise DTypeError(f"{dtype} is no floating-point type; supported are {one_of(list(_FORMAT_OF_DTYPE))}")
    return FORMATS[name]


def _float8_values(dtype: str) -> Float64:
    return np.arange(256, dtype=np.uint8).view(numpy_dtype(dtype)).astype(np.float64)


_FLOAT8_VALUES = {name: _float8_values(name) for name in ("float8_e4m3fn", "float8_e5m2")}


def widen(x: NDArray[np.generic], fmt: str | None = None) -> Float64:
    """Return the values of ``x`` as float64, exactly; "tf32" first drops the low 13 bits, as the unit does.

    Parameters
    ----------
    x : array of a floating-point element type
        For "tf32" an array of float32.
    fmt : str, optional
        Only "tf32" reads an array in another way than its element type.
    """
    if dtype_name(x) in _FLOAT8_VALUES:
        return _FLOAT8_VALUES[dtype_name(x)][np.ascontiguousarray(x).view(np.uint8)]
    if fmt == "tf32":
        x = (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    elif dtype_name(x) == "bfloat16":
        words = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << np.uint32(16)
        x = words.view(np.float32)
    with np.errstate(invalid="ignore"):  # a signalling NaN is quieted
        return x.astype(np.float64)


def k_first(x: Float64) -> Float64:
    """Rows (rows, K[, G]) turned into a panel (K, rows[, G]) in C order, through which a unit goes k by k."""
    return np.ascontiguousarray(x.swapaxes(0, 1))


def raw_exponents(values: Float64, emin: int) -> NDArray[np.int16]:
    """Exponents as a unit sees them: a subnormal has ``emin``, and zero :data:`NO_EXPONENT`."""
    fields = (np.ascontiguousarray(values).view(np.int64) >> 52) & 0x7FF
    exponents: NDArray[np.int16] = np.maximum(fields - 1023, emin).astype(np.int16)
    exponents[values == 0] = NO_EXPONENT
    return exponents


def powers_of_two(exponents: NDArray[np.integer]) -> Float64:
    """2^e as float64, for −1022 ≤ e ≤ 1023, built from bits."""
    return ((exponents.astype(np.int64) + 1023) << 52).view(np.float64)
