"""ArrayView: one array argument as every other module sees it, and the element types by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from mxgemm.errors import DTypeError, UnsupportedError
from mxgemm.problem import Operand

__all__ = [
    "DTYPES",
    "ArrayView",
    "dtype_name",
    "element_strides",
    "element_type_error",
    "numpy_dtype",
    "refuse_layout",
]

DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for bits in (8, 16, 32, 64) for sign in ("", "u")},
    "float16": np.dtype("float16"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype("float32"),
    "float64": np.dtype("float64"),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class ArrayView:
    """One array, without a copy: where it is, how it lies and who owns it.

    Attributes
    ----------
    library : str
        The array's library: "numpy", "cupy", "torch", "jax" or "other".
    device : str
        "cpu" or "cuda".
    ordinal : int
        CUDA device number; 0 on the CPU.
    pointer : int
        Address of the element with all indices 0; 0 is possible for arrays without elements.
    shape : tuple of int
    strides : tuple of int
        In elements, may be negative or 0.
    dtype : str
        Element type, a key of :data:`DTYPES`.
    owner : object
        What the caller passed, or the new array; kept alive by this view.
    host : numpy.ndarray or None
        The same memory as a NumPy array when ``device`` is "cpu".
    readonly : bool
    stream : int or None
        The stream on which a producer says that the data are ready; None when it says nothing.
    converted : bool
        Whether ``host`` is a converted copy (byte-swapped or misaligned NumPy input).
    lifetime : object
        What else must live as long as the pointer is used, for example a DLPack capsule.
    """

    library: str
    device: str
    ordinal: int
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    owner: object
    host: np.ndarray[Any, Any] | None = None
    readonly: bool = False
    stream: int | None = None
    converted: bool = False
    lifetime: object = None

    @property
    def backend(self) -> str:
        """``cpu`` or ``cuda:<ordinal>``."""
        return "cpu" if self.device == "cpu" else f"cuda:{self.ordinal}"

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return DTYPES[self.dtype].itemsize

    @property
    def operand(self) -> Operand:
        """Type, shape and strides as :mod:`mxgemm.problem` takes them."""
        return Operand(self.dtype, self.shape, self.strides)

    @property
    def byte_range(self) -> tuple[int, int]:
        """First byte that belongs to an element and the byte past the last; equal when there is none."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = sum(r for r in reach if r < 0)
        high = sum(r for r in reach if r > 0)
        return self.pointer + low * self.itemsize, self.pointer + (high + 1) * self.itemsize

    def __str__(self) -> str:
        where = "" if self.device == "cpu" else f" on {self.backend}"
        return f"{self.library} {self.dtype}{list(self.shape)}{where}"


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's (or ml_dtypes') type object for an element type by name."""
    return DTYPES[dtype]


def dtype_name(dtype: np.dtype[Any], name: str) -> str:
    """Element type by name of a NumPy type of either byte order.

    Raises
    ------
    DTypeError
        For object, bool, complex, string and every other type without a configuration.
    """
    found = _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("="))
    if found is None:
        raise element_type_error(name, str(dtype))
    return found


def element_type_error(name: str, dtype: str) -> DTypeError:
    """The error for operand ``name`` of an element type that no configuration takes."""
    return DTypeError(
        f"{name} has element type {dtype}, which is not supported; supported are {', '.join(DTYPES)}"
    )


def element_strides(byte_strides: tuple[int, ...], itemsize: int, name: str) -> tuple[int, ...]:
    """Strides in elements of strides in bytes.

    Raises
    ------
    UnsupportedError
        When they are no multiples of the element's size.
    """
    if any(s % itemsize for s in byte_strides):
        raise UnsupportedError(
            f"{name} has strides of {byte_strides} bytes, no multiples of its {itemsize}-byte elements; "
            "copy it first"
        )
    return tuple(s // itemsize for s in byte_strides)


def refuse_layout(view: ArrayView, name: str, *, writable: bool) -> ArrayView:
    """Return ``view``, or raise for what cannot be read (misaligned) or written in place.

    Raises
    ------
    UnsupportedError
        For a missing or misaligned device pointer, and for an ``out`` that is read-only or whose elements
        share memory.
    """
    if view.pointer == 0 and 0 not in view.shape:
        raise UnsupportedError(f"{name} has elements and no memory ({view}); pass an array with storage")
    if view.pointer % view.itemsize and 0 not in view.shape:
        raise UnsupportedError(
            f"{name} starts at address {view.pointer:#x}, which is no multiple of its "
            f"{view.itemsize}-byte elements; copy it into an aligned array"
        )
    if writable and view.readonly:
        raise UnsupportedError(f"{name} is read-only ({view}); pass a writable array")
    if writable and _elements_overlap(view.shape, view.strides):
        raise UnsupportedError(
            f"{name} has elements that share memory (shape {view.shape}, element strides {view.strides}); "
            "pass an array in which each element has its own place"
        )
    return view


def _elements_overlap(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether axes do not nest; slices and transposes of an ordinary array always do."""
    if 0 in shape:
        return False
    reach = 0
    for stride, extent in sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False
