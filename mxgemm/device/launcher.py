"""Launches through cuda.core; a :class:`Launcher` holds everything that does not change from call to call."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mxgemm.device import driver, streams

if TYPE_CHECKING:
    from mxgemm.device.kernel import CompiledKernel

__all__ = ["Launcher", "launch"]

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
        if self._several:
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


def launch(
    kernel: CompiledKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    stream: int,
    arguments: tuple[Any, ...],
    *,
    cluster: tuple[int, ...] | None = None,
) -> None:
    """Queue one launch; the configuration is kept for the next one like it. As :class:`Launcher`."""
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
