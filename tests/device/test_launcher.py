"""A launcher queues one launch on the right device and stream, and does nothing else once it is warm."""

from __future__ import annotations

import ctypes
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxgemm import device
from mxgemm.device import driver, launch_frame
from mxgemm.device import launcher as launcher_module
from mxgemm.errors import DTypeError, UnsupportedError
from tests.device.launches import NoMap, device_map, kernel_on


def bits_of(form: str, value: float) -> int:
    """A value as the driver finds it in 8 bytes of memory that are zero beyond it."""
    return int.from_bytes(struct.pack(f"={form}", value).ljust(8, b"\0"), sys.byteorder)


def test_a_launch_carries_configuration_and_arguments(fake: SimpleNamespace) -> None:
    device.launch(kernel_on(0, 2, 1024), (3, 2), (128,), 0x10, (0x7000, 5))
    assert fake.driver.launched == [(3, 2, 1, 128, 1, 1, 1024, 0x10, 100, 0x7000, 5)]
    assert fake.driver.told == [[]]


def test_a_grid_of_clusters_is_one_of_blocks_for_the_driver(fake: SimpleNamespace) -> None:
    device.launch(kernel_on(0), (3, 2), (128,), 0x10, (), cluster=(2, 1))
    device.Launcher(kernel_on(0), (4,), (32,), programmatic=True)(0x10)
    assert [launched[:6] for launched in fake.driver.launched] == [(6, 2, 1, 128, 1, 1), (4, 1, 1, 32, 1, 1)]
    cluster_dimension, programmatic = 4, 6
    assert fake.driver.told[0] == [(cluster_dimension, 2, 1, 1)]
    assert [told[:2] for told in fake.driver.told[1]] == [(programmatic, 1)]


def test_the_drivers_structure_is_the_one_that_the_bindings_lay_out(fake: SimpleNamespace) -> None:
    from cuda.bindings import driver as bindings

    theirs = bindings.CUlaunchConfig()
    fields = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")
    for value, name in enumerate(fields, 11):
        setattr(theirs, name, value)
    theirs.hStream = 0x77
    configuration = launch_frame.Configuration((11, 12, 13), (14, 15, 16), 17)
    ours = launch_frame.Frame(0, configuration, launch_frame.Scattered([]))
    ours.send_to(0x77)
    size = ctypes.sizeof(ours._configuration)
    found = ctypes.string_at(ctypes.addressof(ours._configuration), size)
    assert found == ctypes.string_at(theirs.getPtr(), size)
    assert fake.driver.launched == []


@pytest.mark.parametrize(
    ("argument", "form"),
    [
        (-5, "q"), (2.5, "d"), (True, "?"), (np.float64(0.1), "d"), (np.float32(0.1), "f"),
        (np.float16(0.1), "e"), (np.int8(-3), "b"), (np.uint16(65535), "H"), (np.int32(-7), "i"),
        (np.uint64(2**64 - 1), "Q"), (np.bool_(True), "?"),
    ],
)  # fmt: skip
def test_an_argument_is_as_wide_as_its_class(fake: SimpleNamespace, argument: Any, form: str) -> None:
    device.Launcher(kernel_on(0, 3), (1,), (32,))(0x10, 1, argument, 2)
    assert [word % 2**64 for word in fake.driver.launched[0][-3:]] == [1, bits_of(form, argument), 2]


@pytest.mark.parametrize(
    ("argument", "bits"),
    [
        (ctypes.c_int16(-2), 0xFFFE),
        (ctypes.c_float(1.0), 0x3F800000),
        (ml_dtypes.bfloat16(1.0), 0x3F80),
        (np.uint32(0x7FA00001).view(np.float32), 0x7FA00001),  # a signalling NaN keeps its bits
    ],
)
def test_other_scalars_go_as_they_lie_in_memory(fake: SimpleNamespace, argument: Any, bits: int) -> None:
    device.Launcher(kernel_on(0, 1), (1,), (32,))(0x10, argument)
    assert fake.driver.launched[0][-1] == bits


@pytest.mark.parametrize("argument", ["text", None, object(), np.longdouble(1), np.datetime64(1, "s")])
def test_what_is_no_argument_is_refused_by_its_class(fake: SimpleNamespace, argument: object) -> None:
    with pytest.raises(DTypeError, match=type(argument).__name__):
        device.Launcher(kernel_on(0, 1), (1,), (32,))(0x10, argument)
    assert fake.driver.launched == []


def test_the_class_of_an_argument_counts_at_every_launch(fake: SimpleNamespace) -> None:
    launcher = device.Launcher(kernel_on(0, 1), (1,), (32,))
    for argument in (1, 1.0, np.float32(1), 1):
        launcher(0x10, argument)
    assert [launched[-1] for launched in fake.driver.launched] == [
        1, bits_of("d", 1.0), bits_of("f", 1.0), 1
    ]  # fmt: skip


