"""The device: its capabilities, kernels compiled at run time and kept on disk, launches, streams and memory.

Importing this imports no CUDA library; the first use does.
"""

from mxgemm.device.compiler import CompiledCubin, CompileOptions, Resources, compile_cubin, nvrtc_version
from mxgemm.device.driver import DriverError, available, check_process, count, on_device, ordinal_of
from mxgemm.device.kernel import CompiledKernel, compiled, cubin, is_compiled
from mxgemm.device.launcher import BoundLaunch, Launcher, launch
from mxgemm.device.memory import (
    Buffer,
    allocate,
    allocate_zeroed,
    borrow,
    copy_to_device,
    copy_to_host,
    give_back,
)
from mxgemm.device.properties import capabilities, compile_arch
from mxgemm.device.streams import (
    LEGACY,
    PER_THREAD,
    is_capturing,
    order_after,
    refuse_capture,
    stream_handle,
    synchronize,
)

__all__ = [
    "LEGACY",
    "PER_THREAD",
    "BoundLaunch",
    "Buffer",
    "CompileOptions",
    "CompiledCubin",
    "CompiledKernel",
    "DriverError",
    "Launcher",
    "Resources",
    "allocate",
    "allocate_zeroed",
    "available",
    "borrow",
    "capabilities",
    "check_process",
    "compile_arch",
    "compile_cubin",
    "compiled",
    "copy_to_device",
    "copy_to_host",
    "count",
    "cubin",
    "give_back",
    "is_capturing",
    "is_compiled",
    "launch",
    "nvrtc_version",
    "on_device",
    "order_after",
    "ordinal_of",
    "refuse_capture",
    "stream_handle",
    "synchronize",
]
