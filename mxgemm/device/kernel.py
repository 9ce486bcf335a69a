"""Compiled kernels: machine code from memory, disk or NVRTC, and kernels loaded on a device."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from mxgemm.device import compiler, disk_cache, driver, properties
from mxgemm.errors import UnsupportedError

__all__ = ["CompiledKernel", "compiled", "cubin", "is_compiled"]

V = TypeVar("V")


class CompiledKernel(NamedTuple):
    """A kernel that a device can launch.

    Attributes
    ----------
    cubin : CompiledCubin
    ordinal : int
        The device that it is prepared for.
    shared_bytes : int
        Dynamic shared memory of a launch, in bytes.
    handle : CUkernel
        The driver's.
    """

    cubin: compiler.CompiledCubin
    ordinal: int
    shared_bytes: int
    handle: Any

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return self.cubin.entry


class _Once(Generic[V]):
    """Values made once a key, whichever of many threads asks first; other keys do not wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._values: dict[Hashable, V] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of ``key``; an exception of ``make`` is raised and the next call tries again."""
        if key in self._values:
            return self._values[key]
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._values:
                self._values[key] = make()
        return self._values[key]


_cubins: _Once[compiler.CompiledCubin] = _Once()
_kernels: _Once[CompiledKernel] = _Once()


def cubin(
    source: str, entry: str, arch: str, options: compiler.CompileOptions = compiler.EXACT
) -> compiler.CompiledCubin:
    """Machine code from this process's memory, else from disk, else from NVRTC; needs no GPU.

    Raises
    ------
    CompilationError
        As :func:`mxgemm.device.compile_cubin`.
    """

    def make() -> compiler.CompiledCubin:
        at = disk_cache.location()
        if at is None:
            return compiler.compile_cubin(source, entry, arch, options)
        found = disk_cache.load(at, disk_cache.key(source, entry, arch, options), entry, arch)
        if found is None:
            found = compiler.compile_cubin(source, entry, arch, options)
            disk_cache.compiled_now(at)
            disk_cache.store(at, disk_cache.key(source, entry, arch, options), found)
        return found

    return _cubins.get((source, entry, arch, options), make)


def compiled(
    source: str,
    entry: str,
    *,
    ordinal: int = 0,
    arch: str | None = None,
    shared_bytes: int = 0,
    options: compiler.CompileOptions = compiler.EXACT,
) -> CompiledKernel:
    """A kernel loaded on a device, compiled when it must be; once loaded, a dictionary look-up.

    Parameters
    ----------
    source, entry, options
        As for :func:`mxgemm.device.compile_cubin`.
    ordinal : int
        The device.
    arch : str, optional
        As NVRTC takes it; the device's own by default.
    shared_bytes : int
        Dynamic shared memory of a launch, in bytes.

    Raises
    ------
    CompilationError
        With the compiler's log.
    UnsupportedError
        Without that device, for more shared memory than it has, and after a fork.
    """
    driver.check_process()
    key = (source, entry, ordinal, arch, shared_bytes, options)
    return _kernels.get(
        key, lambda: _load(source, entry, options, ordinal=ordinal, arch=arch, shared_bytes=shared_bytes)
    )


def is_compiled(
    source: str,
    entry: str,
    *,
    ordinal: int = 0,
    arch: str | None = None,
    shared_bytes: int = 0,
    options: compiler.CompileOptions = compiler.EXACT,
) -> bool:
    """Whether :func:`compiled` with the same arguments would neither compile nor load."""
    return (source, entry, ordinal, arch, shared_bytes, options) in _kernels


def _load(
    source: str,
    entry: str,
    options: compiler.CompileOptions,
    *,
    ordinal: int,
    arch: str | None,
    shared_bytes: int,
) -> CompiledKernel:
    offered = properties.capabilities(ordinal)
    code = cubin(source, entry, arch or properties.compile_arch(offered.arch), options)
    needed, limit = shared_bytes + code.resources.shared_bytes, offered.shared_memory_per_block
    if needed > limit:
        raise UnsupportedError(
            f"{entry} needs {needed} bytes of shared memory a block; {offered.name} offers {limit}"
        )
    with driver.on_device(ordinal):
        library = driver.call("cuLibraryLoadData", code.code, [], [], 0, [], [], 0)  # for the process's life
        handle = driver.call("cuLibraryGetKernel", library, entry.encode())
        _prepare(handle, ordinal, shared_bytes)
    return CompiledKernel(code, ordinal, shared_bytes, handle)


def _prepare(handle: Any, ordinal: int, shared_bytes: int) -> None:
    """Load the code now, not at the first launch (which may be captured), and allow its shared memory."""
    driver.call("cuKernelGetFunction", handle)
    name = "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
    attribute = driver.constant("CUfunction_attribute", name)
    driver.call("cuKernelSetAttribute", attribute, shared_bytes, handle, driver.call("cuDeviceGet", ordinal))
