"""Device memory where the caller brought none, and copies between host and device."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import Any

import numpy as np

from mxgemm.device import driver, streams
from mxgemm.errors import UnsupportedError

__all__ = ["Buffer", "allocate", "copy_to_device", "copy_to_host"]


class Buffer:
    """Device memory that is freed, in the order of its stream, when nothing refers to it any more.

    Attributes
    ----------
    pointer, nbytes : int
    """

    def __init__(self, pointer: int, nbytes: int, ordinal: int, stream: int) -> None:
        self.pointer, self.nbytes = pointer, nbytes
        finalizer = weakref.finalize(self, _free, pointer, ordinal, stream)
        finalizer.atexit = False  # the driver frees everything when the process ends


def _free(pointer: int, ordinal: int, stream: int) -> None:
    # A finalizer has nobody to report to: after a fork or a destroyed stream the memory stays until the end.
    with suppress(UnsupportedError), driver.on_device(ordinal):
        driver.call(
            "cuMemFreeAsync", driver.handle("CUdeviceptr", pointer), driver.handle("CUstream", stream)
        )


def allocate(nbytes: int, ordinal: int, stream: int) -> Buffer:
    """Allocate device memory in the order of ``stream``, aligned to 256 bytes.

    Raises
    ------
    UnsupportedError
        When the device has too little memory, or while the stream captures a CUDA graph.
    """
    streams.refuse_capture(stream, ordinal, f"{nbytes} bytes would be allocated; pass out= and workspace=")
    with driver.on_device(ordinal):
        pointer = driver.call("cuMemAllocAsync", max(nbytes, 1), driver.handle("CUstream", stream))
    return Buffer(int(pointer), nbytes, ordinal, stream)


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
            driver.call(
                "cuMemcpyDtoHAsync",
                data.ctypes.data,
                driver.handle("CUdeviceptr", pointer),
                nbytes,
                driver.handle("CUstream", stream),
            )
            driver.call("cuStreamSynchronize", driver.handle("CUstream", stream))
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
            driver.call(
                "cuMemcpyHtoDAsync",
                driver.handle("CUdeviceptr", pointer),
                source.ctypes.data,
                source.nbytes,
                driver.handle("CUstream", stream),
            )
            # A pinned source is read later than this call, and the caller may free it at once.
            driver.call("cuStreamSynchronize", driver.handle("CUstream", stream))
