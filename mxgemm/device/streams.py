"""Streams of every library as handles, order between streams, capture."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any, SupportsInt

from mxgemm.device import driver
from mxgemm.errors import UnsupportedError

__all__ = [
    "LEGACY",
    "PER_THREAD",
    "is_capturing",
    "is_single_device",
    "knows_its_device",
    "order_after",
    "refuse_capture",
    "stream_handle",
    "synchronize",
]

process = driver.Process  # read where a call of check_process would cost too much
LEGACY, PER_THREAD = 1, 2  # the driver's fixed handles: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD

# CuPy, torch and Numba name the handle differently; the protocol comes first where an object has it.
_ATTRIBUTES = ("cuda_stream", "ptr", "handle")


def stream_handle(stream: Any) -> int:
    """Handle of a stream: an int, or a CuPy, torch, Numba or cuda.core stream, or any ``__cuda_stream__``.

    Returns
    -------
    int
        The address of the ``CUstream``; 0, which also means the legacy default stream, becomes 1.

    Raises
    ------
    UnsupportedError
        For anything else.
    """
    found = _handle_of(stream)
    if found is None or not 0 <= found < 1 << 64:
        raise UnsupportedError(
            f"stream={stream!r} is no CUDA stream; supported are CuPy, torch, Numba and cuda.core streams, "
            "objects with __cuda_stream__, and the handle as an int"
        )
    return found or LEGACY


def _handle_of(stream: Any) -> int | None:
    if isinstance(stream, bool):
        return None
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        _version, found = protocol() if callable(protocol) else protocol
        return int(found)
    for attribute in _ATTRIBUTES:
        found = getattr(stream, attribute, None)
        if found is not None:
            return _as_int(getattr(found, "value", found))
    return None


def _as_int(value: object) -> int | None:
    # ctypes reads a null handle as None, which is the legacy default stream.
    if value is None:
        return LEGACY
    return int(value) if isinstance(value, SupportsInt) else None


def knows_its_device(stream: int) -> bool:
    """Whether the driver needs no current context to tell a stream's device: the fixed ones are of each."""
    return stream > PER_THREAD or is_single_device()


@lru_cache(maxsize=1)
def is_single_device() -> bool:
    """Whether there is but one device, asked of the driver once."""
    return driver.count() == 1


@lru_cache(maxsize=1)
def _question() -> Callable[..., int]:
    """The driver's cuStreamIsCapturing, kept because finding it takes longer than its answer."""
    return driver.foreign("cuStreamIsCapturing", 10000, ctypes.c_void_p, ctypes.c_void_p)


def is_capturing(stream: int, ordinal: int) -> bool:
    """Whether work queued on ``stream`` becomes part of a CUDA graph instead of running."""
    if process.forked:
        driver.check_process()
    if stream > PER_THREAD or is_single_device():
        found = ctypes.c_int()
        if _question()(stream, ctypes.addressof(found)) == 0:
            return found.value != 0
    with driver.on_device(ordinal):
        status = driver.call("cuStreamIsCapturing", driver.handle("CUstream", stream))
    return int(status) != 0


def refuse_capture(stream: int, ordinal: int, what: str) -> None:
    """Raise when ``stream`` is capturing; ``what`` says what cannot be captured and what to do instead.

    Raises
    ------
    UnsupportedError
        While the stream captures.
    """
    if is_capturing(stream, ordinal):
        raise UnsupportedError(f"stream {stream:#x} is capturing a CUDA graph and {what}")


def no_timing() -> int:
    """The driver's flags of an event that only orders."""
    return int(driver.constant("CUevent_flags", "CU_EVENT_DISABLE_TIMING"))


def order_after(stream: int, producer: int, ordinal: int) -> None:
    """Make ``stream`` wait for what is queued on ``producer`` now; nothing when they are the same.

    Raises
    ------
    UnsupportedError
        When exactly one of the two is capturing a CUDA graph: the order cannot be part of it.
    """
    if stream == producer:
        return
    if is_capturing(stream, ordinal) != is_capturing(producer, ordinal):
        raise UnsupportedError(
            f"an array is ready on stream {producer:#x} and the product runs on stream {stream:#x}, of which "
            "one is capturing a CUDA graph; make the array on the capturing stream"
        )
    with driver.on_device(ordinal):
        event = driver.call("cuEventCreate", no_timing())
        try:
            driver.call("cuEventRecord", event, driver.handle("CUstream", producer))
            driver.call("cuStreamWaitEvent", driver.handle("CUstream", stream), event, 0)
        finally:
            driver.call("cuEventDestroy", event)


def synchronize(stream: int, ordinal: int) -> None:
    """Wait on the host for everything queued on ``stream``."""
    refuse_capture(stream, ordinal, "cannot be waited for; end the capture first")
    with driver.on_device(ordinal):
        driver.call("cuStreamSynchronize", driver.handle("CUstream", stream))
