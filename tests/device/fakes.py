"""A driver and a cuda.core that record what is asked of them, so that host logic is tested without a GPU."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any


class Status(IntEnum):
    """Answers of the driver."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_INVALID_CONTEXT = 201


_FIXED = {
    "cuDeviceGetName": b"Fake H200\0\0",
    "cuEventCreate": 77,
    "cuStreamCreate": 55,
    "cuThreadExchangeStreamCaptureMode": "global",
    "cuGetErrorString": b"invalid argument",
    "cuMemAllocAsync": 0x7000,
    "cuPointerGetAttribute": 1,
}


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
            return (Status.CUDA_SUCCESS, *self.answer(name, arguments))

        return function

    def cuLaunchKernel(self, *arguments: int) -> tuple[Status]:
        """Record (dimensions…, stream, current context, parameters…), read where the driver reads them."""
        function, *dimensions, stream, addresses, _extra = arguments
        current = self.contexts[-1] if self.contexts else 0
        if "cuLaunchKernel" in self.refuses:
            return (Status.CUDA_ERROR_INVALID_VALUE,)
        if self.needs_context and not current:
            return (Status.CUDA_ERROR_INVALID_CONTEXT,)
        count = function  # the fake kernel's handle is its number of parameters
        where = (ctypes.c_void_p * count).from_address(addresses)
        values = [ctypes.c_int64.from_address(address).value for address in where]
        self.launched.append((*dimensions, stream, current, *values))
        return (Status.CUDA_SUCCESS,)

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
            case "cuDeviceGetCount", ():
                return (self.devices,)
        return (_FIXED[name],) if name in _FIXED else ()

    def names(self) -> list[str]:
        """Names of the functions called so far."""
        return [call[0] for call in self.calls]


class FakeCore:
    """``cuda.core`` with launches recorded as (stream, configuration, kernel, arguments, current context)."""

    LEGACY_DEFAULT_STREAM = "legacy"
    PER_THREAD_DEFAULT_STREAM = "per-thread"

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.launches: list[tuple[Any, ...]] = []
        self.configurations = 0
        self.wrapped: list[int] = []
        self.needs_context = False
        core = self

        class Stream:
            @staticmethod
            def from_handle(handle: int) -> str:
                core.wrapped.append(handle)
                return f"stream {handle}"

        class ObjectCode:
            @staticmethod
            def from_cubin(_code: bytes, *, name: str) -> Any:
                return SimpleNamespace(get_kernel=lambda entry: SimpleNamespace(handle=f"{name}/{entry}"))

        self.Stream, self.ObjectCode = Stream, ObjectCode

    def LaunchConfig(self, **keywords: Any) -> SimpleNamespace:
        self.configurations += 1
        return SimpleNamespace(**keywords)

    def launch(self, stream: Any, config: Any, kernel: Any, *arguments: Any) -> None:
        current = self.driver.contexts[-1] if self.driver.contexts else 0
        if self.needs_context and not current:
            raise RuntimeError("CUDA_ERROR_INVALID_CONTEXT: no context is current")
        self.launches.append((stream, config, kernel, arguments, current))
