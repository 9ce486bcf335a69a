"""A bound launch writes what differs from the last one, for every thread apart, and checks its parameters."""

from __future__ import annotations

import ctypes
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from mxgemm import device
from mxgemm.device import driver
from mxgemm.device import launcher as launcher_module
from mxgemm.errors import UnsupportedError
from tests.device.fakes import Status, handle_of
from tests.device.launches import NoMap, device_map, kernel_on, parameters_of


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


def test_pointers_and_streams_that_repeat_are_not_written_again(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    bound(0x10, 0x7000)
    (one,) = bound._unused
    one._values[0] = 0x9999  # seen only because nobody writes the pointer again
    bound(0x10, 0x7000)
    bound(0x20, 0x8000)
    bound(0x10, 0x7000)
    assert [(launched[7], launched[-2]) for launched in fake.driver.launched] == [
        (0x10, 0x7000), (0x10, 0x9999), (0x20, 0x8000), (0x10, 0x7000),
    ]  # fmt: skip


def test_pointers_are_picked_from_what_is_given_only_when_that_changes(fake: SimpleNamespace) -> None:
    asked: list[tuple[int, ...]] = []

    def pick(given: tuple[int, ...]) -> tuple[int, ...]:
        asked.append(given)
        return given[2], given[0] + 16

    bound = device.BoundLaunch(parameters_of(3), (1,), (32,), 2, (7,), pick=pick)
    given = (0x7000, 0x8000, 0x9000)
    for one in (given, given, (*given[:2], 0x9000), (0x7000, 0x8000, 0xA000)):  # the third is only equal
        bound.queue(0x10, one)
    assert [launched[-3:] for launched in fake.driver.launched] == [
        *[(0x9000, 0x7010, 7)] * 3, (0xA000, 0x7010, 7)
    ]  # fmt: skip
    assert asked == [given, (0x7000, 0x8000, 0xA000)]


def test_a_bound_launch_of_other_than_its_number_of_pointers_is_refused(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    for pointers in ((), (1, 2)):
        with pytest.raises(struct.error, match="expected 1 items"):
            bound(0x10, *pointers)
    assert fake.driver.launched == []


def test_a_warmed_bound_launch_on_one_device_asks_the_driver_nothing_else(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    bound = device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))
    bound(0x10, 0x7000)
    calls = len(fake.driver.calls)
    bound(0x10, 0x7000)
    assert len(fake.driver.calls) == calls


def test_a_bound_launch_asks_once_where_its_kernel_reads_each_parameter(fake: SimpleNamespace) -> None:
    bound = device.BoundLaunch(parameters_of(3), (1,), (32,), 2, (7,))
    for stream in (0x10, 0x20):
        bound(stream, stream, stream)
    asked = [one[1:] for one in fake.driver.calls if one[0] == "cuKernelGetParamInfo"]
    assert asked == [(handle_of(3), i) for i in range(3)]
    assert fake.driver.buffers == [True, True]


def no_such_name(*_: object) -> None:
    raise AttributeError("of bindings before CUDA 12.4")


def no_such_function(*_: object) -> None:
    raise RuntimeError("of bindings on a driver before CUDA 12.4")


@pytest.mark.parametrize("maps", [0, 1])
@pytest.mark.parametrize(
    "answer",
    [
        no_such_name, no_such_function, lambda *_: (Status.CUDA_ERROR_NOT_FOUND, None, None),
        lambda *_: (Status.CUDA_ERROR_NOT_SUPPORTED, None, None),
    ],
)  # fmt: skip
def test_without_the_drivers_word_each_parameter_is_given_by_its_address(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, answer: Any, maps: int
) -> None:
    monkeypatch.setattr(launcher_module, "EncodedMap", NoMap)
    fake.driver.cuKernelGetParamInfo = answer
    bound = device.BoundLaunch(
        kernel_on(0, 3 + maps, maps=maps), (1,), (32,), 2, (7,), device_map() if maps else ()
    )
    for first in (0x7000, 0x9000):
        bound(0x10, first, 0x8000)
    assert [one[-3:] for one in fake.driver.launched] == [(0x7000, 0x8000, 7), (0x9000, 0x8000, 7)]
    assert fake.driver.buffers == [False, False]


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([(0, 8), (8, 4)], r"\(8, 4\)"),  # an int
        ([(0, 8), (16, 8)], r"\(16, 8\)"),  # behind a gap
        ([(0, 128), (128, 8)], r"\(0, 128\)"),  # a map
    ],
)
def test_a_kernel_of_other_parameters_is_refused_when_it_is_bound(
    fake: SimpleNamespace, told: list[tuple[int, int]], found: str
) -> None:
    fake.driver.cuKernelGetParamInfo = lambda _, index: (Status.CUDA_SUCCESS, *told[index])
    with pytest.raises(UnsupportedError, match=rf"^k reads .*{found}.* in \[8, 8\] bytes; use a Launcher"):
        device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,))


