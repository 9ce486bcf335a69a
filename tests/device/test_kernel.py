"""Kernels are compiled and loaded once, whoever asks, and on each device that asks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from mxgemm import device
from mxgemm.device import compiler, kernel
from mxgemm.errors import CompilationError, UnsupportedError


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Architectures compiled for; 4 KiB of static shared memory each, and slow enough for threads to meet."""
    seen: list[str] = []

    def compile_cubin(_source: str, entry: str, arch: str, *_: object) -> compiler.CompiledCubin:
        seen.append(arch)
        time.sleep(0.02)
        return compiler.CompiledCubin(b"", entry, arch, "", compiler.Resources(shared_bytes=4096))

    monkeypatch.setattr(kernel, "_cubins", kernel._Once())
    monkeypatch.setattr(compiler, "compile_cubin", compile_cubin)
    monkeypatch.setenv("MXGEMM_CACHE_DIR", "0")
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: (13, 0))
    return seen


@pytest.mark.usefixtures("fake")
def test_threads_that_ask_together_share_one_compilation(compilations: list[str]) -> None:
    barrier = threading.Barrier(8)

    def ask(_number: int) -> device.CompiledKernel:
        barrier.wait()
        return device.compiled("source", "k")

    with ThreadPoolExecutor(8) as pool:
        found = set(map(id, pool.map(ask, range(8))))
    assert len(found) == 1
    assert compilations == ["sm_90a"]


@pytest.mark.usefixtures("compilations")
def test_another_kernel_does_not_wait() -> None:
    once: kernel._Once[int] = kernel._Once()
    inside, done = threading.Event(), threading.Event()

    def slow() -> int:
        inside.set()
        assert done.wait(10)
        return 1

    with ThreadPoolExecutor(1) as pool:
        pending = pool.submit(once.get, "slow", slow)
        assert inside.wait(10)
        assert once.get("quick", lambda: 2) == 2
        done.set()
        assert pending.result() == 1


def test_a_failed_compilation_is_tried_again() -> None:
    once: kernel._Once[int] = kernel._Once()

    def fails() -> int:
        raise CompilationError("no compiler")

    with pytest.raises(CompilationError):
        once.get("k", fails)
    assert once.get("k", lambda: 3) == 3


def test_each_device_loads_and_compiles_once_for_both(fake: SimpleNamespace, compilations: list[str]) -> None:
    first, second = (device.compiled("source", "k", ordinal=ordinal) for ordinal in (0, 1))
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert first.cubin is second.cubin
    assert compilations == ["sm_90a"]
    loaded = [call for call in fake.driver.calls if call[0] == "cuKernelSetAttribute"]
    assert [call[-1] for call in loaded] == [0, 1]


@pytest.mark.usefixtures("compilations")
def test_dynamic_shared_memory_is_allowed_for_the_device(fake: SimpleNamespace) -> None:
    device.compiled("source", "k", ordinal=1, shared_bytes=200_000)
    assert ("cuKernelSetAttribute", 8, 200_000, "library/k", 1) in fake.driver.calls


@pytest.mark.usefixtures("compilations")
def test_code_is_loaded_before_the_first_launch(fake: SimpleNamespace) -> None:
    device.compiled("source", "k")
    assert ("cuKernelGetFunction", "library/k") in fake.driver.calls


@pytest.mark.usefixtures("fake", "compilations")
def test_more_shared_memory_than_there_is_is_refused() -> None:
    limit = 232448
    device.compiled("source", "k", shared_bytes=limit - 4096)
    with pytest.raises(UnsupportedError, match=f"232449 bytes of shared memory.*offers {limit}"):
        device.compiled("source", "k", shared_bytes=limit - 4095)


@pytest.mark.usefixtures("fake", "compilations")
def test_a_loaded_kernel_is_known() -> None:
    assert not device.is_compiled("source", "k")
    found = device.compiled("source", "k")
    assert device.is_compiled("source", "k")
    assert not device.is_compiled("source", "k", ordinal=1)
    assert found.entry == "k"


@pytest.mark.usefixtures("compilations")
def test_a_loaded_kernel_asks_the_driver_nothing(fake: SimpleNamespace) -> None:
    device.compiled("source", "k")
    calls = len(fake.driver.calls)
    device.compiled("source", "k")
    assert len(fake.driver.calls) == calls
