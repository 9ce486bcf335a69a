"""CUDA C++ to machine code with NVRTC, without a GPU or a driver, and what ptxas says about it."""

from __future__ import annotations

import io
import logging
import re
import time
from functools import lru_cache
from typing import Any, NamedTuple

from mxgemm.device import driver
from mxgemm.errors import CompilationError

__all__ = ["EXACT", "CompileOptions", "CompiledCubin", "compile_cubin", "nvrtc_version", "parse_resources"]

_log = logging.getLogger("mxgemm.device")

# NVRTC keeps a compile cache of its own since 12.9, and its key leaves ftz and use_fast_math out.
_NVRTC_CACHE_SINCE = (12, 9)


class CompileOptions(NamedTuple):
    """What a caller may choose; everything else about a compilation is fixed.

    Attributes
    ----------
    fma : bool
        Let the compiler contract a multiplication and an addition into one rounding.
    fastmath : bool
        NVRTC's ``--use_fast_math``: subnormals flushed, approximate division and square root, contraction.
    max_registers : int or None
        Registers a thread, at most.
    device_default : bool
        Take functions without an execution space as device functions (generic lambdas need it).
    """

    fma: bool = False
    fastmath: bool = False
    max_registers: int | None = None
    device_default: bool = False

    def program_options(self, entry: str, arch: str) -> dict[str, Any]:
        """Keywords of ``cuda.core.ProgramOptions``."""
        exact = not self.fastmath
        return {
            "name": entry,
            "arch": arch,
            "std": "c++17",
            "fma": self.fma or self.fastmath,
            "ftz": self.fastmath,
            "prec_div": exact,
            "prec_sqrt": exact,
            "use_fast_math": self.fastmath or None,
            "max_register_count": self.max_registers,
            "device_as_default_execution_space": self.device_default or None,
            "no_cache": True if nvrtc_version() >= _NVRTC_CACHE_SINCE else None,
            "ptxas_options": ["-v"],
        }


class Resources(NamedTuple):
    """What one kernel uses, as ``ptxas -v`` prints it.

    Attributes
    ----------
    registers : int
        A thread.
    spill_stores, spill_loads, stack : int
        Bytes a thread.
    shared_bytes : int
        Static shared memory a block, in bytes.
    barriers : int
        Named barriers.
    """

    registers: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    stack: int = 0
    shared_bytes: int = 0
    barriers: int = 0


class CompiledCubin(NamedTuple):
    """Machine code of one source for one architecture.

    Attributes
    ----------
    code : bytes
        The cubin, an ELF file.
    entry, arch : str
    log : str
        The compiler's log, with what ``ptxas -v`` prints.
    resources : Resources
        Of the entry.
    """

    code: bytes
    entry: str
    arch: str
    log: str
    resources: Resources

    def __str__(self) -> str:
        r = self.resources
        return (
            f"{self.entry} for {self.arch}: {r.registers} registers, "
            f"{r.spill_stores + r.spill_loads} bytes spilled, {r.shared_bytes} bytes of static shared memory"
        )


@lru_cache(maxsize=1)
def nvrtc_version() -> tuple[int, int]:
    """Version of NVRTC, for example (13, 0).

    Raises
    ------
    UnsupportedError
        Without cuda-bindings, which cuda-core brings.
    CompilationError
        Without NVRTC.
    """
    try:
        _status, major, minor = driver.bindings("nvrtc").nvrtcVersion()
    except (RuntimeError, OSError) as error:
        raise CompilationError(
            "kernels are compiled with NVRTC, which is not installed; install nvidia-cuda-nvrtc or a toolkit"
        ) from error
    return int(major), int(minor)


EXACT = CompileOptions()  # what everything is compiled with unless it asks for something else


def compile_cubin(source: str, entry: str, arch: str, options: CompileOptions = EXACT) -> CompiledCubin:
    """Compile, always and without any cache; needs no GPU and no driver.

    Parameters
    ----------
    source : str
        Self-contained CUDA C++.
    entry : str
        Name of an ``extern "C"`` kernel in it.
    arch : str
        As NVRTC takes it: "sm_75" … "sm_90a" …

    Raises
    ------
    CompilationError
        With the log and the source.
    """
    core = driver.core()
    _log.info("compiling %s for %s", entry, arch)
    begin, log = time.perf_counter(), io.StringIO()
    keywords = {
        key: value for key, value in options.program_options(entry, arch).items() if value is not None
    }
    try:
        program = core.Program(source, "c++", core.ProgramOptions(**keywords))
        code = bytes(program.compile("cubin", logs=log).code)
    except Exception as error:  # cuda.core has several exception types and no common root for options
        raise CompilationError(
            f"NVRTC refused {entry} for {arch}: {error}", log.getvalue() or str(error), source
        ) from error
    text = log.getvalue().strip("\0 \n")
    resources = parse_resources(text, entry)
    if resources is None:
        raise CompilationError(f'the source defines no kernel extern "C" {entry}', text, source)
    _log.info("compiled %s for %s in %.0f ms", entry, arch, 1e3 * (time.perf_counter() - begin))
    return CompiledCubin(code, entry, arch, text, resources)


# How ptxas words each figure.
_FIELDS = {
    "registers": "registers",
    "spill_stores": "bytes spill stores",
    "spill_loads": "bytes spill loads",
    "stack": "bytes stack frame",
    "shared_bytes": "bytes smem",
    "barriers": "barriers",
}
_ENTRY = "Compiling entry function '"


def parse_resources(log: str, entry: str) -> Resources | None:
    """What ``ptxas -v`` printed about ``entry``; None when it compiled no such kernel."""
    _, found, rest = log.partition(f"{_ENTRY}{entry}' for ")
    if not found:
        return None
    # One pattern for all: a process whose kernel is on disk parses one log, and compiles the pattern for it.
    figures = re.findall(rf"(\d+) ({'|'.join(_FIELDS.values())})", rest.partition(_ENTRY)[0])
    words = {wording: int(figure) for figure, wording in reversed(figures)}
    return Resources(**{field: words[wording] for field, wording in _FIELDS.items() if wording in words})
