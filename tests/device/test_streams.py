"""Streams of every library become handles, order is made by events, and who captures is asked."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from mxgemm import device
from mxgemm.errors import UnsupportedError


class Protocol:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x50


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0x10, 0x10),
        (0, device.LEGACY),
        (device.PER_THREAD, device.PER_THREAD),
        (SimpleNamespace(ptr=0x20), 0x20),  # CuPy
        (SimpleNamespace(ptr=0), device.LEGACY),
        (SimpleNamespace(cuda_stream=0x30), 0x30),  # torch
        (SimpleNamespace(handle=ctypes.c_void_p(0x40)), 0x40),  # Numba
        (SimpleNamespace(handle=ctypes.c_void_p(0)), device.LEGACY),
        (Protocol(), 0x50),
        (SimpleNamespace(__cuda_stream__=(0, 0x60)), 0x60),  # as an attribute, as CuPy 13 has it
    ],
)
def test_every_librarys_stream_has_a_handle(stream: object, handle: int) -> None:
    assert device.stream_handle(stream) == handle


@pytest.mark.parametrize("stream", ["default", 1.5, True, -1, 2**64, object(), None])
def test_what_is_no_stream_is_refused_by_name(stream: object) -> None:
    with pytest.raises(UnsupportedError, match="no CUDA stream"):
        device.stream_handle(stream)


def test_order_is_an_event_recorded_on_the_producer_and_awaited(fake: SimpleNamespace) -> None:
    device.order_after(0x10, 0x20, 0)
    made = [call for call in fake.driver.calls if "Event" in call[0]]
    assert made == [
        ("cuEventCreate", 2),
        ("cuEventRecord", 77, 0x20),
        ("cuStreamWaitEvent", 0x10, 77, 0),
        ("cuEventDestroy", 77),
    ]


def test_a_stream_needs_no_order_with_itself(fake: SimpleNamespace) -> None:
    device.order_after(0x10, 0x10, 0)
    assert fake.driver.calls == []


@pytest.mark.parametrize("capturing", [0x10, 0x20])
def test_order_across_the_edge_of_a_capture_is_refused(fake: SimpleNamespace, capturing: int) -> None:
    fake.driver.capturing.add(capturing)
    with pytest.raises(UnsupportedError, match="capturing a CUDA graph"):
        device.order_after(0x10, 0x20, 0)
    assert "cuEventRecord" not in fake.driver.names()


@pytest.mark.parametrize(("devices", "stream", "pushes"), [(1, 1, 0), (2, 1, 1), (2, 2, 1), (2, 0x10, 0)])
def test_a_context_is_made_current_only_for_streams_that_every_device_has(
    fake: SimpleNamespace, devices: int, stream: int, pushes: int
) -> None:
    fake.driver.devices = devices
    fake.driver.capturing.add(stream)
    assert device.is_capturing(stream, 0)
    assert fake.driver.names().count("cuCtxPushCurrent") == pushes
    fake.driver.capturing.clear()
    assert not device.is_capturing(stream, 0)


def test_a_refused_question_is_asked_again_with_the_device_current(fake: SimpleNamespace) -> None:
    """A thread that never used CUDA has no context; other refusals are the driver's to name."""
    fake.driver.refuses.add("cuStreamIsCapturing")
    with pytest.raises(device.DriverError, match="cuStreamIsCapturing"):
        device.is_capturing(0x10, 0)
    assert "cuCtxPushCurrent" in fake.driver.names()


def test_waiting_for_a_capturing_stream_is_refused(fake: SimpleNamespace) -> None:
    fake.driver.capturing.add(0x10)
    with pytest.raises(UnsupportedError, match="end the capture first"):
        device.synchronize(0x10, 0)
    device.synchronize(0x20, 0)
    assert fake.driver.calls[-2] == ("cuStreamSynchronize", 0x20)
