"""The driver through ctypes: arguments where C has them, outputs back, everything else from the bindings."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from mxgemm.device import driver, driver_calls, memory, streams
from mxgemm.device.driver_calls import CALLS, Driver, Status

_C = {
    "i": ctypes.c_int, "I": ctypes.c_uint, "B": ctypes.c_ubyte, "L": ctypes.c_uint64, "P": ctypes.c_void_p,
    "s": ctypes.c_char_p,
}  # fmt: skip


class Library:
    """What a driver's library exports: functions that note their inputs and count through their outputs."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []
        self.status = 0
        for exported, arguments in CALLS.values():
            kinds = arguments.split()
            setattr(self, exported, self._function(kinds))
        self.cuGetErrorName = self._named(b"CUDA_ERROR_OF_A_TEST")

    def _function(self, kinds: list[str]) -> Any:
        def called(*given: Any) -> int:
            number = 0x100000001
            self.inputs = []
            for kind, value in zip(kinds, given, strict=True):
                if kind[0] == "*":
                    _C[kind[1]].from_address(value).value = number & (1 << 8 * ctypes.sizeof(_C[kind[1]])) - 1
                    number += 1
                else:
                    self.inputs.append(value)
            return self.status

        declared = [ctypes.c_void_p if kind[0] == "*" else _C[kind] for kind in kinds]
        return ctypes.CFUNCTYPE(ctypes.c_int, *declared)(called)

    @staticmethod
    def _named(text: bytes) -> Any:
        kept = ctypes.c_char_p(text)

        def called(_status: int, found: int) -> int:
            ctypes.memmove(found, ctypes.addressof(kept), 8)
            return 0

        return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(called)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(driver_calls, "_library", lambda: made)
    return made


def driver_of(**bindings: Any) -> Driver:
    return Driver(lambda: SimpleNamespace(**bindings))


def test_outputs_come_back_wherever_c_has_them(library: Library) -> None:
    made = driver_of()
    assert made.cuKernelGetParamInfo(0x7000, 3) == (0, 0x100000001, 0x100000002)
    assert library.inputs == [0x7000, 3]
    assert made.cuMemAllocAsync(512, 0x20) == (0, 0x100000001)
    assert library.inputs == [512, 0x20]
    assert made.cuStreamIsCapturing(0x20) == (0, 1)
    assert made.cuLibraryGetKernel(0x30, b"k") == (0, 0x100000001)
    assert library.inputs == [0x30, b"k"]
    assert made.cuCtxPushCurrent(0x1FFFFFFFF) == (0,)
    assert library.inputs == [0x1FFFFFFFF]


def test_the_mode_of_captures_goes_in_and_the_one_before_comes_back(library: Library) -> None:
    given: list[int] = []

    def exchange(place: int) -> int:
        mode = ctypes.c_int.from_address(place)
        given.append(mode.value)
        mode.value = 1
        return 0

    library.cuThreadExchangeStreamCaptureMode = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(exchange)
    assert driver_of().cuThreadExchangeStreamCaptureMode(2) == (0, 1)
    assert given == [2]


def test_handles_and_enumerators_of_the_bindings_go_as_numbers(library: Library) -> None:
    class Attribute(IntEnum):
        SHARED = 8

    class Stream:
        def __int__(self) -> int:
            return 0x55

    made = driver_of()
    made.cuMemFreeAsync(0x7000, Stream())
    assert library.inputs == [0x7000, 0x55]
    made.cuKernelSetAttribute(Attribute.SHARED, 4096, 0x7000, 0)
    assert library.inputs == [8, 4096, 0x7000, 0]


def test_a_status_has_the_drivers_name(library: Library) -> None:
    library.status = 700
    status, _ = driver_of().cuDeviceGet(0)
    assert (status.value, status.name) == (700, "CUDA_ERROR_OF_A_TEST")
    assert Status(0).name == "CUDA_SUCCESS"


def test_workspace_comes_and_goes_without_the_bindings(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing them would take longer than all else of a first product that arranges an operand."""

    def bindings() -> Any:
        raise AssertionError("the bindings were imported")

    library.cuThreadExchangeStreamCaptureMode = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
    made = Driver(bindings)
    monkeypatch.setattr(driver, "_driver", lambda: made)
    monkeypatch.setattr(streams, "is_capturing", lambda *_: False)
    monkeypatch.setattr(memory, "_streams", {})
    buffer = memory.allocate(512, 1, 0x20)  # the device that this library says is current
    buffer.done(0x20)
    memory._end(buffer._fate)
    assert library.inputs == [buffer.pointer, memory._streams[1]]


@pytest.mark.usefixtures("library")
def test_everything_else_is_asked_of_the_bindings() -> None:
    made = driver_of(cuGraphLaunch=lambda *given: (0, *given))
    assert made.cuGraphLaunch(1, 2) == (0, 1, 2)
    with pytest.raises(AttributeError):
        made.cuNobodyKnows()


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_calls, "_LIBRARY", "libcuda-that-is-not-there.so.1")
    driver_calls._library.cache_clear()
    with pytest.raises(OSError, match="libcuda-that-is-not-there"):
        driver_of()
    driver_calls._library.cache_clear()


@pytest.mark.parametrize(
    "name",
    ["CUdevice_attribute", "CUfunction_attribute", "CUevent_flags", "CUstream_flags", "CUstreamCaptureMode"],
)
def test_enumerators_are_those_of_the_bindings(name: str) -> None:
    bindings = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    for enumerator, value in vars(getattr(Driver, name)).items():
        assert int(getattr(getattr(bindings, name), enumerator)) == value
