"""The host side of the dialect: arrays, streams and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm import device
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from mxgemm.lang import arguments, runtime
from mxgemm.lang.device_array import DeviceArray, layout_of, row_major
from mxgemm.lang.streams import Event, Stream, handle_of
from mxgemm.lang.types import as_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "as_cuda_array",
    "default_stream",
    "device_array",
    "device_array_like",
    "event",
    "event_elapsed_time",
    "is_available",
    "is_cuda_array",
    "pinned_array",
    "pinned_array_like",
    "select_device",
    "stream",
    "synchronize",
    "to_device",
]


def is_available() -> bool:
    """Whether kernels would run on a GPU."""
    return not runtime.forced_interpreter() and device.available()


def select_device(ordinal: int) -> None:
    """Make a device this thread's own."""
    runtime.select(ordinal)


def stream() -> Stream:
    """A new stream."""
    backend = runtime.current()
    return Stream(backend, backend.create_stream())


def default_stream() -> Stream:
    """The stream of launches that name none."""
    backend = runtime.current()
    return Stream(backend, backend.default_stream)


def event(timing: bool = True) -> Event:  # noqa: ARG001  # Numba's parameter
    """A new event; events keep times whether asked to or not."""
    return Event()


def event_elapsed_time(start: Event, end: Event) -> float:
    """Milliseconds between two recorded events."""
    return start.elapsed_time(end)


def synchronize() -> None:
    """Wait for everything queued on the device."""
    runtime.current().synchronize(None)


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """Copy a host array to the device; an array already there is returned as it is, without ``to``.

    Parameters
    ----------
    obj
        Anything ``numpy.asarray`` takes, or a device array.
    stream
        Of the copy.
    copy
        Numba's flag; False is refused, since host and device memory are never the same.
    to
        A device array to copy into.
    """
    if not copy:
        raise UnsupportedError("to_device(copy=False): host and device memory are never the same")
    if to is not None:
        to.copy_to_device(obj, stream)
        return to
    if isinstance(obj, DeviceArray):
        return obj
    backend = runtime.current()
    return arguments.upload(backend, np.asarray(obj), handle_of(backend, stream))


def device_array(
    shape: int | Sequence[int],
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
) -> DeviceArray:
    """An uninitialised device array.

    Parameters
    ----------
    strides
        In bytes; contiguous in ``order`` when left out.
    """
    extents, element = _extents(shape, order, "device_array"), as_scalar(dtype).dtype
    steps = tuple(strides) if strides is not None else row_major(extents, element.itemsize, order)
    if len(steps) != len(extents) or any(step < 0 or step % element.itemsize for step in steps):
        raise ShapeError(
            f"device_array takes one stride an axis, each a multiple of {element.itemsize} bytes and not "
            f"negative, not {strides!r}; index a device array for a reversed view"
        )
    reach = sum((n - 1) * s for n, s in zip(extents, steps, strict=True)) if 0 not in extents else 0
    backend = runtime.current()
    handle = handle_of(backend, stream)
    memory = backend.allocate(reach + element.itemsize, handle)
    return DeviceArray(backend, memory, 0, extents, steps, element, handle)


def _extents(shape: Any, order: str, who: str) -> tuple[int, ...]:
    """A shape as a tuple of extents; ``order`` is checked along with it."""
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    whole = all(hasattr(part, "__index__") for part in parts)
    if order not in ("C", "F") or not whole or min(map(int, parts), default=0) < 0:
        raise DTypeError(
            f"{who} takes extents of 0 and more, and order C or F; not shape {shape!r}, order {order!r}"
        )
    return tuple(int(part) for part in parts)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceArray:
    """An uninitialised device array with the shape, type and order of ``ary``."""
    return device_array(tuple(ary.shape), ary.dtype, order=_order_of(ary), stream=stream)


def _order_of(ary: Any) -> str:
    return "F" if layout_of(tuple(ary.shape), tuple(ary.strides), ary.dtype.itemsize) == "F" else "C"


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """A NumPy array in page-locked memory; plain memory without a GPU."""
    if strides is not None:
        raise UnsupportedError("pinned_array takes no strides; index the array for a view")
    extents, element = _extents(shape, order, "pinned_array"), as_scalar(dtype).dtype
    nbytes = int(np.prod(extents, dtype=np.int64)) * element.itemsize
    raw = runtime.current().pinned(nbytes)
    return np.ndarray(extents, element, raw, 0, row_major(extents, element.itemsize, order))


def pinned_array_like(ary: Any) -> Any:
    """A page-locked array with the shape, type and order of ``ary``."""
    return pinned_array(tuple(ary.shape), ary.dtype, order=_order_of(ary))


def is_cuda_array(obj: Any) -> bool:
    """Whether ``obj`` says that it lies in device memory."""
    return isinstance(obj, DeviceArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """Another library's device array as a ``DeviceArray`` over the same memory.

    Parameters
    ----------
    sync
        Wait for the stream that the producer names.
    """
    if isinstance(obj, DeviceArray):
        return obj
    backend = runtime.current()
    array = arguments.as_device(backend, obj)
    if sync:
        backend.synchronize(array.stream)
    return array
