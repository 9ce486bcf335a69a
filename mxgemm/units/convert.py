"""Conversions between element types: our own sequences, with the device's rules.

Each rounds once.  A library's ``astype`` is used only where the value is already
representable, or where its rule is IEEE 754's and single (float64 → float32): NumPy's
float32 → float16 makes other NaNs, and ml_dtypes overflows e4m3 to NaN where the CUDA
conversion saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.errors import UnsupportedError
from mxgemm.units.formats import Float64, Format, format_of, numpy_dtype, powers_of_two, widen

__all__ = [
    "operand_overflows",
    "round_operand",
    "round_scalar",
    "round_to_format",
    "saturates",
    "to_accumulator",
    "to_output",
]

Array = NDArray[Any]
Float32 = NDArray[np.float32]

CANONICAL_NAN_F32 = np.uint32(0x7FFFFFFF)
_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)


def round_to_format(x: Float64, fmt: Format) -> Float64:
    """Round float64 values to ``fmt`` once, to nearest even, as float64; too large gives Inf.

    NaN and Inf stay.  The spacing of ``fmt`` at x is a power of two, so that the division
    by it, the rounding to an integer and the product are exact.
    """
    if fmt.name == "f64":
        return x
    exponents = ((np.ascontiguousarray(x).view(np.int64) >> 52) & 0x7FF) - 1023
    steps = np.maximum(exponents, fmt.emin) - fmt.fraction_bits
    rounded = np.rint(x * powers_of_two(-steps)) * powers_of_two(steps)
    return np.where(np.abs(rounded) > fmt.max_finite, np.copysign(np.inf, x), rounded)


def _round_words(x: Float32, dropped: int) -> Float32:
    """Round float32 to fewer significant bits by integer arithmetic; carries run into the exponent."""
    words = x.view(np.uint32)
    below_half = np.uint32((1 << (dropped - 1)) - 1)
    rounded = words + below_half + ((words >> np.uint32(dropped)) & np.uint32(1))
    rounded &= np.uint32(-(1 << dropped) & 0xFFFFFFFF)
    special = (words & _MAGNITUDE) >= _INFINITY
    if special.any():
        kept = np.where((words & _MAGNITUDE) > _INFINITY, CANONICAL_NAN_F32, words)
        rounded = np.where(special, kept, rounded)
    return rounded.view(np.float32)


def _round_f16(x: Float32) -> Float32:
    normal = _round_words(x, 13)
    # Below 2^-14 the spacing is 2^-24, float32's own at 0.75: adding it rounds there, to nearest even.
    magnitude = np.abs(x)
    small = np.copysign((magnitude + np.float32(0.75)) - np.float32(0.75), x)
    rounded = np.where(magnitude < np.float32(2.0**-14), small, normal)
    too_large = np.abs(rounded) > np.float32(65504.0)
    return np.where(too_large, np.copysign(np.float32(np.inf), x), rounded)


def round_operand(x: Float32, fmt: str) -> Float32:
    """Round float32 operands to nearest even in the format fed to a unit; the values come back as float32.

    Parameters
    ----------
    x : float32 array
    fmt : str
        "f16", "bf16" or "tf32".

    Returns
    -------
    float32 array
        Overflow gives Inf; NaN comes out canonical.

    Raises
    ------
    UnsupportedError
        For another format.
    """
    x = np.ascontiguousarray(x)
    with np.errstate(all="ignore"):
        if fmt == "bf16":
            return _round_words(x, 16)
        if fmt == "tf32":
            return _round_words(x, 13)
        if fmt == "f16":
            return _round_f16(x)
    raise UnsupportedError(f"operands are rounded to f16, bf16 or tf32, not to {fmt}")


def round_scalar(value: Any, dtype: str) -> Any:
    """Round a Python number to an accumulator's type once; integers wrap modulo 2^bits."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        bits = 8 * kind.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return np.array([wrapped], dtype=f"u{kind.itemsize}").view(kind)[0]
    if isinstance(value, int):
        value = _integer_to_odd(value) if dtype == "float32" else _integer_to_nearest(value)
    with np.errstate(all="ignore"):
        return kind.type(value)


def _integer_to_nearest(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _integer_to_odd(value: int) -> float:
    """``value`` cut to 53 bits with a sticky last bit, so that rounding it to float32 rounds once."""
    magnitude = abs(value)
    excess = max(magnitude.bit_length() - 53, 0)
    kept = magnitude >> excess
    if kept << excess != magnitude:
        kept |= 1
    return _integer_to_nearest((kept << excess) * (1 if value >= 0 else -1))


def to_accumulator(x: Array, dtype: str) -> Array:
    """Convert C, a bias or scales to an accumulator's type, rounding once; integers wrap modulo 2^bits."""
    kind = numpy_dtype(dtype)
    if x.dtype == kind:
        return x
    if kind.kind in "iu":
        return x.astype(kind)
    with np.errstate(all="ignore"):
        return widen(x).astype(kind)


def saturates(values: Float64, dtype: str) -> bool:
    """Whether a conversion to fp8 replaces any value, Inf included, by the largest finite one."""
    fmt = format_of(dtype)
    return bool(np.isinf(round_to_format(values, fmt)).any())


def to_output(acc: Array, out_dtype: str) -> Array:
    """Convert accumulators to the result's element type.

    Parameters
    ----------
    acc : array of an accumulator's type (float32, float64 or an integer)
    out_dtype : str
        Element type of the result.

    Returns
    -------
    array
        Rounded once, to nearest even.  float16 and bfloat16 overflow to Inf; fp8 saturates
        to its largest finite value (Inf too) and keeps NaN, as cvt.satfinite does; integers
        are taken modulo 2^bits, or widened exactly.
    """
    kind = numpy_dtype(out_dtype)
    if acc.dtype == kind:
        return acc
    if kind.kind in "iu":
        return acc.astype(kind)
    with np.errstate(all="ignore"):
        if out_dtype in ("float32", "float64"):
            return acc.astype(kind)
        rounded = round_to_format(widen(acc), format_of(out_dtype))
        return _encode(rounded, out_dtype)


def _encode(x: Float64, dtype: str) -> Array:
    """Bits of values that ``dtype`` holds exactly, with its canonical NaN."""
    fmt, kind = format_of(dtype), numpy_dtype(dtype)
    if kind.itemsize == 1:
        x = np.clip(x, -fmt.max_finite, fmt.max_finite)
    if dtype == "bfloat16":
        words = np.where(np.isnan(x), CANONICAL_NAN_F32, x.astype(np.float32).view(np.uint32))
        return (words >> np.uint32(16)).astype(np.uint16).view(kind)
    encoded = x.astype(kind)
    nan = np.isnan(x)
    if nan.any():
        encoded.view(f"u{kind.itemsize}")[nan] = 0x7FFF if kind.itemsize == 2 else 0x7F
    return encoded


def operand_overflows(x: Array, fmt: str) -> bool:
    """Whether rounding a float32 operand to ``fmt`` turns a finite value into Inf."""
    return bool((np.isinf(round_operand(x, fmt)) & np.isfinite(x)).any())
