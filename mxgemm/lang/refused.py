"""What Numba has and this has not, by name, each with what to do instead."""

from __future__ import annotations

from typing import Final

from mxgemm.errors import UnsupportedError

__all__ = ["REFUSED", "REFUSED_OF_KERNELS", "RefusedNameError"]

_CONTEXTS: Final = "contexts are managed by mxgemm; use select_device and synchronize"
_DEVICES: Final = "use select_device and mxgemm.device.capabilities"
_FILES: Final = "device functions are Python functions under @cuda.jit(device=True)"
_MEMORY: Final = "memory is managed by mxgemm; other libraries' device arrays are taken as they are"
_PROFILER: Final = "use the profiler's own range options"
_PTX: Final = "kernel.source() gives CUDA C; mxgemm.device.compile_cubin compiles it"
_VECTORS: Final = "use an array with one more axis, or separate variables"
_CACHED: Final = "write a plain load or store"

#: Names of ``numba.cuda`` that are not here, with what to do instead.
REFUSED: Final[dict[str, str]] = {
    "mapped_array": "pass device arrays (cuda.to_device) or host arrays, which are copied",
    "mapped_array_like": "pass device arrays (cuda.to_device) or host arrays, which are copied",
    "managed_array": "pass device arrays (cuda.to_device)",
    "mapped": "pass device arrays (cuda.to_device)",
    "pinned": "allocate with cuda.pinned_array",
    "declare_device": _FILES,
    "reduce": "write the reduction as a kernel, or use CuPy",
    "Reduce": "write the reduction as a kernel, or use CuPy",
    "cg": "grid-wide synchronisation is not part of the dialect; split the kernel in two launches",
    "random": "generate random numbers on the host or with CuPy and pass them as arrays",
    "libdevice": "use the functions of math",
    "vectorize": "write a kernel over cuda.grid(1)",
    "guvectorize": "write a kernel",
    "nanosleep": "kernels do not wait",
    "compile": _PTX,
    "compile_ptx": _PTX,
    "current_context": _CONTEXTS,
    "gpus": _DEVICES,
    "get_current_device": "mxgemm.device.capabilities(ordinal) describes a device",
    "list_devices": _DEVICES,
    "detect": "use is_available and mxgemm.device.capabilities",
    "close": "memory is freed with its last reference",
    "defer_cleanup": "memory is freed in the order of its stream, which stops nothing",
    "per_thread_default_stream": "use cuda.stream()",
    "legacy_default_stream": "cuda.default_stream() is the legacy default stream",
    "external_stream": "pass the stream object itself as the third launch parameter",
    "open_ipc_handle": "memory is not shared between processes",
    "profile_start": _PROFILER,
    "profile_stop": _PROFILER,
    "profiling": _PROFILER,
    "atomic_add": "write cuda.atomic.add",
    "syncthreads_count_sync": "write cuda.syncthreads_count",
    "vote_sync_intrinsic": "write all_sync, any_sync, eq_sync or ballot_sync",
    "shfl_sync_intrinsic": "write shfl_sync, shfl_up_sync, shfl_down_sync or shfl_xor_sync",
    "fp16": "float16 arithmetic is written with operators and math functions",
    **dict.fromkeys(("In", "Out", "InOut"), "pass the host array; what the kernel writes is copied back"),
    **dict.fromkeys(
        ("CUSource", "PTXSource", "Cubin", "Fatbin", "LTOIR", "Archive", "Object", "LinkableCode"), _FILES
    ),
    **dict.fromkeys(("ldca", "ldcg", "ldcs", "ldcv", "ldlu", "stcg", "stcs", "stwb", "stwt"), _CACHED),
    **dict.fromkeys(("require_context", "initialize", "driver", "cudadrv"), _CONTEXTS),
    **dict.fromkeys(
        ("set_memory_manager", "BaseCUDAMemoryManager", "HostOnlyCUDAMemoryManager", "GetIpcHandleMixin",
         "MappedMemory", "PinnedMemory", "MemoryPointer", "MemoryInfo", "IpcHandle", "open_ipc_array"),
        _MEMORY,
    ),
    **dict.fromkeys(("compile_all", "compile_for_current_device", "compile_ptx_for_current_device"), _PTX),
    **dict.fromkeys(
        ("is_float16_supported", "is_bfloat16_supported", "is_fp8_supported", "is_supported_version"),
        "float16 and bfloat16 are element types everywhere; mxgemm.device.capabilities describes a device",
    ),
    **dict.fromkeys(("complex64", "complex128", "c8", "c16"), "use two real arrays"),
    **dict.fromkeys(
        (f"{base}{lanes}" for base in (
            "char", "short", "int", "long", "longlong", "uchar", "ushort", "uint", "ulong", "ulonglong",
            "float", "double",
        ) for lanes in (1, 2, 3, 4)),
        _VECTORS,
    ),
    **dict.fromkeys(
        (f"{base}x{lanes}" for base in (
            "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        ) for lanes in (1, 2, 3, 4)),
        _VECTORS,
    ),
    **dict.fromkeys(
        ("none", "optional", "deferred_type", "ffi", "ffi_forced_object"),
        "it is no element type of the dialect; an argument is a number or an array",
    ),
    **dict.fromkeys(
        ("CudaSupportError", "KernelRuntimeError"), "catch cuda.KernelFaultError or mxgemm.MxgemmError"
    ),
    "GridGroup": "grid-wide synchronisation is not part of the dialect; split the kernel in two launches",
    "from_cuda_array_interface": "use as_cuda_array",
    "grid_group": "grid-wide synchronisation is not part of the dialect; split the kernel in two launches",
    "literal_unroll": "write the statements out",
    "types": "element types are cuda.float32 and so on; Numba's own types are taken too",
}  # fmt: skip

#: Attributes of Numba's kernels that are not here, with what to do instead.
REFUSED_OF_KERNELS: Final[dict[str, str]] = {
    "outcome": "kernels are not recognised as matrix products yet; launch with kernel[grid, block](…), or "
    "call mxgemm.gemm_outcome",
    **dict.fromkeys(("inspect_asm", "inspect_llvm", "inspect_sass", "inspect_lto_ptx"), _PTX),
    **dict.fromkeys(("inspect_types", "overloads", "definitions"), "kernel.ir() shows the typed IR"),
    **dict.fromkeys(
        ("get_regs_per_thread", "get_shared_mem_per_block", "get_const_mem_size",
         "get_local_mem_per_thread", "get_max_threads_per_block"),
        "mxgemm.device.compile_cubin(kernel.source(), …).resources has them",
    ),
    "extensions": "arguments are numbers and arrays",
    "compile": "the first launch compiles, or a signature to @cuda.jit",
    "compile_device": "device functions are compiled with the kernels that call them",
    "bind": "the first launch compiles, or a signature to @cuda.jit",
}  # fmt: skip


class RefusedNameError(UnsupportedError, AttributeError):
    """A name of Numba that is refused; an AttributeError too, so that ``hasattr`` answers False."""
