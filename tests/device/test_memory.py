"""Device memory is ordered by its stream, freed once, and never touched under capture."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from mxgemm import device
from mxgemm.device import memory
from mxgemm.errors import UnsupportedError


def frees(fake: SimpleNamespace) -> list[tuple[object, ...]]:
    """Calls that order or free memory."""
    ordering = ("cuCtxSynchronize", "cuStreamWaitEvent", "cuEventDestroy", "cuMemFreeAsync")
    return [call for call in fake.driver.calls if call[0] in ordering]


def test_a_buffer_goes_after_its_last_use_and_never_names_the_callers_stream(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 1, 0x10)
    assert (buffer.pointer, buffer.nbytes) == (0x7000, 100)
    buffer.done(0x10)
    assert ("cuEventRecord", 77, 0x10) in fake.driver.calls
    fake.driver.calls.clear()
    del buffer
    gc.collect()
    assert frees(fake) == [
        ("cuStreamWaitEvent", 55, 77, 0),
        ("cuEventDestroy", 77),
        ("cuMemFreeAsync", 0x7000, 55),
    ]
    assert fake.driver.contexts == []


def test_a_buffer_of_unknown_use_goes_with_a_later_allocation_and_not_in_its_finalizer(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_PENDING_COUNT", 2)
    for _ in range(2):
        buffer = device.allocate(100, 1, 0x10)
        del buffer
        gc.collect()
        assert frees(fake) == []
    device.allocate(100, 0, 0x10)
    assert frees(fake) == []
    kept = device.allocate(100, 1, 0x10)
    assert frees(fake) == [("cuCtxSynchronize",), *[("cuMemFreeAsync", 0x7000, 55)] * 2]
    fake.driver.calls.clear()
    device.allocate(100, 1, 0x10)
    assert frees(fake) == []
    assert kept.nbytes == 100


def test_much_memory_of_unknown_use_does_not_wait_for_a_count(fake: SimpleNamespace) -> None:
    buffer = device.allocate(memory._PENDING_BYTES, 0, 0x10)
    del buffer
    gc.collect()
    device.allocate(1, 0, 0x10)
    assert frees(fake) == [("cuCtxSynchronize",), ("cuMemFreeAsync", 0x7000, 55)]


def test_a_full_device_is_asked_again_after_freeing(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 0, 0x10)
    del buffer
    gc.collect()
    fake.driver.refuses.add("cuMemAllocAsync")
    with pytest.raises(device.DriverError, match="cuMemAllocAsync"):
        device.allocate(100, 0, 0x10)
    assert frees(fake) == [("cuCtxSynchronize",), ("cuMemFreeAsync", 0x7000, 55)]
    assert fake.driver.names().count("cuMemAllocAsync") == 3


def test_a_buffer_goes_beside_captures_and_the_threads_mode_comes_back(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 0, 0x10)
    buffer.done(0x10)
    del buffer
    gc.collect()
    modes = [call[1] for call in fake.driver.calls if call[0] == "cuThreadExchangeStreamCaptureMode"]
    assert modes == ["relaxed", "global"]


def test_zeroed_memory_is_filled_in_the_order_of_its_stream(fake: SimpleNamespace) -> None:
    assert device.allocate_zeroed(12, 0, 0x10).pointer == 0x7000
    assert ("cuMemsetD8Async", 0x7000, 0, 12, 0x10) in fake.driver.calls


@pytest.mark.parametrize("stream", [1, 0x10])
def test_borrowed_memory_comes_and_goes_in_its_streams_order(fake: SimpleNamespace, stream: int) -> None:
    fake.driver.devices = 1
    pointer = device.borrow(4096, 0, stream)
    assert pointer == 0x7000
    device.give_back(pointer, 0, stream)
    asked = [call for call in fake.driver.calls if call[0].startswith("cuMem")]
    assert asked == [("cuMemAllocAsync", 4096, stream), ("cuMemFreeAsync", 0x7000, stream)]


@pytest.mark.parametrize("stream", [1, 2])
def test_memory_for_a_fixed_stream_comes_from_the_device_that_is_asked(
    fake: SimpleNamespace, stream: int
) -> None:
    device.give_back(device.borrow(4096, 1, stream), 1, stream)
    asked = [call[0] for call in fake.driver.calls]
    assert asked.count("cuCtxPushCurrent") == asked.count("cuCtxPopCurrent") == 2
    for name in ("cuMemAllocAsync", "cuMemFreeAsync"):
        contexts = [call for call in fake.driver.calls[: asked.index(name)] if "CtxPushCurrent" in call[0]]
        assert contexts[-1] == ("cuCtxPushCurrent", 101)


def test_a_full_device_is_asked_again_for_borrowed_memory(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    buffer = device.allocate(100, 0, 0x10)
    del buffer
    gc.collect()
    fake.driver.refuses.add("cuMemAllocAsync")
    with pytest.raises(device.DriverError, match="cuMemAllocAsync"):
        device.borrow(4096, 0, 0x10)
    assert frees(fake) == [("cuCtxSynchronize",), ("cuMemFreeAsync", 0x7000, 55)]


def test_memory_that_a_stream_does_not_take_back_is_given_back_on_its_device(fake: SimpleNamespace) -> None:
    fake.driver.devices = 1
    fake.driver.refuses.add("cuMemFreeAsync")
    with pytest.raises(device.DriverError, match="cuMemFreeAsync"):
        device.give_back(0x7000, 0, 0x10)
    assert frees(fake) == [("cuMemFreeAsync", 0x7000, 0x10)] * 2
    assert fake.driver.contexts == []


def test_no_bytes_are_one_byte_for_the_driver(fake: SimpleNamespace) -> None:
    assert device.allocate(0, 0, 0x10).nbytes == 0
    assert ("cuMemAllocAsync", 1, 0x10) in fake.driver.calls


def test_a_buffer_of_a_broken_device_does_not_raise_when_it_goes(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 0, 0x10)
    buffer.done(0x10)
    fake.driver.refuses.add("cuMemFreeAsync")
    del buffer
    gc.collect()
    assert "cuMemFreeAsync" in fake.driver.names()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: device.allocate(8, 0, 0x10),
        lambda: device.copy_to_host(0x7000, 8, 0, 0x10),
        lambda: device.copy_to_device(0x7000, np.zeros(1), 0, 0x10),
    ],
)
def test_a_capturing_stream_takes_no_memory_operation(fake: SimpleNamespace, attempt: object) -> None:
    fake.driver.capturing.add(0x10)
    with pytest.raises(UnsupportedError, match="is capturing a CUDA graph"):
        attempt()  # type: ignore[operator]
    assert not [name for name in fake.driver.names() if name.startswith("cuMem")]


def test_a_copy_to_the_host_waits_for_its_stream(fake: SimpleNamespace) -> None:
    data = device.copy_to_host(0x7000, 16, 0, 0x10)
    assert (data.dtype, data.shape) == (np.uint8, (16,))
    copied = [call for call in fake.driver.calls if call[0] in ("cuMemcpyDtoHAsync", "cuStreamSynchronize")]
    assert copied == [
        ("cuMemcpyDtoHAsync", data.ctypes.data, 0x7000, 16, 0x10),
        ("cuStreamSynchronize", 0x10),
    ]


def test_a_copy_to_the_device_is_done_with_its_source_when_it_returns(fake: SimpleNamespace) -> None:
    source = np.arange(3.0)
    device.copy_to_device(0x7000, source, 0, 0x10)
    copied = [call for call in fake.driver.calls if call[0] in ("cuMemcpyHtoDAsync", "cuStreamSynchronize")]
    assert copied == [
        ("cuMemcpyHtoDAsync", 0x7000, source.ctypes.data, 24, 0x10),
        ("cuStreamSynchronize", 0x10),
    ]


def test_nothing_is_copied_for_arrays_without_elements(fake: SimpleNamespace) -> None:
    assert device.copy_to_host(0, 0, 0, 0x10).size == 0
    device.copy_to_device(0, np.zeros((0, 3)), 0, 0x10)
    assert not [name for name in fake.driver.names() if name.startswith("cuMemcpy")]
