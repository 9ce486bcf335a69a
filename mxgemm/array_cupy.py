"""CuPy arrays in and out; CuPy is already imported when an array of it arrives."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from mxgemm.array_view import (
    ArrayView,
    dtype_name,
    element_strides,
    element_type_error,
    numpy_dtype,
    refuse_layout,
)
from mxgemm.errors import UnsupportedError

__all__ = [
    "allocator",
    "current_stream",
    "empty",
    "fingerprint",
    "fingerprints",
    "keep",
    "new_array",
    "repeated",
    "stream_reader",
    "view",
]

_LEGACY = 1  # CUDA's handle of the legacy default stream, which CuPy calls 0


def view(x: Any, name: str, *, writable: bool) -> ArrayView:
    """See a CuPy array.

    Raises
    ------
    DTypeError, ShapeError
        As for NumPy arrays.
    UnsupportedError
        For CuPy on ROCm, CuPy's sparse matrices, misaligned arrays and overlapping ``out``.
    """
    cupy = sys.modules["cupy"]
    if not isinstance(x, cupy.ndarray):
        kind = f"{type(x).__module__}.{type(x).__qualname__}"
        raise UnsupportedError(f"{name} is a {kind}; supported are dense cupy.ndarray objects")
    if cupy.cuda.runtime.is_hip:
        raise UnsupportedError(f"{name} is a CuPy array on ROCm; supported are CUDA devices")
    dtype = dtype_name(x.dtype, name)
    strides = element_strides(x.strides, x.dtype.itemsize, name)
    found = ArrayView("cupy", "cuda", x.device.id, x.data.ptr, x.shape, strides, dtype, x)
    return refuse_layout(found, name, writable=writable)


def fingerprint(x: Any) -> tuple[int, tuple[Any, ...] | None]:
    """Pointer, and the facts that :func:`view` depends on; None for objects of CuPy that are no arrays."""
    try:
        memory = x.data
        facts = memory.device_id, x.shape, x.strides, x.dtype
    except AttributeError:
        return 0, None
    return memory.ptr, facts


def fingerprints(a: Any, b: Any, d: Any) -> tuple[int, int, int, tuple[Any, ...] | None]:
    """Pointers of three arrays and the :func:`fingerprint` facts of all; at once that takes two thirds."""
    try:
        of_a, of_b, of_d = a.data, b.data, d.data
        facts = (
            of_a.device_id, a.shape, a.strides, a.dtype, of_b.device_id, b.shape, b.strides, b.dtype,
            of_d.device_id, d.shape, d.strides, d.dtype,
        )  # fmt: skip
    except AttributeError:
        return 0, 0, 0, None
    return of_a.ptr, of_b.ptr, of_d.ptr, facts


def keep(kept: dict[Any, Any], a: Any, b: Any, d: Any, value: Any) -> None:
    """Keep ``value`` for :func:`repeated` while these three arrays live; not for a program's own classes.

    The weak references remove it, so that no other array of the same identity meets it.
    """
    if not a.__class__ is b.__class__ is d.__class__ is sys.modules["cupy"].ndarray:
        return
    key = id(a), id(b), id(d)

    def gone(_reference: object) -> None:
        kept.pop(key, None)

    lives = [weakref.ref(x, gone) for x in (a, b, d)]
    matrices = a.ndim == b.ndim == d.ndim == 2 and a.size * b.size * d.size > 0
    same = (len(a), len(b), len(d)) if matrices else (a.shape, b.shape, d.shape)
    kept[key] = (value, matrices, *same, lives)


def repeated(kept: dict[Any, Any], a: Any, b: Any, d: Any) -> Any:
    """What was kept for these very arrays, as they were then; None otherwise.

    Pointer, device, element type, number of elements and strides of a CuPy array cannot be set.  Its shape
    can, which changes strides as well; back at the same shape, every element is where it was.  The rows of a
    matrix tell its shape, and cost half of that.
    """
    found = kept.get((id(a), id(b), id(d)))
    if found is None:
        return None
    value, matrices, of_a, of_b, of_d, _ = found
    if matrices:
        # Axes first: an array that has none left has no len().
        same = a.ndim == b.ndim == d.ndim == 2 and len(a) == of_a and len(b) == of_b and len(d) == of_d
    else:
        same = a.shape == of_a and b.shape == of_b and d.shape == of_d
    return value if same else None


def current_stream(ordinal: int) -> int:
    """Handle of CuPy's current stream on a device."""
    return stream_reader(ordinal)()


def stream_reader(ordinal: int) -> Callable[[], int]:
    """What gives :func:`current_stream` of one device."""
    current = sys.modules["cupy"].cuda.get_current_stream
    return lambda: current(ordinal).ptr or _LEGACY


def empty(like: ArrayView, shape: tuple[int, ...], dtype: str, stream: int | None) -> ArrayView:
    """A new CuPy array on the device of ``like``, from the pool that serves ``stream``."""
    return view(new_array(like.ordinal, shape, dtype, stream), "the result", writable=False)


def new_array(ordinal: int, shape: tuple[int, ...], dtype: str, stream: int | None) -> Any:
    """Allocate with CuPy; its pool hands memory out again in the order of the stream it was taken on.

    Raises
    ------
    DTypeError
        When this CuPy has no such element type.
    """
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(ordinal), _on_stream(cupy, ordinal, stream):
        try:
            return cupy.empty(shape, dtype=numpy_dtype(dtype))
        except (TypeError, ValueError, KeyError) as error:
            raise element_type_error(f"the result (CuPy {cupy.__version__})", dtype) from error


def allocator(ordinal: int, shape: tuple[int, ...], dtype: str) -> Callable[[Any], tuple[Any, int]]:
    """What makes new arrays on a device, from the pool of CuPy's current stream; with addresses."""
    cupy, element = sys.modules["cupy"], numpy_dtype(dtype)
    current, ndarray = cupy.cuda.runtime.getDevice, cupy.ndarray

    def allocate(_x: Any) -> tuple[Any, int]:
        # CuPy's own way to change the device costs as much as the array.
        made = ndarray(shape, element) if current() == ordinal else new_array(ordinal, shape, dtype, None)
        return made, made.data.ptr

    return allocate


def _on_stream(cupy: Any, ordinal: int, stream: int | None) -> Any:
    if stream is None or stream == (cupy.cuda.get_current_stream(ordinal).ptr or _LEGACY):
        return nullcontext()
    if stream == _LEGACY:
        return cupy.cuda.Stream.null
    return cupy.cuda.ExternalStream(stream, ordinal)
