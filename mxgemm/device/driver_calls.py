"""The functions of the driver that a product needs, through ctypes, in the way of ``cuda.bindings``.

Importing ``cuda.bindings.driver`` takes longer than all else of the first product of a process whose kernel
is on disk.  So those few functions are called here, and every other one is asked of the bindings.  Each
gives its status and its outputs in a tuple; handles are plain ints, which the bindings take as well.

Signatures: the CUDA driver API's reference, CUDA 12.0; the names that the library exports have suffixes.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

__all__ = ["CALLS", "Driver", "Status"]

_KINDS: dict[str, Any] = {
    "i": ctypes.c_int, "I": ctypes.c_uint, "B": ctypes.c_ubyte, "L": ctypes.c_uint64, "P": ctypes.c_void_p,
    "s": ctypes.c_char_p,
}  # fmt: skip
# Exported name, and arguments in C's order, outputs with a star, by the letters above.
CALLS: dict[str, tuple[str, str]] = {
    "cuInit": ("cuInit", "I"),
    "cuDeviceGet": ("cuDeviceGet", "*i i"),
    "cuDeviceGetCount": ("cuDeviceGetCount", "*i"),
    "cuDeviceGetAttribute": ("cuDeviceGetAttribute", "*i i i"),
    "cuDevicePrimaryCtxRetain": ("cuDevicePrimaryCtxRetain", "*P i"),
    "cuCtxGetDevice": ("cuCtxGetDevice", "*i"),
    "cuCtxPushCurrent": ("cuCtxPushCurrent_v2", "P"),
    "cuCtxPopCurrent": ("cuCtxPopCurrent_v2", "*P"),
    "cuLibraryGetKernel": ("cuLibraryGetKernel", "*P P s"),
    "cuKernelGetFunction": ("cuKernelGetFunction", "*P P"),
    "cuKernelSetAttribute": ("cuKernelSetAttribute", "i i P i"),
    "cuKernelGetParamInfo": ("cuKernelGetParamInfo", "P L *L *L"),
    "cuStreamCreate": ("cuStreamCreate", "*P I"),
    "cuStreamWaitEvent": ("cuStreamWaitEvent", "P P I"),
    "cuStreamIsCapturing": ("cuStreamIsCapturing", "P *i"),
    "cuStreamBeginCapture": ("cuStreamBeginCapture_v2", "P i"),
    "cuMemAllocAsync": ("cuMemAllocAsync", "*L L P"),
    "cuMemFreeAsync": ("cuMemFreeAsync", "L P"),
    "cuMemsetD8Async": ("cuMemsetD8Async", "L B L P"),
    "cuEventCreate": ("cuEventCreate", "*P I"),
    "cuEventRecord": ("cuEventRecord", "P P"),
    "cuEventDestroy": ("cuEventDestroy_v2", "P"),
}
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_UNNAMED = "CUDA_ERROR_UNKNOWN"


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(_LIBRARY)


def _text(function: str, status: int) -> str | None:
    """What the driver calls or says of a status."""
    found = ctypes.c_char_p()
    refused = getattr(_library(), function)(ctypes.c_int(status), ctypes.byref(found))
    return None if refused or found.value is None else found.value.decode()


class Status(int):
    """An answer of the driver, with the name that the driver has for it."""

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    @property
    def name(self) -> str:
        """For example "CUDA_ERROR_OUT_OF_MEMORY"."""
        return "CUDA_SUCCESS" if self == 0 else _text("cuGetErrorName", self) or f"{_UNNAMED} ({int(self)})"


def _call(function: Any, kinds: list[str]) -> Callable[..., tuple[Any, ...]]:
    """A function of the library as the bindings show it: inputs are given, the outputs come back."""
    function.argtypes = [ctypes.c_void_p if kind[0] == "*" else _KINDS[kind] for kind in kinds]

    def call(*inputs: Any) -> tuple[Any, ...]:
        given = iter(inputs)
        outputs = [_KINDS[kind[1]]() for kind in kinds if kind[0] == "*"]
        places = iter(outputs)
        arguments = [
            ctypes.addressof(next(places)) if kind[0] == "*" else _plain(next(given)) for kind in kinds
        ]
        return Status(function(*arguments)), *(one.value or 0 for one in outputs)

    return call


def _plain(value: Any) -> Any:
    """A handle or an enumerator of the bindings as a number."""
    return value if isinstance(value, int | bytes) else int(value)


class Driver:
    """The driver API as ``cuda.bindings.driver`` shows it.

    Parameters
    ----------
    bindings : callable
        Imports that module, for what is not here.

    Raises
    ------
    OSError
        Without a driver.
    """

    CUresult = Status
    CUstream = CUdeviceptr = staticmethod(int)
    # Of the enumerations, only what goes to the functions above, or goes on as a plain number.
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT=16,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=75,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=76,
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97,
    )
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstream_flags = SimpleNamespace(CU_STREAM_DEFAULT=0, CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)

    def __init__(self, bindings: Callable[[], Any]) -> None:
        self._bindings, self._driver = bindings, _library()

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            return getattr(self._bindings(), name)
        exported, arguments = CALLS[name]
        call = _call(getattr(self._driver, exported), arguments.split())
        setattr(self, name, call)
        return call

    def cuDeviceGetName(self, nbytes: int, device: int) -> tuple[Status, bytes]:
        """The name of a device, zeros after it."""
        text = ctypes.create_string_buffer(nbytes)
        return Status(self._driver.cuDeviceGetName(text, nbytes, device)), text.raw

    def cuGetErrorString(self, status: int) -> tuple[Status, str]:
        """What the driver says of a status."""
        return Status(0), _text("cuGetErrorString", status) or "no description"

    def cuGetProcAddress(self, name: bytes, since: int, flags: int) -> tuple[Status, int, int]:
        """Address of a function as of a version of the API."""
        address, found = ctypes.c_void_p(), ctypes.c_int()
        status = self._driver.cuGetProcAddress_v2(
            name, ctypes.byref(address), since, ctypes.c_uint64(flags), ctypes.byref(found)
        )
        return Status(status), address.value or 0, found.value

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[Status, int]:
        """Set the calling thread's mode; gives the one before."""
        exchanged = ctypes.c_int(mode)
        status = self._driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(exchanged))
        return Status(status), exchanged.value

    def cuLibraryLoadData(self, code: bytes, *_options: object) -> tuple[Status, int]:
        """A library of machine code, without options."""
        library = ctypes.c_void_p()
        status = self._driver.cuLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0)
        return Status(status), library.value or 0
