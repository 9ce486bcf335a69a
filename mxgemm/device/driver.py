"""The way to CUDA: imported at first use, refused after a fork, errors with a next step."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from mxgemm.device import driver_calls
from mxgemm.errors import MxgemmError, UnsupportedError

__all__ = [
    "DriverError",
    "Process",
    "available",
    "bindings",
    "call",
    "call_if_known",
    "check_process",
    "constant",
    "core",
    "count",
    "foreign",
    "handle",
    "is_current",
    "on_device",
    "ordinal_of",
    "procedure",
    "status_name",
]

_NO_PACKAGE = (
    "GPUs need the packages cuda-core and CuPy, which are not installed; install mxgemm[cu13] "
    "(mxgemm[cu12] for a CUDA 12 driver), or use device='cpu'"
)
_NO_DRIVER = "no CUDA device can be used here ({why}); use device='cpu' for the exact model on the CPU"
_FORKED = (
    "this process was forked after its parent used CUDA, which does not survive a fork; start workers "
    'with the spawn method: multiprocessing.get_context("spawn")'
)


_HINTS = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free device memory, or make the product smaller",
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": "another stream is capturing a CUDA graph: pass it as stream=",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "an earlier kernel of this process read or wrote outside its arrays",
}
_LACKING = ("CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_NOT_SUPPORTED")


class DriverError(MxgemmError, RuntimeError):
    """The CUDA driver answered with an error; the message has its name."""

    def __init__(self, what: str, status: str) -> None:
        hint = next((f"; {text}" for name, text in _HINTS.items() if name in status), "")
        super().__init__(f"the CUDA driver refused {what}: {status}{hint}")


class Process:
    """Whether this process used CUDA, and whether it is a fork of one that did: see :func:`check_process`."""

    used = False
    forked = False


def _after_fork_in_child() -> None:
    Process.forked = Process.used


os.register_at_fork(after_in_child=_after_fork_in_child)


def check_process() -> None:
    """Refuse a process that was forked from one that used CUDA.

    Raises
    ------
    UnsupportedError
        Naming the spawn start method.
    """
    if Process.forked:
        raise UnsupportedError(_FORKED)


_importing = threading.RLock()


@lru_cache(maxsize=1)
def core() -> Any:
    """The module ``cuda.core``; enough to compile, without a driver or a device.

    Raises
    ------
    UnsupportedError
        When it is not installed.
    """
    return _module("cuda.core")


def bindings(name: str) -> Any:
    """A module of ``cuda.bindings``, which loads in a fraction of the time of ``cuda.core``.

    Raises
    ------
    UnsupportedError
        When it is not installed.
    """
    return _module(f"cuda.bindings.{name}")


def _module(name: str) -> Any:
    """A module of the ``cuda`` packages.

    They import each other, so that two threads that import different ones first would wait for each other;
    Python then hands out half a module.  One thread imports at a time.
    """
    try:
        with _importing:
            return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(_NO_PACKAGE) from error


def _has_bindings() -> bool:
    """Whether ``cuda.bindings`` is installed, without importing it."""
    try:
        return importlib.util.find_spec("cuda.bindings") is not None
    except ModuleNotFoundError:  # of the package cuda, or a module of the program's own has its name
        return False


@lru_cache(maxsize=1)
def _driver() -> Any:
    """The driver API, initialised.

    Raises
    ------
    UnsupportedError
        Without the package, a driver or a device.
    """
    if not _has_bindings():
        raise UnsupportedError(_NO_PACKAGE)
    try:
        driver = driver_calls.Driver(lambda: bindings("driver"))
        (status,) = driver.cuInit(0)
    except OSError as error:
        raise UnsupportedError(_NO_DRIVER.format(why="no CUDA driver is installed")) from error
    if status.name == "CUDA_ERROR_NOT_INITIALIZED":
        raise UnsupportedError(_FORKED)
    if status.value != 0:
        raise UnsupportedError(_NO_DRIVER.format(why=status.name))
    Process.used = True
    return driver


def call(function: str, *arguments: Any) -> Any:
    """Call a function of the CUDA driver API by name; its outputs, a single one unpacked.

    Raises
    ------
    DriverError
        When the driver answers with an error.
    UnsupportedError
        Without a usable device, and after a fork.
    """
    check_process()
    return _outputs(function, *getattr(_driver(), function)(*arguments))


def call_if_known(function: str, *arguments: Any) -> Any:
    """As :func:`call`; None where bindings, driver or device lack the function."""
    check_process()
    driver = _driver()
    try:
        status, *results = getattr(driver, function)(*arguments)
    except (AttributeError, RuntimeError):  # of bindings without the name, and of a driver without it
        return None
    return None if status.name in _LACKING else _outputs(function, status, *results)


def _outputs(function: str, status: Any, *results: Any) -> Any:
    if status.value != 0:
        _, text = _driver().cuGetErrorString(status)
        detail = text.decode() if isinstance(text, bytes) else str(text)
        raise DriverError(function, f"{status.name} ({detail})")
    return results[0] if len(results) == 1 else tuple(results)


def procedure(name: str, since: int) -> int:
    """Address of a function of the driver API, for calls on memory of ours; ``since`` as in 12000."""
    address, _ = call("cuGetProcAddress", name.encode(), since, 0)
    return int(address)


def foreign(name: str, since: int, *kinds: Any) -> Callable[..., int]:
    """A function of the driver API through ctypes, at a fraction of its wrapper's cost; returns the status.

    It lets other threads run meanwhile: a launch that waits for room in its stream may wait for a host
    callback that needs the interpreter.  Without ``kinds`` it takes arguments that ctypes converted before.
    """
    check_process()
    return _foreign(_driver(), name, since, kinds)


@lru_cache(maxsize=64)
def _foreign(_driver: Any, name: str, since: int, kinds: tuple[Any, ...]) -> Callable[..., int]:
    return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(procedure(name, since))


def status_name(status: int) -> str:
    """The driver's name for a status, for example "CUDA_ERROR_OUT_OF_MEMORY"."""
    return str(_driver().CUresult(status).name)


