"""Launches: prepared once, then queued in a few microseconds.

:class:`Launcher` takes any arguments through ``cuda.core.launch``, whose cost grows with their number (5.2
microseconds with 12 arguments, 6.6 with 32, measured on an H200's host).  :class:`BoundLaunch` is for
parameters of 8 bytes of which only the leading pointers change, and costs the same however many there are;
tensor maps may lead them, which follow the pointers.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from mxgemm.device import driver, streams
from mxgemm.device.tensor_map import EncodedMap, TensorMap

if TYPE_CHECKING:
    from mxgemm.device.kernel import CompiledKernel

__all__ = ["BoundLaunch", "Launcher", "launch"]

_LAUNCHERS = 1024  # launch configurations kept for one-off launches


class Launcher:
    """A kernel with its launch configuration; calling it queues one launch and does nothing else.

    Parameters
    ----------
    kernel : CompiledKernel
    grid, block : tuple of 1 to 3 ints
        Blocks (with ``cluster``: clusters) and threads.
    cluster : tuple of 1 to 3 ints, optional
        Blocks of a thread-block cluster.
    programmatic : bool
        Let the launch begin while its predecessor in the stream ends (the kernel waits for what it reads).
    """

    __slots__ = ("_config", "_handle", "_launch", "_several", "_wrapper", "kernel")

    def __init__(
        self,
        kernel: CompiledKernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        *,
        cluster: tuple[int, ...] | None = None,
        programmatic: bool = False,
    ) -> None:
        core = driver.core()
        self.kernel = kernel
        self._handle, self._launch, self._wrapper = kernel.handle, core.launch, streams.wrapper
        self._several = driver.count() > 1
        self._config = core.LaunchConfig(
            grid=grid,
            block=block,
            cluster=cluster,
            shmem_size=kernel.shared_bytes,
            programmatic_stream_serialization=programmatic,
        )

    def __call__(self, stream: int, *arguments: Any) -> None:
        """Queue one launch; allocates nothing on the device, compiles nothing and waits for nothing.

        Parameters
        ----------
        stream : int
            A handle.
        *arguments
            Python ints are 8 bytes wide (pointers, ``long long``), floats are ``double``; other widths
            are NumPy or ctypes scalars.

        Raises
        ------
        UnsupportedError
            After a fork.
        """
        driver.check_process()
        if self._several and not driver.is_current(self.kernel.ordinal):
            self._on_device(stream, arguments)
            return
        try:
            self._launch(self._wrapper(stream), self._config, self._handle, *arguments)
        except Exception as error:
            # With one device, only a thread that never used CUDA lacks a context; nothing was queued.
            if "CUDA_ERROR_INVALID_CONTEXT" not in str(error):
                raise
            self._on_device(stream, arguments)

    def _on_device(self, stream: int, arguments: tuple[Any, ...]) -> None:
        with driver.on_device(self.kernel.ordinal):
            self._launch(self._wrapper(stream), self._config, self._handle, *arguments)


class _Frame:
    """Storage for the parameters of one launch, and the addresses that the driver reads them from."""

    __slots__ = ("_addresses", "address", "maps", "values")

    def __init__(self, parameters: bytes, maps: tuple[tuple[int, TensorMap], ...]) -> None:
        count = len(parameters) // 8
        self.values = (ctypes.c_int64 * count).from_buffer_copy(parameters)
        self.maps = [(position, EncodedMap(spec)) for position, spec in maps]
        first = ctypes.addressof(self.values)
        places = [*(made.address for _, made in self.maps), *range(first, first + 8 * count, 8)]
        self._addresses = (ctypes.c_void_p * len(places))(*places)
        self.address = ctypes.addressof(self._addresses)


class BoundLaunch:
    """A kernel, its launch configuration and its constant arguments; a call gives the pointers.

    Parameters
    ----------
    kernel : CompiledKernel
        Its parameters: the tensor maps, then values of 8 bytes, first ``pointers`` addresses.
    grid, block : tuple of 1 to 3 ints
    pointers : int
        Number of leading addresses.
    constants : tuple of int or float
        ``long long`` and ``double`` parameters.
    maps : tuple of (int, TensorMap)
        Each with the position among the pointers of the address that it starts at.
    """

    __slots__ = ("_frames", "_launch", "_maps", "_parameters", "_pointers", "_several", "_success", "kernel")

    def __init__(  # noqa: PLR0917  # in the driver's order
        self,
        kernel: CompiledKernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        pointers: int,
        constants: tuple[int | float, ...],
        maps: tuple[tuple[int, TensorMap], ...] = (),
    ) -> None:
        self.kernel, self._pointers, self._maps = kernel, pointers, maps
        handle = driver.handle("CUfunction", int(kernel.handle.handle))
        dimensions = (*grid, *(1,) * (3 - len(grid)), *block, *(1,) * (3 - len(block)))
        self._launch = partial(driver.function("cuLaunchKernel"), handle, *dimensions, kernel.shared_bytes)
        self._success = driver.constant("CUresult", "CUDA_SUCCESS")
        self._several = driver.count() > 1
        codes = "".join("d" if isinstance(value, float) else "q" for value in constants)
        self._parameters = struct.pack(f"={pointers}q{codes}", *(0,) * pointers, *constants)
        self._frames: list[_Frame] = []  # those that no thread is using; list.pop and append are atomic

    def __call__(self, stream: int, *pointers: int) -> None:
        """Queue one launch; allocates nothing on the device, compiles nothing and waits for nothing.

        Parameters
        ----------
        stream : int
            A handle.
        *pointers : int

        Raises
        ------
        DriverError
            When the driver refuses the launch.
        UnsupportedError
            After a fork.
        """
        driver.check_process()
        if self._several and not driver.is_current(self.kernel.ordinal):
            with driver.on_device(self.kernel.ordinal):
                self(stream, *pointers)
            return
        frames = self._frames
        try:
            frame = frames.pop()
        except IndexError:
            frame = _Frame(self._parameters, self._maps)
        frame.values[: self._pointers] = pointers  # type: ignore[call-overload]  # ctypes takes any sequence
        for position, made in frame.maps:
            if made.target != pointers[position]:
                made.aim(pointers[position])
        (status,) = self._launch(streams.raw(stream), frame.address, 0)
        frames.append(frame)
        if status is not self._success:
            self._refused(status, stream, pointers)

    def _refused(self, status: Any, stream: int, pointers: tuple[int, ...]) -> None:
        # With one device, only a thread that never used CUDA lacks a context; nothing was queued.
        if status.name != "CUDA_ERROR_INVALID_CONTEXT" or driver.is_current(self.kernel.ordinal):
            raise driver.DriverError(f"to launch {self.kernel.entry} as {self._launch.args[1:]}", status.name)
        with driver.on_device(self.kernel.ordinal):
            self(stream, *pointers)


def launch(
    kernel: CompiledKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    stream: int,
    arguments: tuple[Any, ...],
    *,
    cluster: tuple[int, ...] | None = None,
    maps: tuple[tuple[int, TensorMap], ...] = (),
    pointers: int = 0,
) -> None:
    """Queue one launch; the configuration is kept for the next one like it.

    As :class:`Launcher`, or, with ``maps``, as :class:`BoundLaunch` with ``pointers`` leading addresses.
    """
    if maps:
        bound = _bound_launch(_Identity(kernel), grid, block, pointers, arguments[pointers:], maps)
        bound(stream, *arguments[:pointers])
    else:
        _launcher(_Identity(kernel), grid, block, cluster)(stream, *arguments)


class _Identity:
    """A kernel as a cache key by identity, which costs no hashing of its source."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel

    def __hash__(self) -> int:
        return id(self.kernel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.kernel is self.kernel


@lru_cache(maxsize=_LAUNCHERS)
def _launcher(
    kernel: _Identity, grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, ...] | None
) -> Launcher:
    return Launcher(kernel.kernel, grid, block, cluster=cluster)


@lru_cache(maxsize=_LAUNCHERS)
def _bound_launch(  # noqa: PLR0917  # a key of the cache, in BoundLaunch's order
    kernel: _Identity,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    pointers: int,
    constants: tuple[int | float, ...],
    maps: tuple[tuple[int, TensorMap], ...],
) -> BoundLaunch:
    return BoundLaunch(kernel.kernel, grid, block, pointers, constants, maps)