def test_a_kernel_of_fewer_parameters_is_refused_when_it_is_bound(fake: SimpleNamespace) -> None:
    with pytest.raises(device.DriverError, match="cuKernelGetParamInfo: CUDA_ERROR_INVALID_VALUE"):
        device.BoundLaunch(parameters_of(1), (1,), (32,), 1, (7,))
    assert fake.driver.launched == []


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


def test_maps_are_encoded_in_the_context_that_a_thread_is_given(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NeedsContext(NoMap):
        def aim(self, target: int) -> None:
            if not fake.driver.contexts:
                raise device.DriverError("the tensor map", "error 201")
            super().aim(target)

    monkeypatch.setattr(launcher_module, "EncodedMap", NeedsContext)
    fake.driver.devices = 1
    device.BoundLaunch(kernel_on(0, 3, maps=1), (1,), (32,), 1, (7,), device_map())(0x10, 0x7000)
    assert [launched[8] for launched in fake.driver.launched] == [100]
    assert fake.driver.contexts == []


def test_a_refused_bound_launch_names_kernel_and_reason(fake: SimpleNamespace) -> None:
    fake.driver.refuses.add("cuLaunchKernelEx")
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
    monkeypatch.setattr(driver.Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        bound(0x10, 0x7000)
    assert fake.driver.launched == []


@pytest.mark.usefixtures("fake")
def test_other_threads_run_while_the_driver_holds_a_launch() -> None:
    """A launch into a full stream waits for host callbacks, and those of Python need the interpreter."""
    keeps_the_interpreter = (
        type(ctypes.PYFUNCTYPE(ctypes.c_int)(0))._flags_ ^ type(ctypes.CFUNCTYPE(ctypes.c_int)(0))._flags_
    )
    assert keeps_the_interpreter
    assert not type(driver.foreign("cuLaunchKernelEx", 12000))._flags_ & keeps_the_interpreter


def test_a_fixed_launch_keeps_its_pointers_and_stream_whatever_runs_beside_it(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    bound = device.BoundLaunch(parameters_of(3), (1,), (32,), 2, (7,))
    fixed = bound.fixed(0x10, (0x7000, 0x8000))
    assert fixed is not None
    launch, arguments, _memory = fixed
    bound(0x20, 0x9000, 0xA000)
    other = bound.fixed(0x30, (0xB000, 0xC000))
    assert launch(*arguments) == 0
    assert [(one[7], one[-3:]) for one in fake.driver.launched] == [
        (0x20, (0x9000, 0xA000, 7)), (0x10, (0x7000, 0x8000, 7)),
    ]  # fmt: skip
    assert other is not None


def test_nothing_is_fixed_where_the_device_must_be_asked_for(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fake.driver.devices == 2
    assert device.BoundLaunch(parameters_of(2), (1,), (32,), 1, (7,)).fixed(0x10, (0x7000,)) is None

    class Refusing(NoMap):
        def aim(self, target: int) -> None:
            raise device.DriverError("the tensor map", f"error {target}")

    fake.driver.devices = 1
    driver._count.cache_clear()
    monkeypatch.setattr(launcher_module, "EncodedMap", Refusing)
    bound = device.BoundLaunch(kernel_on(0, 3, maps=1), (1,), (32,), 1, (7,), device_map())
    assert bound.fixed(0x10, (0x7000,)) is None


def test_a_launch_that_fails_half_way_leaves_the_next_one_right(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A map that the driver refuses leaves a frame with some of the new pointers: it is not used again."""
    refused = {0x9000}

    class Refusing(NoMap):
        def aim(self, target: int) -> None:
            if target in refused:
                raise device.DriverError("the tensor map", "error 1")

    monkeypatch.setattr(launcher_module, "EncodedMap", Refusing)
    bound = device.BoundLaunch(kernel_on(0, 3, maps=1), (1,), (32,), 1, (7,), device_map())
    bound(0x10, 0x7000)
    with pytest.raises(device.DriverError, match="tensor map"):
        bound(0x10, 0x9000)
    bound(0x10, 0x7000)
    assert [launched[-2] for launched in fake.driver.launched] == [0x7000, 0x7000]
    fake.driver.refuses.add("cuLaunchKernelEx")
    with pytest.raises(device.DriverError, match="launch k"):
        bound(0x20, 0x8000)
    fake.driver.refuses.clear()
    bound(0x10, 0x7000)
    bound(0x20, 0x8000)
    assert [(one[7], one[-2]) for one in fake.driver.launched[2:]] == [(0x10, 0x7000), (0x20, 0x8000)]
