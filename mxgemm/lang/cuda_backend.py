"""The backend on a GPU: generated CUDA C, compiled and launched through ``mxgemm.device``."""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm import device
from mxgemm.device import driver
from mxgemm.lang.backend import CompileChoices, Memory, Program
from mxgemm.lang.cuda_source import cuda_source

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang import ir

__all__ = ["CudaBackend"]


class CudaBackend:
    """One GPU.

    Parameters
    ----------
    ordinal
        The device's number.
    """

    default_stream = device.LEGACY

    def __init__(self, ordinal: int = 0) -> None:
        self.ordinal = ordinal

    @property
    def name(self) -> str:
        """``cuda:<ordinal>``."""
        return f"cuda:{self.ordinal}"

    def allocate(self, nbytes: int, stream: int) -> Memory:
        """Allocate in the order of ``stream``; freed with the last reference."""
        return device.allocate(nbytes, self.ordinal, stream)

    def host(self, memory: Memory) -> Any:  # noqa: ARG002  # the protocol's signature
        """Device memory is not the host's."""
        return None

    def copy_in(self, memory: Memory, offset: int, source: Any, stream: int) -> None:
        """Copy in the order of ``stream``."""
        device.copy_to_device(memory.pointer + offset, source, self.ordinal, stream)

    def copy_out(self, memory: Memory, offset: int, nbytes: int, stream: int) -> Any:
        """Copy after what ``stream`` holds, and wait."""
        return device.copy_to_host(memory.pointer + offset, nbytes, self.ordinal, stream)

    def program(self, kernel: ir.Kernel, choices: CompileChoices) -> Program:
        """Generate CUDA C; it is compiled when a launch says how much shared memory it needs."""
        source = cuda_source(kernel, choices.launch_bounds)
        options = device.CompileOptions(
            fma=choices.fma, fastmath=choices.fastmath, max_registers=choices.max_registers
        )
        return Program(kernel, (source.text, source.entry, options), source.arguments)

    def launcher(
        self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> Callable[..., None]:
        """A prepared launch."""
        text, entry, options = program.handle
        kernel = device.compiled(
            text, entry, ordinal=self.ordinal, shared_bytes=shared_bytes, options=options
        )
        return device.Launcher(kernel, grid, block)

    def create_stream(self) -> int:
        """A stream ordered with the legacy default stream, as Numba's; it lives as long as the process."""
        with driver.on_device(self.ordinal):
            flags = driver.constant("CUstream_flags", "CU_STREAM_DEFAULT")
            return int(driver.call("cuStreamCreate", int(flags)))

    def stream_handle(self, stream: Any) -> int:
        """The handle of another library's stream."""
        return device.stream_handle(stream)

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream, or for the whole device."""
        if stream is not None:
            device.synchronize(stream, self.ordinal)
            return
        with driver.on_device(self.ordinal):
            driver.call("cuCtxSynchronize")

    def create_event(self) -> Any:
        """A timing event, destroyed with the last reference."""
        with driver.on_device(self.ordinal):
            return _Event(driver.call("cuEventCreate", 0))

    def record(self, event: Any, stream: int) -> None:
        """Record in a stream."""
        with driver.on_device(self.ordinal):
            driver.call("cuEventRecord", event.handle, driver.handle("CUstream", stream))

    def wait(self, event: Any, stream: int | None) -> None:
        """Make a stream or the host wait."""
        with driver.on_device(self.ordinal):
            if stream is None:
                driver.call("cuEventSynchronize", event.handle)
            else:
                driver.call("cuStreamWaitEvent", driver.handle("CUstream", stream), event.handle, 0)

    def is_done(self, event: Any) -> bool:
        """Ask without waiting."""
        try:
            driver.call("cuEventQuery", event.handle)
        except driver.DriverError as error:
            if "CUDA_ERROR_NOT_READY" in str(error):
                return False
            raise
        return True

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds between two recorded events, the later one waited for."""
        self.wait(end, None)
        return float(driver.call("cuEventElapsedTime", start.handle, end.handle))

    def pinned(self, nbytes: int) -> Any:
        """Page-locked host memory as a byte array, freed with its last view."""
        with driver.on_device(self.ordinal):
            pointer = int(driver.call("cuMemHostAlloc", max(nbytes, 1), 0))
        memory = (ctypes.c_uint8 * nbytes).from_address(pointer)
        finalizer = weakref.finalize(memory, driver.call, "cuMemFreeHost", pointer)
        finalizer.atexit = False
        return np.ctypeslib.as_array(memory)


class _Event:
    """A driver event."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        finalizer = weakref.finalize(self, driver.call, "cuEventDestroy", handle)
        finalizer.atexit = False
