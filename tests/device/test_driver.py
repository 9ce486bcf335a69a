"""CUDA is found at first use, missing pieces are named, and a fork is refused."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from mxgemm import device
from mxgemm.device import driver, driver_calls
from mxgemm.errors import UnsupportedError

FORK = """
import os, sys
from mxgemm import device
from mxgemm.device import driver
driver.Process.used = {used}
child = os.fork()
if child == 0:
    try:
        device.check_process()
    except Exception as error:
        os._exit(7 if type(error).__name__ == "UnsupportedError" and "spawn" in str(error) else 8)
    os._exit(0)
device.check_process()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(("used", "status"), [(True, 7), (False, 0)])
def test_a_fork_of_a_process_that_used_cuda_is_refused_in_the_child_only(used: bool, status: int) -> None:
    run = subprocess.run([sys.executable, "-c", FORK.format(used=used)], check=False)
    assert run.returncode == status


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: device.capabilities(0),
        device.count,
        lambda: device.compiled("", "k"),
        lambda: device.allocate(8, 0, 1),
        lambda: device.is_capturing(1, 0),
    ],
)
def test_every_road_to_the_device_checks_the_fork(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, attempt: object
) -> None:
    monkeypatch.setattr(driver.Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        attempt()  # type: ignore[operator]
    assert fake.driver.calls == []


def test_a_driver_that_a_fork_made_unusable_names_spawn(monkeypatch: pytest.MonkeyPatch) -> None:
    status = SimpleNamespace(name="CUDA_ERROR_NOT_INITIALIZED", value=3)
    made = SimpleNamespace(cuInit=lambda _flags: (status,))
    monkeypatch.setattr(driver_calls, "Driver", lambda _bindings: made)
    with pytest.raises(UnsupportedError, match="spawn"):
        driver._driver.__wrapped__()


@pytest.mark.parametrize("found", [None, ModuleType("cuda")])
def test_without_the_bindings_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, found: ModuleType | None
) -> None:
    """Not installed, or behind a module of the program's own."""
    monkeypatch.setitem(sys.modules, "cuda", found)  # type: ignore[arg-type]  # None stands for no module
    monkeypatch.delitem(sys.modules, "cuda.bindings", raising=False)
    with pytest.raises(UnsupportedError, match=r"mxgemm\[cu13\]"):
        driver._driver.__wrapped__()


def test_without_a_driver_the_cpu_is_named(no_device: str | None) -> None:
    if no_device is None:
        pytest.skip("this machine has a CUDA device")
    assert not device.available()
    with pytest.raises(UnsupportedError, match="device='cpu'"):
        device.capabilities(0)


def test_without_cuda_core_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(UnsupportedError, match=r"mxgemm\[cu13\]"):
        driver.core.__wrapped__()


def test_a_refusal_of_the_driver_names_function_and_reason(fake: SimpleNamespace) -> None:
    fake.driver.refuses.add("cuEventCreate")
    with pytest.raises(
        device.DriverError, match=r"cuEventCreate.*CUDA_ERROR_INVALID_VALUE.*invalid argument"
    ):
        driver.call("cuEventCreate", 0)


def test_a_known_refusal_says_what_to_do() -> None:
    error = device.DriverError("cuMemAllocAsync", "CUDA_ERROR_OUT_OF_MEMORY (out of memory)")
    assert str(error).endswith("free device memory, or make the product smaller")


def test_another_device_is_current_only_inside(fake: SimpleNamespace) -> None:
    fake.driver.contexts.append(100)
    with device.on_device(1):
        assert fake.driver.contexts == [100, 101]
    assert fake.driver.contexts == [100]


def test_the_device_is_given_back_after_an_error(fake: SimpleNamespace) -> None:
    fake.driver.contexts.append(100)
    with pytest.raises(KeyError), device.on_device(1):
        raise KeyError
    assert fake.driver.contexts == [100]


def test_the_current_device_is_not_switched_to(fake: SimpleNamespace) -> None:
    fake.driver.contexts.append(101)
    with device.on_device(1):
        assert fake.driver.contexts == [101]
    assert "cuCtxPushCurrent" not in fake.driver.names()


@pytest.mark.usefixtures("fake")
def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no CUDA device 5; this machine has 2"), device.on_device(5):
        pass
    with pytest.raises(UnsupportedError, match="no CUDA device 2; this machine has 2"):
        device.capabilities(2)


def test_capabilities_are_read_once(fake: SimpleNamespace) -> None:
    found = device.capabilities(1)
    assert (found.backend, found.arch, found.name) == ("cuda:1", "sm_90", "Fake H200")
    assert (found.multiprocessors, found.shared_memory_per_block) == (132, 232448)
    calls = len(fake.driver.calls)
    assert device.capabilities(1) is found
    assert len(fake.driver.calls) == calls


def test_hopper_is_compiled_with_its_own_instructions() -> None:
    assert [device.compile_arch(arch) for arch in ("sm_75", "sm_90")] == ["sm_75", "sm_90a"]
