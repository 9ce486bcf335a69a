"""The host side of the dialect: arrays, streams, devices; and what Numba has that is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm import device
from mxgemm.errors import UnsupportedError
from mxgemm.lang import arguments, runtime
from mxgemm.lang.device_array import DeviceArray, row_major
from mxgemm.lang.streams import Event, Stream, handle_of
from mxgemm.lang.types import as_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "REFUSED",
    "RefusedNameError",
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

#: Names of ``numba.cuda`` that are not here, with what to do instead.
REFUSED: Final[dict[str, str]] = {
    "mapped_array": "pass device arrays (cuda.to_device) or host arrays, which are copied",
    "mapped_array_like": "pass device arrays (cuda.to_device) or host arrays, which are copied",
    "managed_array": "pass device arrays (cuda.to_device)",
    "mapped": "pass device arrays (cuda.to_device)",
    "pinned": "allocate with cuda.pinned_array",
    "declare_device": "device functions are Python functions under @cuda.jit(device=True)",
    "reduce": "write the reduction as a kernel, or use CuPy",
    "Reduce": "write the reduction as a kernel, or use CuPy",
    "cg": "grid-wide synchronisation is not part of the dialect; split the kernel in two launches",
    "random": "generate random numbers on the host or with CuPy and pass them as arrays",
    "libdevice": "use the functions of math",
    "vectorize": "write a kernel over cuda.grid(1)",
    "guvectorize": "write a kernel",
    "nanosleep": "kernels do not wait",
    "compile": "kernel.source() gives CUDA C; mxgemm.device.compile_cubin compiles it",
    "compile_ptx": "kernel.source() gives CUDA C; mxgemm.device.compile_cubin compiles it",
    "current_context": "contexts are managed by mxgemm; use select_device and synchronize",
    "gpus": "use select_device",
    "get_current_device": "mxgemm.device.capabilities(ordinal) describes a device",
    "list_devices": "use select_device",
    "detect": "use is_available and mxgemm.device.capabilities",
    "close": "memory is freed with its last reference",
    "defer_cleanup": "memory is freed in the order of its stream, which stops nothing",
    "per_thread_default_stream": "use cuda.stream()",
    "legacy_default_stream": "cuda.default_stream() is the legacy default stream",
    "external_stream": "pass the stream object itself as the third launch parameter",
    "open_ipc_handle": "memory is not shared between processes",
    "profile_start": "use the profiler's own range options",
    "profile_stop": "use the profiler's own range options",
    "profiling": "use the profiler's own range options",
    "atomic_add": "write cuda.atomic.add",
    "syncthreads_count_sync": "write cuda.syncthreads_count",
    "vote_sync_intrinsic": "write all_sync, any_sync, eq_sync or ballot_sync",
    "shfl_sync_intrinsic": "write shfl_sync, shfl_up_sync, shfl_down_sync or shfl_xor_sync",
    "fp16": "float16 arithmetic is written with operators and math functions",
}


class RefusedNameError(UnsupportedError, AttributeError):
    """A name of ``numba.cuda`` that the dialect refuses."""


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
    backend = runtime.current()
    extents = (int(shape),) if hasattr(shape, "__index__") else tuple(int(s) for s in shape)
    if order not in ("C", "F") or (extents and min(extents) < 0):
        raise UnsupportedError(
            f"device_array takes extents of 0 and more and order C or F, not {shape!r}, {order!r}"
        )
    element = as_scalar(dtype).dtype
    steps = tuple(strides) if strides is not None else row_major(extents, element.itemsize, order)
    reach = sum((n - 1) * s for n, s in zip(extents, steps, strict=True)) if 0 not in extents else 0
    if min(steps, default=0) < 0:
        raise UnsupportedError(
            "device_array takes positive strides; index a device array for a reversed view"
        )
    handle = handle_of(backend, stream)
    memory = backend.allocate(reach + element.itemsize, handle)
    return DeviceArray(backend, memory, 0, extents, steps, element, handle)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceArray:
    """An uninitialised device array with the shape, type and order of ``ary``."""
    transposed = bool(
        ary.ndim > 1 and row_major(tuple(ary.shape), ary.dtype.itemsize, "F") == tuple(ary.strides)
    )
    return device_array(ary.shape, ary.dtype, order="F" if transposed else "C", stream=stream)


def pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C") -> Any:
    """A NumPy array in page-locked memory; plain memory without a GPU."""
    if strides is not None:
        raise UnsupportedError("pinned_array takes no strides; index the array for a view")
    element = as_scalar(dtype).dtype
    extents = (int(shape),) if hasattr(shape, "__index__") else tuple(shape)
    nbytes = int(np.prod(extents, dtype=np.int64)) * element.itemsize
    raw = runtime.current().pinned(nbytes)
    return np.ndarray(extents, element, raw, 0, row_major(extents, element.itemsize, order))


def pinned_array_like(ary: Any) -> Any:
    """A page-locked array with the shape and type of ``ary``."""
    return pinned_array(ary.shape, ary.dtype)


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
