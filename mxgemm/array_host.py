"""NumPy arrays in and out, and host memory of other libraries seen as NumPy arrays."""

from __future__ import annotations

import ctypes
import numbers
from typing import Any

import numpy as np

from mxgemm.array_view import ArrayView, dtype_name, numpy_dtype, refuse_layout
from mxgemm.errors import ShapeError, UnsupportedError

__all__ = ["empty", "host_view", "memory_at", "refuse_non_array", "view"]

_REFUSED_CLASSES: tuple[tuple[type, str], ...] = (
    (np.ma.MaskedArray, "a masked array; fill it first: x.filled(value)"),
    (np.matrix, "a numpy.matrix, whose products mean something else; pass numpy.asarray(x)"),
)


def view(x: Any, name: str, *, writable: bool) -> ArrayView:
    """See a NumPy array; byte-swapped and misaligned inputs are copied into native order.

    Raises
    ------
    DTypeError
        For an element type without a configuration.
    UnsupportedError
        For masked arrays and ``numpy.matrix``, and for an ``out`` that cannot be written in place.
    """
    if not isinstance(x, np.ndarray | np.generic):
        refuse_non_array(x, name)
    for refused, why in _REFUSED_CLASSES:
        if isinstance(x, refused):
            raise UnsupportedError(f"{name} is {why}")
    return host_view("numpy", x, np.asarray(x), name, writable=writable)


def host_view(
    library: str, owner: object, array: np.ndarray[Any, Any], name: str, *, writable: bool
) -> ArrayView:
    """See ``array``, the host memory of ``owner``."""
    dtype = dtype_name(array.dtype, name)
    in_place = _in_place(array)
    if writable and not in_place:
        raise UnsupportedError(
            f"{name} is byte-swapped or misaligned (dtype {array.dtype.str}, strides {array.strides} bytes); "
            "results are written to native, aligned arrays only"
        )
    host = array if in_place else np.array(array, dtype=numpy_dtype(dtype), order="K")
    strides = tuple(s // host.itemsize for s in host.strides)
    pointer = host.__array_interface__["data"][0]
    readonly = not array.flags.writeable
    found = ArrayView(
        library, "cpu", 0, pointer, host.shape, strides, dtype, owner, host, readonly, converted=not in_place
    )
    return refuse_layout(found, name, writable=writable)


def _in_place(array: np.ndarray[Any, Any]) -> bool:
    """Whether element strides and aligned native loads reach every element."""
    return (
        array.dtype.isnative and array.flags.aligned and all(s % array.itemsize == 0 for s in array.strides)
    )


def refuse_non_array(x: object, name: str) -> None:
    """Raise for something that is no array, saying what to pass.

    Raises
    ------
    ShapeError
        For scalars, as ``numpy.matmul`` does.
    UnsupportedError
        For everything else.
    """
    if isinstance(x, numbers.Number):
        raise ShapeError(
            f"{name} is a scalar ({type(x).__name__}); a matrix product needs arrays (use alpha= to scale)"
        )
    raise UnsupportedError(
        f"{name} is {type(x).__module__}.{type(x).__qualname__}, which is no array; supported are NumPy, "
        "CuPy, torch and JAX arrays and objects with __dlpack__ or __cuda_array_interface__ "
        "(pass numpy.asarray(x))"
    )


def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """A new uninitialised NumPy array, row-major."""
    return np.empty(shape, numpy_dtype(dtype))


def memory_at(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    keepalive: object,
    *,
    readonly: bool,
) -> np.ndarray[Any, Any]:
    """NumPy array over foreign host memory; it keeps ``keepalive`` alive as long as it lives itself.

    Parameters
    ----------
    pointer : int
        Address of the element with all indices 0.
    strides : tuple of int
        In elements.
    """
    element = numpy_dtype(dtype)
    reach = [(n - 1) * s * element.itemsize for n, s in zip(shape, strides, strict=True)]
    if 0 in shape:
        return np.empty(shape, element)
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0) + element.itemsize
    memory = (ctypes.c_char * (high - low)).from_address(pointer + low)
    memory.keepalive = keepalive  # type: ignore[attr-defined]  # ctypes instances take attributes
    byte_strides = tuple(s * element.itemsize for s in strides)
    array: np.ndarray[Any, Any] = np.ndarray(shape, element, memoryview(memory), -low, byte_strides)
    array.flags.writeable = not readonly
    return array