@pytest.mark.parametrize("ordinal", [0, 1])
def test_with_several_devices_the_kernels_own_is_current(fake: SimpleNamespace, ordinal: int) -> None:
    fake.driver.contexts.append(100)
    device.Launcher(kernel_on(ordinal), (1,), (32,))(0x10)
    assert fake.driver.launched[0][8] == 100 + ordinal
    assert fake.driver.contexts == [100]


def test_a_warmed_launch_on_one_device_asks_the_driver_nothing(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    launcher = device.Launcher(kernel_on(0, 1), (1,), (32,))
    launcher(0x10, 1)
    calls = len(fake.driver.calls)
    launcher(0x10, 2)
    assert len(fake.driver.launched) == 2
    assert len(fake.driver.calls) == calls


def test_a_thread_without_a_context_gets_one_and_launches_once(fake: SimpleNamespace) -> None:
    fake.driver.devices, fake.driver.needs_context = 1, True
    device.Launcher(kernel_on(0), (1,), (32,))(0x10)
    assert [launched[8] for launched in fake.driver.launched] == [100]
    assert fake.driver.contexts == []


def test_other_errors_of_a_launch_are_not_tried_again(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    fake.driver.refuses.add("cuLaunchKernelEx")
    with pytest.raises(device.DriverError, match="INVALID_VALUE"):
        device.Launcher(kernel_on(0), (1,), (32,))(0x10)
    assert fake.driver.attempts == 1


def test_one_off_launches_keep_their_configuration(fake: SimpleNamespace) -> None:
    kernel = kernel_on(0)
    for _ in range(3):
        device.launch(kernel, (4,), (64,), 0x10, ())
    device.launch(kernel, (5,), (64,), 0x10, ())
    assert launcher_module._launcher.cache_info().misses == 2
    assert [launched[0] for launched in fake.driver.launched] == [4, 4, 4, 5]


@pytest.mark.parametrize("maps", [False, True])
def test_one_off_launches_may_begin_early_where_they_say_so(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, maps: bool
) -> None:
    """Kernels with tensor maps are bound, others are not; neither may be taken for its sibling."""
    monkeypatch.setattr(launcher_module, "EncodedMap", NoMap)
    kernel = kernel_on(0, 2 + maps, maps=int(maps))
    for programmatic in (True, False, True):
        launch_one(kernel, maps, programmatic=programmatic)
    assert [[told[:2] for told in one] for one in fake.driver.told] == [[(6, 1)], [], [(6, 1)]]


def launch_one(
    kernel: device.CompiledKernel, maps: bool, constants: tuple[int | float, ...] = (7,), **more: Any
) -> None:
    spec = device_map() if maps else ()
    device.launch(kernel, (1,), (32,), 0x10, (0x7000, *constants), maps=spec, pointers=1, **more)


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize(("one", "other"), [(0.0, -0.0), (1, 1.0)])
def test_constants_that_are_only_equal_are_different(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, maps: bool, one: float, other: float
) -> None:
    """As the lower bounds of two clamps are, 0.0 and -0.0."""
    monkeypatch.setattr(launcher_module, "EncodedMap", NoMap)
    kernel = kernel_on(0, 2 + maps, maps=int(maps))
    for constant in (one, other):
        launch_one(kernel, maps, (constant,))
    words = [bits_of("d" if isinstance(x, float) else "q", x) for x in (one, other)]
    assert [launched[-1] % 2**64 for launched in fake.driver.launched] == words
    assert words[0] != words[1]


def test_equal_kernels_of_different_loads_are_different(fake: SimpleNamespace) -> None:
    for ordinal in (0, 1):
        device.launch(kernel_on(ordinal), (4,), (64,), 0x10, ())
    assert [launched[8] for launched in fake.driver.launched] == [100, 101]


def test_after_a_fork_a_prepared_launch_is_refused(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = device.Launcher(kernel_on(0), (1,), (32,))
    monkeypatch.setattr(driver.Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        launcher(0x10)
    assert fake.driver.launched == []


def test_addresses_take_all_64_bits(fake: SimpleNamespace) -> None:
    highest = 2**64 - 256
    device.Launcher(kernel_on(0, 2), (1,), (32,))(0x10, highest, -1)
    device.Launcher(kernel_on(0, 2), (1,), (32,))(0x10, highest, np.longlong(-1))
    device.BoundLaunch(kernel_on(0, 2), (1,), (32,), 1, (-1,))(0x10, highest)
    assert [launched[-2:] for launched in fake.driver.launched] == [(-256, -1)] * 3
    with pytest.raises(struct.error):
        device.Launcher(kernel_on(0, 2), (1,), (32,))(0x10, 2**64, -1)


def test_threads_and_streams_keep_their_arguments_apart(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    launcher = device.Launcher(kernel_on(0, 2), (1,), (32,))

    def queue(number: int) -> None:
        for turn in range(50):
            launcher(0x100 + number, number, turn)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(queue, range(8)))
    seen = {(launched[7], *launched[-2:]) for launched in fake.driver.launched}
    assert seen == {(0x100 + n, n, turn) for n in range(8) for turn in range(50)}
