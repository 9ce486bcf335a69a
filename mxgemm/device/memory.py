"""Device memory where the caller brought none, and copies between host and device."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mxgemm.device import driver, streams
from mxgemm.errors import MxgemmError

__all__ = ["Buffer", "allocate", "copy_to_device", "copy_to_host"]


@dataclass(slots=True)
class _Fate:
    """What a finalizer needs: the memory, and the event after which nothing uses it."""

    pointer: int
    ordinal: int
    event: Any = None


class Buffer:
    """Device memory, freed by :meth:`free`, else when nothing refers to it any more.

    The stream of its last use may be destroyed before that, and a destroyed stream must not be named to
    the driver.  So the owner says :meth:`done` while the stream lives, and a stream of ours frees it.

    Attributes
    ----------
    pointer, nbytes : int
    """

    def __init__(self, pointer: int, nbytes: int, ordinal: int) -> None:
        self.pointer, self.nbytes = pointer, nbytes
        self._fate = _Fate(pointer, ordinal)
        self._finalizer = weakref.finalize(self, _free, self._fate)
        self._finalizer.atexit = False  # the driver frees everything when the process ends

    def done(self, stream: int) -> None:
        """Say that everything that uses the memory is queued on ``stream``."""
        fate = self._fate
        with driver.on_device(fate.ordinal):
            if fate.event is None:
                fate.event = driver.call("cuEventCreate", streams.no_timing())
            driver.call("cuEventRecord", fate.event, driver.handle("CUstream", stream))

    def free(self, stream: int) -> None:
        """Free the memory after what is queued on ``stream`` now."""
        self._finalizer.detach()
        with driver.on_device(self._fate.ordinal):
            driver.call(
                "cuMemFreeAsync",
                driver.handle("CUdeviceptr", self.pointer),
                driver.handle("CUstream", stream),
            )


_lock = threading.Lock()
_streams: dict[int, Any] = {}


def _own_stream(ordinal: int) -> Any:
    """A stream of ours on the current device, for freeing; it is never destroyed."""
    with _lock:
        if ordinal not in _streams:
            flag = driver.constant("CUstream_flags", "CU_STREAM_NON_BLOCKING")
            _streams[ordinal] = driver.call("cuStreamCreate", int(flag))
        return _streams[ordinal]


def _free(fate: _Fate) -> None:
    # A finalizer has nobody to report to: after a fork or an error of the device the memory stays.
    with suppress(MxgemmError), driver.on_device(fate.ordinal):
        stream = _own_stream(fate.ordinal)
        if fate.event is None:
            driver.call("cuCtxSynchronize")
        else:
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
        pointer = driver.call("cuMemAllocAsync", max(nbytes, 1), driver.handle("CUstream", stream))
    return Buffer(int(pointer), nbytes, ordinal)


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
