"""A warmed launch queues one launch on the right device and stream, and does nothing else."""

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
from mxgemm.device import compiler, driver, launch_frame
from mxgemm.device import launcher as launcher_module
from mxgemm.device.tensor_map import TensorMap
from mxgemm.errors import DTypeError, UnsupportedError
from tests.device.fakes import Status, handle_of


def kernel_on(
    ordinal: int, parameters: int = 0, shared_bytes: int = 0, *, maps: int = 0
) -> device.CompiledKernel:
    """A fake kernel with so many parameters, tensor maps included."""
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())
    return device.CompiledKernel(cubin, ordinal, shared_bytes, handle_of(parameters, maps))


def parameters_of(count: int, ordinal: int = 0) -> device.CompiledKernel:
    """As :func:`kernel_on`, with shared memory."""
    return kernel_on(ordinal, count, 2048)


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


class NoMap:
    """A tensor map that nobody reads."""

    def __init__(self, _spec: object, _address: int) -> None:
        pass

    def aim(self, target: int) -> None:
        pass


def launch_one(
    kernel: device.CompiledKernel, maps: bool, constants: tuple[int | float, ...] = (7,), **more: Any
) -> None:
    spec = device_map() if maps else ()
    device.launch(kernel, (1,), (32,), 0x10, (0x7000, *constants), maps=spec, pointers=1, **more)


def device_map() -> tuple[tuple[int, TensorMap], ...]:
    return ((0, TensorMap("a", 2, (8, 8, 1), (16, 128), (8, 8, 1))),)


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
