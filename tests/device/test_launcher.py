"""A warmed launch queues one launch on the right device and stream, and does nothing else."""

from __future__ import annotations

import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from mxgemm import device
from mxgemm.device import compiler, driver
from mxgemm.errors import UnsupportedError


def kernel_on(ordinal: int, shared_bytes: int = 0) -> device.CompiledKernel:
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())
    return device.CompiledKernel(cubin, ordinal, shared_bytes, "handle")


def test_a_launch_carries_configuration_and_arguments(fake: SimpleNamespace) -> None:
    device.launch(kernel_on(0, 1024), (3, 2), (128,), 0x10, (0x7000, 5), cluster=(2,))
    ((stream, config, handle, arguments, _),) = fake.core.launches
    assert (stream, handle, arguments) == ("stream 16", "handle", (0x7000, 5))
    assert (config.grid, config.block, config.cluster, config.shmem_size) == ((3, 2), (128,), (2,), 1024)


@pytest.mark.parametrize("ordinal", [0, 1])
def test_with_several_devices_the_kernels_own_is_current(fake: SimpleNamespace, ordinal: int) -> None:
    fake.driver.contexts.append(100)
    device.Launcher(kernel_on(ordinal), (1,), (32,))(0x10)
    assert fake.core.launches[0][-1] == 100 + ordinal
    assert fake.driver.contexts == [100]


def test_a_warmed_launch_on_one_device_asks_the_driver_nothing(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    launcher = device.Launcher(kernel_on(0), (1,), (32,))
    launcher(0x10, 1)
    calls, wrapped, configurations = len(fake.driver.calls), len(fake.core.wrapped), fake.core.configurations
    launcher(0x10, 2)
    assert len(fake.core.launches) == 2
    assert (len(fake.driver.calls), len(fake.core.wrapped), fake.core.configurations) == (
        calls,
        wrapped,
        configurations,
    )


def test_a_thread_without_a_context_gets_one_and_launches_once(fake: SimpleNamespace) -> None:
    fake.driver.devices, fake.core.needs_context = 1, True
    device.Launcher(kernel_on(0), (1,), (32,))(0x10)
    assert [launched[-1] for launched in fake.core.launches] == [100]
    assert fake.driver.contexts == []


def test_other_errors_of_a_launch_are_not_tried_again(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.driver.devices = 1
    attempts: list[object] = []

    def refuse(*arguments: object) -> None:
        attempts.append(arguments)
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE")

    monkeypatch.setattr(fake.core, "launch", refuse)
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        device.Launcher(kernel_on(0), (1,), (32,))(0x10)
    assert len(attempts) == 1


def test_one_off_launches_keep_their_configuration(fake: SimpleNamespace) -> None:
    kernel = kernel_on(0)
    for _ in range(3):
        device.launch(kernel, (4,), (64,), 0x10, ())
    device.launch(kernel, (5,), (64,), 0x10, ())
    assert fake.core.configurations == 2


def test_equal_kernels_of_different_loads_are_different(fake: SimpleNamespace) -> None:
    for ordinal in (0, 1):
        device.launch(kernel_on(ordinal), (4,), (64,), 0x10, ())
    assert fake.core.configurations == 2


def test_after_a_fork_a_prepared_launch_is_refused(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = device.Launcher(kernel_on(0), (1,), (32,))
    monkeypatch.setattr(driver._Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        launcher(0x10)
    assert fake.core.launches == []


def test_threads_and_streams_keep_their_arguments_apart(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    launcher = device.Launcher(kernel_on(0), (1,), (32,))

    def queue(number: int) -> None:
        for turn in range(50):
            launcher(0x100 + number, number, turn)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue, range(8)))
    seen = {(stream, arguments) for stream, _, _, arguments, _ in fake.core.launches}
    assert seen == {(f"stream {0x100 + n}", (n, turn)) for n in range(8) for turn in range(50)}


def parameters_of(count: int, ordinal: int = 0) -> device.CompiledKernel:
    """A fake kernel with so many parameters."""
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())
    return device.CompiledKernel(cubin, ordinal, 2048, SimpleNamespace(handle=count))


def test_a_bound_launch_gives_the_pointers_and_then_the_constants(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(5), (3, 2), (128,), 2, (7, -1, 1.5))
    bound(0x10, 0x7000, 0x8000)
    (launched,) = fake.driver.launched
    double = int.from_bytes(struct.pack("=d", 1.5), sys.byteorder)
    assert launched == (3, 2, 1, 128, 1, 1, 2048, 0x10, 100, 0x7000, 0x8000, 7, -1, double)


def test_the_next_bound_launch_forgets_the_pointers_of_the_last(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    for pointer in (0x7000, 0x8000):
        bound(0x10, pointer)
    assert [launched[-2:] for launched in fake.driver.launched] == [(0x7000, 7), (0x8000, 7)]


def test_a_bound_launch_of_other_than_its_number_of_pointers_is_refused(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    for pointers in ((), (1, 2)):
        with pytest.raises(ValueError, match="size"):
            bound(0x10, *pointers)
    assert fake.driver.launched == []


def test_a_warmed_bound_launch_on_one_device_asks_the_driver_nothing_else(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    bound(0x10, 0x7000)
    calls = len(fake.driver.calls)
    bound(0x10, 0x7000)
    assert len(fake.driver.calls) == calls


@pytest.mark.parametrize("ordinal", [0, 1])
def test_a_bound_launch_runs_on_its_kernels_device(fake: SimpleNamespace, ordinal: int) -> None:
    fake.driver.contexts.append(100)
    device.BoundLaunch(parameters_of(1, ordinal), (1,), (32,), 1, ())(0x10, 0x7000)
    assert fake.driver.launched[0][8] == 100 + ordinal
    assert fake.driver.contexts == [100]


def test_a_bound_launch_gives_a_thread_its_context_and_launches_once(fake: SimpleNamespace) -> None:
    fake.driver.devices, fake.driver.needs_context = 1, True
    device.BoundLaunch(parameters_of(1), (1,), (32,), 1, ())(0x10, 0x7000)
    assert [launched[8] for launched in fake.driver.launched] == [100]
    assert fake.driver.contexts == []


def test_a_refused_bound_launch_names_kernel_and_reason(fake: SimpleNamespace) -> None:
    fake.driver.refuses.add("cuLaunchKernel")
    with pytest.raises(device.DriverError, match=r"launch k as \(1, 1, 1, 32.*CUDA_ERROR_INVALID_VALUE"):
        device.BoundLaunch(parameters_of(1), (1,), (32,), 1, ())(0x10, 0x7000)


def test_threads_share_a_bound_launch_and_keep_their_pointers_apart(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    bound = device.BoundLaunch(parameters_of(3), (1,), (32,), 2, (7,))

    def queue(number: int) -> None:
        for turn in range(200):
            bound(0x100 + number, number, turn)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue, range(8)))
    seen = {(launched[7], *launched[-3:]) for launched in fake.driver.launched}
    assert seen == {(0x100 + n, n, turn, 7) for n in range(8) for turn in range(200)}


def test_after_a_fork_a_bound_launch_is_refused(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = device.BoundLaunch(parameters_of(1), (1,), (32,), 1, ())
    monkeypatch.setattr(driver._Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        bound(0x10, 0x7000)
    assert fake.driver.launched == []