def constant(enumeration: str, name: str) -> Any:
    """A value of one of the driver API's enumerations."""
    return getattr(getattr(_driver(), enumeration), name)


def handle(kind: str, value: int) -> Any:
    """A driver handle object (``CUstream``, ``CUdeviceptr``, …) of an address."""
    return getattr(_driver(), kind)(value)


def available() -> bool:
    """Whether this process can use a CUDA device."""
    try:
        return count() > 0
    except MxgemmError:
        return False


def count() -> int:
    """Number of CUDA devices.

    Raises
    ------
    UnsupportedError
        Without cuda-core or a driver, and after a fork.
    """
    check_process()
    return _count(_driver())


@lru_cache(maxsize=4)
def _count(_driver: Any) -> int:
    return int(call("cuDeviceGetCount"))


_primary_lock = threading.RLock()  # a finalizer may run while its own thread is inside
_primary: dict[int, Any] = {}


def _primary_context(ordinal: int) -> Any:
    with _primary_lock:
        if ordinal not in _primary:
            if not 0 <= ordinal < count():
                raise UnsupportedError(f"there is no CUDA device {ordinal}; this machine has {count()}")
            _primary[ordinal] = call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal))
        return _primary[ordinal]


def is_current(ordinal: int) -> bool:
    """Whether this thread's current context is one of that device."""
    check_process()
    status, found = _driver().cuCtxGetDevice()
    return int(status) == 0 and int(found) == ordinal


@contextmanager
def on_device(ordinal: int) -> Iterator[None]:
    """Make a device current for this thread, and give back what was current before."""
    if is_current(ordinal):
        yield
        return
    call("cuCtxPushCurrent", _primary_context(ordinal))
    try:
        yield
    finally:
        call("cuCtxPopCurrent")


def ordinal_of(pointer: int) -> int:
    """The device that owns an address of device memory."""
    attribute = constant("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL")
    return int(call("cuPointerGetAttribute", attribute, pointer))
