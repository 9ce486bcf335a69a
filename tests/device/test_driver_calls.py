"""The driver through ctypes: arguments where C has them, outputs back, everything else from the bindings."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from mxgemm.device import driver_calls
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
    driver = driver_of()
    assert driver.cuKernelGetParamInfo(0x7000, 3) == (0, 0x100000001, 0x100000002)
    assert library.inputs == [0x7000, 3]
    assert driver.cuMemAllocAsync(512, 0x20) == (0, 0x100000001)
    assert library.inputs == [512, 0x20]
    assert driver.cuStreamIsCapturing(0x20) == (0, 1)
    assert driver.cuLibraryGetKernel(0x30, b"k") == (0, 0x100000001)
    assert library.inputs == [0x30, b"k"]
    assert driver.cuCtxPushCurrent(0x1FFFFFFFF) == (0,)
    assert library.inputs == [0x1FFFFFFFF]


def test_handles_and_enumerators_of_the_bindings_go_as_numbers(library: Library) -> None:
    class Attribute(IntEnum):
        SHARED = 8

    class Stream:
        def __int__(self) -> int:
            return 0x55

    driver = driver_of()
    driver.cuMemFreeAsync(0x7000, Stream())
    assert library.inputs == [0x7000, 0x55]
    driver.cuKernelSetAttribute(Attribute.SHARED, 4096, 0x7000, 0)
    assert library.inputs == [8, 4096, 0x7000, 0]


def test_a_status_has_the_drivers_name(library: Library) -> None:
    library.status = 700
    status, _ = driver_of().cuDeviceGet(0)
    assert (status.value, status.name) == (700, "CUDA_ERROR_OF_A_TEST")
    assert Status(0).name == "CUDA_SUCCESS"


@pytest.mark.usefixtures("library")
def test_everything_else_is_asked_of_the_bindings() -> None:
    driver = driver_of(cuGraphLaunch=lambda *given: (0, *given))
    assert driver.cuGraphLaunch(1, 2) == (0, 1, 2)
    with pytest.raises(AttributeError):
        driver.cuNobodyKnows()


def test_without_a_driver_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_calls, "_LIBRARY", "libcuda-that-is-not-there.so.1")
    driver_calls._library.cache_clear()
    with pytest.raises(OSError, match="libcuda-that-is-not-there"):
        driver_of()
    driver_calls._library.cache_clear()


@pytest.mark.parametrize(
    "name", ["CUdevice_attribute", "CUfunction_attribute", "CUevent_flags", "CUstream_flags"]
)
def test_enumerators_are_those_of_the_bindings(name: str) -> None:
    bindings = pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")
    for enumerator, value in vars(getattr(Driver, name)).items():
        assert int(getattr(getattr(bindings, name), enumerator)) == value
