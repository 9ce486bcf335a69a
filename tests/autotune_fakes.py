"""A device whose kernels take the times, and write the bits, that a test gives them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mxgemm import device, gpu
from mxgemm.device import driver, memory, properties, streams, timing
from mxgemm.policy import Policy
from tests.device.fakes import FakeDriver

NAME = "Fake H200"
LEAST = 1 << 40  # of addresses that the device gives


class TimedDriver(FakeDriver):
    """Streams run at once on a clock of their own; kernels are named by their entries.

    Attributes
    ----------
    microseconds : callable
        From a kernel's entry to the time of a launch.
    bits : callable
        From a kernel's entry to the byte that fills D.
    ran : list of str
        Entries of the kernels that ran, graphs included.
    early : dict of str to bool
        Whether the kernels that were launched one by one may begin before their predecessors end.
    written : set of int
        Addresses of device memory that were filled or given to kernels.
    """

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")

    def __init__(self) -> None:
        super().__init__(devices=1)
        self.microseconds: Callable[[str], float] = lambda _entry: 10.0
        self.bits: Callable[[str], int] = lambda _entry: 7
        self.ran: list[str] = []
        self.early: dict[str, bool] = {}
        self.written: set[int] = set()
        self.clock, self._next, self._last = 0.0, LEAST, ""
        self._events: dict[int, float] = {}
        self._graphs: dict[int, list[str]] = {}
        self._captured: list[str] | None = None

    def queue(self, entry: str) -> None:
        """A launch."""
        if self._captured is not None:
            self._captured.append(entry)
            return
        self.ran.append(entry)
        self.clock += self.microseconds(entry)
        self._last = entry

    def launch(
        self, kernel: Any, _grid: Any, _block: Any, _stream: int, arguments: tuple[Any, ...], **more: Any
    ) -> None:
        """In place of ``device.launch``; every argument that looks like an address is one."""
        self.written.update(value for value in arguments if isinstance(value, int) and value >= LEAST)
        self.early[kernel.entry] = more["programmatic"]
        self.queue(kernel.entry)

    def _number(self) -> int:
        self._next += 1 << 8
        return self._next

    def answer(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        match name, arguments:
            case "cuMemAllocAsync", (size, _):
                self._next += -(-size // 256) * 256
                return (self._next - (-(-size // 256) * 256),)
            case "cuEventCreate", _:
                return (self._number(),)
            case "cuEventRecord", (event, _):
                self._events[event] = self.clock
            case "cuEventElapsedTime", (begin, end):
                return ((self._events[end] - self._events[begin]) / 1e3,)
            case "cuStreamBeginCapture", _:
                self._captured = []
            case "cuStreamEndCapture", _:
                graph, self._captured = self._captured or [], None
                self._graphs[self._number()] = graph
                return (self._next,)
            case "cuGraphInstantiate", (graph, _):
                return (graph,)
            case "cuGraphLaunch", (graph, _):
                for entry in self._graphs[graph]:
                    self.queue(entry)
            case "cuMemcpyDtoHAsync", (target, _, size, _):
                ctypes.memset(target, self.bits(self._last), size)
            case (("cuMemsetD8Async" | "cuMemcpyDtoDAsync" | "cuMemcpyHtoDAsync"), (target, *_)):
                self.written.add(target)
            case _:
                return super().answer(name, arguments)
        return ()


class Prepared:
    """A launch that a warmed call keeps."""

    def __init__(self, on: TimedDriver, kernel: Any) -> None:
        self.kernel, self._on = kernel, on

    def queue(self, *_stream_and_pointers: int) -> None:
        self._on.queue(self.kernel.entry)


def use(patch: pytest.MonkeyPatch, policy: Policy) -> None:
    """Let the public functions run under a policy of the test's own."""
    for name in ("mxgemm.gemm", "mxgemm.autotune"):
        patch.setattr(sys.modules[name], "default_policy", lambda: policy)


def install(patch: pytest.MonkeyPatch, cache: str = "0") -> TimedDriver:
    """Put the device in place of CUDA; kernels are neither compiled nor loaded."""
    made = TimedDriver()
    patch.setenv("MXGEMM_CACHE_DIR", cache)
    patch.setattr(driver, "_driver", lambda: made)
    patch.setattr(driver, "_primary", {})
    patch.setattr(memory, "_streams", {})
    patch.setattr(memory, "_pending", memory._Pending())
    patch.setattr(timing, "time", SimpleNamespace(sleep=lambda _: None, perf_counter=lambda: made.clock))
    patch.setattr(
        gpu, "_compiled", lambda kernel, _ordinal, _stream: SimpleNamespace(entry=kernel.entry, ordinal=0)
    )
    patch.setattr(device, "launch", made.launch)
    patch.setattr(device, "BoundLaunch", lambda kernel, *_, **_more: Prepared(made, kernel))
    for module in (device, streams):
        patch.setattr(module, "is_capturing", lambda stream, _ordinal: stream in made.capturing)
    properties._read.cache_clear()
    gpu._lowered.cache_clear()
    gpu._unread.cache_clear()
    return made
