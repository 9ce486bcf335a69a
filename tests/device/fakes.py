"""A driver that records what is asked of it, so that host logic is tested without a GPU."""

from __future__ import annotations

import ctypes
import struct
from enum import IntEnum
from itertools import accumulate
from types import SimpleNamespace
from typing import Any


class Status(IntEnum):
    """Answers of the driver."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_NOT_SUPPORTED = 801


_FIXED = {
    "cuDeviceGetName": b"Fake H200\0\0",
    "cuEventCreate": 77,
    "cuStreamCreate": 55,
    "cuThreadExchangeStreamCaptureMode": "global",
    "cuGetErrorString": b"invalid argument",
    "cuMemAllocAsync": 0x7000,
    "cuPointerGetAttribute": 1,
    "cuLibraryLoadData": "library",
}


_TAKES_ADDRESSES = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
_ALLOCATES = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
_ASKS_A_STREAM = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2)


FIRST_MAP = 0x30  # where sm_90 has a map that comes first, as its bank of parameters begins at 0x210


def handle_of(parameters: int, maps: int = 0) -> int:
    """The handle of a fake kernel, which tells its number of parameters and of the maps among them."""
    return maps << 8 | parameters


def places_of(handle: int) -> list[tuple[int, int]]:
    """Offset and bytes of each parameter of a fake kernel: maps and then words."""
    maps, count = divmod(handle, 1 << 8)
    sizes = [128] * maps + [8] * (count - maps)
    return list(zip(accumulate(sizes, initial=FIRST_MAP if maps else 0), sizes, strict=False))


def _at_addresses(addresses: int, count: int) -> list[int]:
    """Where parameters lie whose addresses are listed."""
    return [one or 0 for one in (ctypes.c_void_p * count).from_address(addresses)] if count else []


def _in_buffer(extra: int, places: list[tuple[int, int]]) -> list[int]:
    """Where parameters lie in one buffer, which ends with the last."""
    pointer, at, size, at_nbytes, end = (ctypes.c_void_p * 5).from_address(extra)
    assert (pointer, size, end) == (1, 2, None)  # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
    nbytes = ctypes.c_size_t.from_address(at_nbytes or 0).value
    assert nbytes == max((offset + size for offset, size in places), default=0)
    return [(at or 0) + offset for offset, _ in places]


class FakeDriver:
    """The functions of the driver API that mxgemm calls; two devices, contexts numbered from 100."""

    CUstream = CUdeviceptr = CUfunction = staticmethod(int)
    CUresult = Status
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUdevice_attribute = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="multiprocessors",
        CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN="shared",
    )

    def __init__(self, devices: int = 2) -> None:
        self.devices = devices
        self.contexts: list[int] = []
        self.capturing: set[int] = set()
        self.refuses: set[str] = set()
        self.needs_context = False
        self.launched: list[tuple[int, ...]] = []
        self.attempts = 0
        self.buffers: list[bool] = []  # of each launch, whether its parameters came in one
        self.told: list[list[tuple[int, ...]]] = []
        self._called: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.attributes = {"major": 9, "minor": 0, "multiprocessors": 132, "shared": 232448}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.refuses:
                return (Status.CUDA_ERROR_INVALID_VALUE, None)
            if name == "cuCtxGetDevice" and not self.contexts:
                return (Status.CUDA_ERROR_INVALID_CONTEXT, None)
            if name == "cuKernelGetParamInfo" and arguments[1] >= len(places_of(arguments[0])):
                return (Status.CUDA_ERROR_INVALID_VALUE, None, None)
            return (Status.CUDA_SUCCESS, *self.answer(name, arguments))

        return function

    def procedure(self, name: str) -> int:
        """Address of a function that C calls."""
        kind, function = {
            "cuLaunchKernelEx": (_TAKES_ADDRESSES, self.launch),
            "cuStreamIsCapturing": (_ASKS_A_STREAM, self.is_capturing),
            "cuMemAllocAsync": (_ALLOCATES, self.allocate),
            "cuMemFreeAsync": (_ASKS_A_STREAM, self.free),
        }[name]
        called = self._called.setdefault(name, kind(function))
        return ctypes.cast(called, ctypes.c_void_p).value or 0

    def launch(self, configuration: int, function: int, addresses: int, extra: int) -> int:
        """Record (dimensions…, stream, current context, parameters…), read where the driver reads them."""
        current = self.contexts[-1] if self.contexts else 0
        self.attempts += 1
        if "cuLaunchKernelEx" in self.refuses:
            return Status.CUDA_ERROR_INVALID_VALUE
        if self.needs_context and not current:
            return Status.CUDA_ERROR_INVALID_CONTEXT
        places = places_of(function or 0)
        where = _in_buffer(extra, places) if extra else _at_addresses(addresses, len(places))
        self.buffers.append(bool(extra))
        values = [ctypes.c_int64.from_address(address).value for address in where]
        *dimensions, stream, attributes, told = struct.unpack(
            "=7I4xQQI4x", ctypes.string_at(configuration, 56)
        )
        self.told.append(
            [struct.unpack("=I4x3I", ctypes.string_at(attributes + 72 * i, 20)) for i in range(told)]
        )
        self.launched.append((*dimensions, stream, current, *values))
        return Status.CUDA_SUCCESS

    def is_capturing(self, stream: int, found: int) -> int:
        """Write 1 where a stream captures, 0 elsewhere."""
        if "cuStreamIsCapturing" in self.refuses:
            return Status.CUDA_ERROR_INVALID_CONTEXT
        ctypes.c_int.from_address(found).value = stream in self.capturing
        return Status.CUDA_SUCCESS

    def allocate(self, found: int, nbytes: int, stream: int) -> int:
        """Write the address that every allocation has."""
        self.calls.append(("cuMemAllocAsync", nbytes, stream))
        if "cuMemAllocAsync" in self.refuses:
            return Status.CUDA_ERROR_INVALID_VALUE
        ctypes.c_uint64.from_address(found).value = _FIXED["cuMemAllocAsync"]
        return Status.CUDA_SUCCESS

    def free(self, pointer: int, stream: int) -> int:
        """Record."""
        self.calls.append(("cuMemFreeAsync", pointer, stream))
        return Status.CUDA_ERROR_INVALID_VALUE if "cuMemFreeAsync" in self.refuses else Status.CUDA_SUCCESS

    def answer(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Outputs of one function, contexts kept as a stack."""
        current = self.contexts[-1] if self.contexts else 0
        match name, arguments:
            case "cuCtxPushCurrent", (context,):
                self.contexts.append(context)
            case "cuCtxPopCurrent", ():
                return (self.contexts.pop(),)
            case "cuCtxGetDevice", ():
                return (current - 100,)
            case "cuDevicePrimaryCtxRetain", (ordinal,):
                return (100 + ordinal,)
            case "cuDeviceGet", (ordinal,):
                return (ordinal,)
            case "cuStreamIsCapturing", (stream,):
                return (int(stream in self.capturing),)
            case "cuDeviceGetAttribute", (attribute, _):
                return (self.attributes[attribute],)
            case "cuLibraryGetKernel", (library, entry):
                return (f"{library}/{entry.decode()}",)
            case "cuGetProcAddress", (asked, _, _):
                return (self.procedure(asked.decode()), 0)
            case "cuKernelGetParamInfo", (kernel, index):
                return places_of(kernel)[index]
            case "cuDeviceGetCount", ():
                return (self.devices,)
        return (_FIXED[name],) if name in _FIXED else ()

    def names(self) -> list[str]:
        """Names of the functions called so far."""
        return [call[0] for call in self.calls]
