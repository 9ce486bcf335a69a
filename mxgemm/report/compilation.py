"""Compiling many kernels at once, in processes, with or without a GPU."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from mxgemm import device
from mxgemm.kernels import KernelInstance, PackInstance

__all__ = ["Compiled", "compile_all", "fill_cache", "pool"]


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiled kernel.

    Attributes
    ----------
    kernel : KernelInstance or PackInstance
    resources : Resources
        As ``ptxas -v`` prints them.
    shared_bytes : int
        Shared memory of a block, static and dynamic.
    remarks : tuple of str
        Lines of the log that begin with "info : (C7": ptxas gave up an optimisation of wgmma.
    seconds : float
    """

    kernel: KernelInstance | PackInstance
    resources: device.Resources
    shared_bytes: int
    remarks: tuple[str, ...]
    seconds: float

    @property
    def spilled_bytes(self) -> int:
        """Bytes a thread that do not fit in registers, stores and loads."""
        return self.resources.spill_stores + self.resources.spill_loads


def pool(processes: int | None = None) -> ProcessPoolExecutor:
    """Worker processes that start afresh: CUDA does not survive a fork.

    Parameters
    ----------
    processes : int, optional
        As many as there are processors to use, by default.
    """
    workers = processes or len(os.sched_getaffinity(0))
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _compile(source: str, entry: str, arch: str) -> tuple[device.CompiledCubin, float]:
    start = time.perf_counter()
    cubin = device.compile_cubin(source, entry, arch)
    return cubin, time.perf_counter() - start


def compile_all(
    kernels: Iterable[KernelInstance | PackInstance], arch: str, *, processes: int | None = None
) -> Iterator[Compiled]:
    """Compile every kernel anew; yields them in their order, as they are ready.

    Parameters
    ----------
    kernels : iterable of KernelInstance or PackInstance
    arch : str
        As NVRTC takes it, for example "sm_90a".
    processes : int, optional
        As many as there are processors to use, by default.

    Raises
    ------
    CompilationError
        As :func:`mxgemm.device.compile_cubin`.
    UnsupportedError
        Without cuda-core.
    """
    device.nvrtc_version()  # what is missing is said here and not by every worker
    with pool(processes) as workers:
        futures = [
            (kernel, workers.submit(_compile, kernel.source(), kernel.entry, arch)) for kernel in kernels
        ]
        try:
            for kernel, future in futures:
                cubin, seconds = future.result()
                remarks = tuple(line.strip() for line in cubin.log.splitlines() if "(C7" in line)
                shared = kernel.shared_bytes + cubin.resources.shared_bytes
                yield Compiled(kernel, cubin.resources, shared, remarks, seconds)
        finally:
            workers.shutdown(cancel_futures=True)


def fill_cache(source: str, entry: str, arch: str) -> float:
    """Compile one kernel into the disk cache unless it is there; the seconds that it took.

    For worker processes: afterwards another process loads it in milliseconds.
    """
    start = time.perf_counter()
    device.cubin(source, entry, arch)
    return time.perf_counter() - start
