"""Device memory is ordered by its stream, freed once, and never touched under capture."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from mxgemm import device
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


def test_a_buffer_of_unknown_use_waits_for_the_device(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 1, 0x10)
    del buffer
    gc.collect()
    assert frees(fake) == [("cuCtxSynchronize",), ("cuMemFreeAsync", 0x7000, 55)]


def test_a_buffer_freed_by_hand_is_freed_once(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 1, 0x10)
    buffer.free(0x10)
    del buffer
    gc.collect()
    assert frees(fake) == [("cuMemFreeAsync", 0x7000, 0x10)]


def test_no_bytes_are_one_byte_for_the_driver(fake: SimpleNamespace) -> None:
    assert device.allocate(0, 0, 0x10).nbytes == 0
    assert ("cuMemAllocAsync", 1, 0x10) in fake.driver.calls


def test_a_buffer_of_a_broken_device_does_not_raise_when_it_goes(fake: SimpleNamespace) -> None:
    buffer = device.allocate(100, 0, 0x10)
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
