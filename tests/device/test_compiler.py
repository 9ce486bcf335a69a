"""NVRTC keeps IEEE arithmetic, needs no GPU, and says what a kernel uses."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from mxgemm import device
from mxgemm.device import compiler
from mxgemm.errors import CompilationError

pytest.importorskip("cuda.core")

AXPY = """
extern "C" __global__ void axpy(double* y, const double* x, double a) {
    y[threadIdx.x] = a * x[threadIdx.x] + y[threadIdx.x];
}
"""
SHARED = """
extern "C" __global__ void other(int* x) { x[0] = 1; }
extern "C" __global__ void reversed(float* x) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[255 - threadIdx.x];
}
"""


def test_compiles_without_a_device_and_reports_what_the_entry_uses() -> None:
    found = device.compile_cubin(SHARED, "reversed", "sm_90a")
    assert found.code[:4] == b"\x7fELF"
    used = found.resources
    assert used.shared_bytes == 1024
    assert used.barriers == 1
    assert used.registers > 0
    assert used.spill_stores == used.spill_loads == used.stack == 0


def test_contraction_is_off_unless_asked_for() -> None:
    separate = device.compile_cubin(AXPY, "axpy", "sm_90a").code
    contracted = device.compile_cubin(AXPY, "axpy", "sm_90a", device.CompileOptions(fma=True)).code
    assert separate != contracted


def test_exact_arithmetic_is_what_nvrtc_is_told() -> None:
    told = device.CompileOptions().program_options("k", "sm_80")
    assert (told["ftz"], told["prec_div"], told["prec_sqrt"], told["fma"]) == (False, True, True, False)
    assert told["use_fast_math"] is None


def test_fast_math_flushes_and_contracts() -> None:
    told = device.CompileOptions(fastmath=True).program_options("k", "sm_80")
    assert (told["ftz"], told["prec_div"], told["prec_sqrt"], told["fma"]) == (True, False, False, True)


@pytest.mark.parametrize(("version", "told"), [((12, 8), None), ((12, 9), True), ((13, 0), True)])
def test_nvrtcs_own_cache_is_turned_off_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], told: bool | None
) -> None:
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: version)
    assert device.CompileOptions().program_options("k", "sm_80")["no_cache"] is told


def test_a_compilation_is_announced_when_it_starts_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "mxgemm.device"):
        device.compile_cubin(AXPY, "axpy", "sm_80")
    begin, end = (record.getMessage() for record in caplog.records)
    assert begin == "compiling axpy for sm_80"
    assert end.startswith("compiled axpy for sm_80 in ")


def test_a_refused_source_keeps_log_and_source() -> None:
    source = 'extern "C" __global__ void broken() { undeclared(); }'
    with pytest.raises(CompilationError, match="broken for sm_80") as caught:
        device.compile_cubin(source, "broken", "sm_80")
    assert "undeclared" in caught.value.log
    assert caught.value.source == source


def test_an_unknown_architecture_is_a_compilation_error() -> None:
    with pytest.raises(CompilationError, match="sm_12345"):
        device.compile_cubin(AXPY, "axpy", "sm_12345")


def test_an_entry_that_is_not_there_is_named() -> None:
    with pytest.raises(CompilationError, match='extern "C" missing'):
        device.compile_cubin(AXPY, "missing", "sm_80")


def test_spills_are_read_from_the_log_of_the_entry_and_of_no_other() -> None:
    log = """
ptxas info    : Compiling entry function 'clean' for 'sm_90a'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
ptxas info    : Compiling entry function 'spilling' for 'sm_90a'
ptxas         .     64 bytes stack frame, 60 bytes spill stores, 56 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 4096 bytes smem
"""
    assert compiler.parse_resources(log, "clean") == compiler.Resources(registers=10)
    assert compiler.parse_resources(log, "spilling") == compiler.Resources(255, 60, 56, 64, 4096, 2)
    assert compiler.parse_resources(log, "spill") is None


def test_without_nvrtc_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    def missing() -> None:
        raise RuntimeError("libnvrtc was not found")

    monkeypatch.setattr(nvrtc, "nvrtcVersion", missing)
    with pytest.raises(CompilationError, match="nvidia-cuda-nvrtc"):
        compiler.nvrtc_version.__wrapped__()


def test_importing_the_device_imports_no_cuda_library() -> None:
    code = "import mxgemm.device, sys; print({'cuda', 'cupy'} & {m.partition('.')[0] for m in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_threads_that_compile_first_at_once_all_get_whole_modules() -> None:
    """The cuda packages import each other: two threads that wait for each other are given half a module."""
    code = """
import sys, threading
sys.setswitchinterval(1e-6)
from mxgemm.device import compiler, driver
start, failed = threading.Barrier(4), []
def first(name):
    start.wait()
    try:
        driver.core().Program if name is None else driver.bindings(name)
    except AttributeError as error:
        failed.append(error)
threads = [threading.Thread(target=first, args=(name,)) for name in (None, 'nvrtc', None, 'nvrtc')]
[one.start() for one in threads]
[one.join() for one in threads]
print(failed)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
