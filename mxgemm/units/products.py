"""P = A·B in one configuration: from the caller's operands to the sum before the epilogue."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import Configuration, unit_arithmetic
from mxgemm.errors import DTypeError, ShapeError
from mxgemm.units.chains import chained_product
from mxgemm.units.crt import crt_product
from mxgemm.units.formats import FORMATS, dtype_name, format_of, k_first, numpy_dtype, widen
from mxgemm.units.integers import byte_product, limb_product
from mxgemm.units.scalar import fma_product, wrapping_product
from mxgemm.units.special import Specials, find_specials
from mxgemm.units.splits import prepare

__all__ = ["multiply"]

Array = NDArray[Any]

SPECIALS_DEPTH = 1024


def multiply(
    a: Array, b: Array, configuration: Configuration, arch: str = "sm_90", *, accumulator: str | None = None
) -> Array:
    """Return P = A·B as ``configuration`` computes it on ``arch``, bit for bit.

    Parameters
    ----------
    a : (M, K[, G]) array of a source type of the configuration
    b : (K, N[, G]) array of a source type of the configuration
        Any strides; bfloat16 and fp8 as ``ml_dtypes``.  With a last axis, G products side by
        side: each has the bits that it has alone.
    configuration : Configuration
        A row of the table.
    arch : str
        Architecture whose matrix unit computes; `scalar` is the same everywhere.
    accumulator : str, optional
        For integers, a type wider than the configuration's: the sum is then exact modulo
        its 2^bits.

    Returns
    -------
    (M, N[, G]) array of the accumulator's type
        Operand conversion, splits, chains, the float32 sum and the rules for Inf and NaN
        are in it; alpha, C and the epilogue are not (:func:`mxgemm.units.run`).

    Raises
    ------
    UnsupportedError
        When the unit has no row on ``arch``, or K leaves i8crtN no bit.
    DTypeError, ShapeError
        When the operands are not the configuration's.
    """
    _check(a, b, configuration)
    unit = None if configuration.unit is None else unit_arithmetic(configuration.unit, arch)
    kind = accumulator or configuration.accumulator
    with np.errstate(all="ignore"):
        if a.shape[1] == 0:
            return np.zeros((a.shape[0], b.shape[1], *a.shape[2:]), numpy_dtype(kind))
        if configuration.is_integer:
            return _integer_product(a, b, configuration, kind)
        if configuration.moduli:
            product = crt_product(a, b.swapaxes(0, 1), configuration.moduli, kind)
            return _decide_specials(product, a, b)
        if unit is None or unit.kind == "fma-chain":
            return _oriented(a, b, lambda x, y: fma_product(x, y, kind))
        return _unit_product(a, b, configuration, arch)


def _check(a: Array, b: Array, configuration: Configuration) -> None:
    names = (dtype_name(a), dtype_name(b))
    if any(name not in configuration.source_types for name in names):
        raise DTypeError(
            f"{configuration.name} takes operands of {' or '.join(configuration.source_types)}, not {names}"
        )
    if a.ndim not in (2, 3) or b.ndim != a.ndim or a.shape[1:] != (b.shape[0], *b.shape[2:]):
        raise ShapeError(
            f"a product needs (M, K) and (K, N), G of them (M, K, G) and (K, N, G); "
            f"the operands have {a.shape} and {b.shape}"
        )


def _integer_product(a: Array, b: Array, configuration: Configuration, accumulator: str) -> Array:
    if configuration.is_scalar:
        return wrapping_product(a, b.swapaxes(0, 1), accumulator)
    if a.dtype.itemsize == 1 and numpy_dtype(accumulator).itemsize == 4:
        return byte_product(a, b.swapaxes(0, 1)).astype(accumulator, copy=False)
    return limb_product(a, b.swapaxes(0, 1), accumulator)


def _oriented(a: Array, b: Array, product: Any) -> Array:
    """``product(A, Bᵀ)``, turned so that the longer axis of the result is the inner one."""
    if b.shape[1] < 64 and b.shape[1] < a.shape[0]:
        turned: Array = product(b.swapaxes(0, 1), a).swapaxes(0, 1)
        return np.ascontiguousarray(turned)
    straight: Array = product(a, b.swapaxes(0, 1))
    return straight


def _least_exponent(x: Array, unit: str) -> int:
    return format_of(dtype_name(x)).emin if unit == "f8" else FORMATS[unit].emin


def _unit_product(a: Array, b: Array, configuration: Configuration, arch: str) -> Array:
    unit = unit_arithmetic(configuration.unit or "", arch)
    emins = _least_exponent(a, unit.unit), _least_exponent(b, unit.unit)
    left, right = prepare(a, configuration, emins[0]), prepare(b.swapaxes(0, 1), configuration, emins[1])
    if b.shape[1] < 64 and b.shape[1] < a.shape[0]:
        product = chained_product(right, left, configuration, unit, turned=True)
        product = np.ascontiguousarray(product.swapaxes(0, 1))
    else:
        product = chained_product(left, right, configuration, unit)
    return _decide_specials(product, a, b) if configuration.terms > 1 else product


def _decide_specials(product: Array, a: Array, b: Array) -> Array:
    """Overwrite the entries whose row of A or column of B is not finite by what the operands say."""
    rows, columns = ~np.isfinite(a).all(axis=1), ~np.isfinite(b).all(axis=0)
    if not rows.any() and not columns.any():
        return product
    specials = Specials.none(product.shape)
    for k in range(0, a.shape[1], SPECIALS_DEPTH):
        ks = slice(k, k + SPECIALS_DEPTH)
        specials = specials.merged(find_specials(k_first(widen(a[:, ks])), widen(b[ks])))
    specials.write(product)
    return product
