"""Device memory where the caller brought none, and copies between host and device."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import numpy as np

from mxgemm.device import driver, streams
from mxgemm.errors import MxgemmError

__all__ = ["Buffer", "allocate", "allocate_zeroed", "borrow", "copy_to_device", "copy_to_host", "give_back"]


# Memory whose last use nobody told waits in a list for one wait for the device, at an allocation.
_PENDING_COUNT, _PENDING_BYTES = 64, 256 << 20


class _Fate:
    """What a finalizer needs: the memory, and the event after which nothing uses it."""

    __slots__ = ("event", "nbytes", "ordinal", "pointer")

    def __init__(self, pointer: int, nbytes: int, ordinal: int) -> None:
        self.pointer, self.nbytes, self.ordinal = pointer, nbytes, ordinal
        self.event: Any = None


class Buffer:
    """Device memory, freed when nothing refers to it any more.

    The stream of its last use may be destroyed before that, and a destroyed stream must not be named to
    the driver.  So the owner says :meth:`done` while the stream lives, and a stream of ours frees it behind
    an event.  Memory that nobody said so of is freed by a later allocation, which then waits for the device:
    a finalizer must not, since it runs at any time and waiting breaks a CUDA graph that is being captured.

    Attributes
    ----------
    pointer, nbytes : int
    """

    def __init__(self, pointer: int, nbytes: int, ordinal: int) -> None:
        self.pointer, self.nbytes = pointer, nbytes
        self._fate = _Fate(pointer, nbytes, ordinal)
        weakref.finalize(self, _end, self._fate).atexit = False  # the process's end frees everything

    def done(self, stream: int) -> None:
        """Say that everything that uses the memory is queued on ``stream``."""
        fate = self._fate
        with driver.on_device(fate.ordinal):
            if fate.event is None:
                fate.event = driver.call("cuEventCreate", streams.no_timing())
            driver.call("cuEventRecord", fate.event, driver.handle("CUstream", stream))


class _Pending:
    """Memory of unknown last use."""

    def __init__(self) -> None:
        self._fates: list[
            _Fate
        ] = []  # list.append is atomic: a finalizer may interrupt any code of its thread

    def add(self, fate: _Fate) -> None:
        """Keep for later."""
        self._fates.append(fate)

    def drain(self, ordinal: int, *, now: bool = False) -> bool:
        """Wait for the device and free, when it is worth a wait or ``now``; whether anything was freed."""
        fates = [fate for fate in list(self._fates) if fate.ordinal == ordinal]
        few = len(fates) < _PENDING_COUNT and sum(fate.nbytes for fate in fates) < _PENDING_BYTES
        if not fates or (few and not now):
            return False
        driver.call("cuCtxSynchronize")
        freed = [fate for fate in fates if self._take(fate)]
        for fate in freed:
            driver.call("cuMemFreeAsync", driver.handle("CUdeviceptr", fate.pointer), _own_stream(ordinal))
        return bool(freed)

    def _take(self, fate: _Fate) -> bool:
        """Remove; False when another thread was faster."""
        with suppress(ValueError):
            self._fates.remove(fate)
            return True
        return False


_pending = _Pending()
_lock = threading.RLock()  # a finalizer may run while its own thread is inside
_streams: dict[int, Any] = {}


def _own_stream(ordinal: int) -> Any:
    """A stream of ours on the current device, for freeing; it is never destroyed."""
    with _lock:
        if ordinal not in _streams:
            flag = driver.constant("CUstream_flags", "CU_STREAM_NON_BLOCKING")
            _streams[ordinal] = driver.call("cuStreamCreate", int(flag))
        return _streams[ordinal]


@contextmanager
def _beside_captures() -> Iterator[None]:
    """Let this thread free memory while some stream, which it does not touch, captures a CUDA graph."""
    mode = driver.constant("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_RELAXED")
    before = driver.call("cuThreadExchangeStreamCaptureMode", mode)
    try:
        yield
    finally:
        driver.call("cuThreadExchangeStreamCaptureMode", before)


def _end(fate: _Fate) -> None:
    if fate.event is None:
        _pending.add(fate)
        return
    # A finalizer has nobody to report to: after a fork or an error of the device the memory stays.
    with suppress(MxgemmError), driver.on_device(fate.ordinal), _beside_captures():
        stream = _own_stream(fate.ordinal)
        driver.call("cuStreamWaitEvent", stream, fate.event, 0)
        driver.call("cuEventDestroy", fate.event)
        driver.call("cuMemFreeAsync", driver.handle("CUdeviceptr", fate.pointer), stream)


def allocate(nbytes: int, ordinal: int, stream: int) -> Buffer:
    """Allocate device memory in the order of ``stream``, aligned to 256 bytes.

    Raises
    ------
    DriverError
        When the device has too little memory.
    UnsupportedError
        While the stream captures a CUDA graph.
    """
    streams.refuse_capture(stream, ordinal, f"{nbytes} bytes would be allocated; pass out= and workspace=")
    with driver.on_device(ordinal):
        _pending.drain(ordinal)
        pointer = _allocate_or_drain(nbytes, ordinal, stream)
    return Buffer(pointer, nbytes, ordinal)


def _allocate_or_drain(nbytes: int, ordinal: int, stream: int) -> int:
    try:
        return _allocate(nbytes, stream)
    except driver.DriverError:
        if not _pending.drain(ordinal, now=True):
            raise
        return _allocate(nbytes, stream)


def borrow(nbytes: int, ordinal: int, stream: int) -> int:
    """Address of device memory for work that is queued on ``stream`` now, as :func:`allocate` aligns it.

    The caller gives it back with :func:`give_back` while the stream lives, once the work is queued.  That
    costs two calls of the driver, a tenth of a :class:`Buffer`, which may outlive its stream.  The caller
    has asked whether the stream captures.

    Raises
    ------
    DriverError
        When the device has too little memory.
    """
    if streams.knows_its_device(stream):
        driver.check_process()
        found = ctypes.c_uint64()
        if _take()(ctypes.addressof(found), nbytes, stream) == 0:
            return found.value
    with driver.on_device(ordinal):
        return _allocate_or_drain(nbytes, ordinal, stream)


@lru_cache(maxsize=1)
def _take() -> Callable[..., int]:
    """The driver's cuMemAllocAsync, kept as the one of :func:`mxgemm.device.streams.is_capturing` is."""
    return driver.foreign("cuMemAllocAsync", 11020, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


@lru_cache(maxsize=1)
def _free() -> Callable[..., int]:
    return driver.foreign("cuMemFreeAsync", 11020, ctypes.c_void_p, ctypes.c_void_p)


def give_back(pointer: int, ordinal: int, stream: int) -> None:
    """Free memory from :func:`borrow` behind everything that ``stream`` holds."""
    if streams.knows_its_device(stream):
        driver.check_process()
        if _free()(pointer, stream) == 0:
            return
    with driver.on_device(ordinal):
        driver.call(
            "cuMemFreeAsync", driver.handle("CUdeviceptr", pointer), driver.handle("CUstream", stream)
        )


def _allocate(nbytes: int, stream: int) -> int:
    return int(driver.call("cuMemAllocAsync", max(nbytes, 1), driver.handle("CUstream", stream)))


def allocate_zeroed(nbytes: int, ordinal: int, stream: int) -> Buffer:
    """As :func:`allocate`, filled with zeros in the order of ``stream``."""
    buffer = allocate(nbytes, ordinal, stream)
    with driver.on_device(ordinal):
        target = driver.handle("CUdeviceptr", buffer.pointer)
        driver.call("cuMemsetD8Async", target, 0, max(nbytes, 1), driver.handle("CUstream", stream))
    return buffer


def copy_to_host(pointer: int, nbytes: int, ordinal: int, stream: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bytes of device memory after everything queued on ``stream``; waits for them.

    Raises
    ------
    UnsupportedError
        While the stream captures a CUDA graph.
    """
    streams.refuse_capture(stream, ordinal, "device data would be copied to the host; leave verify= away")
    data = np.empty(nbytes, np.uint8)
    if nbytes:
        with driver.on_device(ordinal):
            on = driver.handle("CUstream", stream)
            source = driver.handle("CUdeviceptr", pointer)
            driver.call("cuMemcpyDtoHAsync", data.ctypes.data, source, nbytes, on)
            driver.call("cuStreamSynchronize", on)
    return data


def copy_to_device(pointer: int, source: np.ndarray[Any, Any], ordinal: int, stream: int) -> None:
    """Copy a C-contiguous host array to device memory in the order of ``stream``.

    Raises
    ------
    UnsupportedError
        While the stream captures a CUDA graph.
    """
    streams.refuse_capture(stream, ordinal, "host data would be copied; pass device arrays")
    if source.nbytes:
        with driver.on_device(ordinal):
            on = driver.handle("CUstream", stream)
            target = driver.handle("CUdeviceptr", pointer)
            driver.call("cuMemcpyHtoDAsync", target, source.ctypes.data, source.nbytes, on)
            # A pinned source is read later than this call, and the caller may free it at once.
            driver.call("cuStreamSynchronize", on)
