"""Times on the device: captured bursts of calls, in turn, by events of the driver.

Needs no library of arrays.  A burst follows a write of more bytes than the L2 cache holds, which empties
it of operands and lets the host queue the burst before the device reaches it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from mxgemm.device import driver, memory

__all__ = ["Burst", "Captured", "Clock", "Timing", "own_stream", "race"]

_FLUSHED = 256 << 20  # bytes; the largest L2 of today is half of it
_PAUSE = 0.01  # seconds, at most, for the device to cool down before a burst
_MOST_ROUNDS, _LEAST_ROUNDS = 9, 2


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of one call.

    Attributes
    ----------
    microseconds : float
        Median over the bursts.
    bursts : int
    """

    microseconds: float
    bursts: int


@dataclass(frozen=True, slots=True)
class Burst:
    """Calls that are timed together.

    Attributes
    ----------
    queue : callable
        Queues them on the stream that is timed.
    calls : int
    """

    queue: Callable[[], object]
    calls: int


@contextmanager
def own_stream(ordinal: int) -> Iterator[int]:
    """A stream that waits for no other, as a handle."""
    with driver.on_device(ordinal):
        made = driver.call("cuStreamCreate", int(driver.constant("CUstream_flags", "CU_STREAM_NON_BLOCKING")))
    try:
        yield int(made)
    finally:
        with driver.on_device(ordinal):
            driver.call("cuStreamSynchronize", made)
            driver.call("cuStreamDestroy", made)


class Captured:
    """Work as a CUDA graph, so that the host's cost is not timed; leave the context to destroy it.

    Parameters
    ----------
    work : callable
        Queues launches on ``stream`` and does nothing else.
    stream, ordinal : int
    """

    def __init__(self, work: Callable[[], object], stream: int, ordinal: int) -> None:
        self._ordinal, self._stream = ordinal, driver.handle("CUstream", stream)
        # Relaxed: what other threads do meanwhile, an allocation say, must neither fail nor break this.
        mode = driver.constant("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_RELAXED")
        with driver.on_device(ordinal), ExitStack() as end:
            driver.call("cuStreamBeginCapture", self._stream, mode)
            try:
                work()
            finally:
                graph = driver.call("cuStreamEndCapture", self._stream)
                end.callback(driver.call, "cuGraphDestroy", graph)
            self._ready = driver.call("cuGraphInstantiate", graph, 0)

    def __call__(self) -> None:
        """Queue the work on the stream that it was captured on."""
        with driver.on_device(self._ordinal):
            driver.call("cuGraphLaunch", self._ready, self._stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with driver.on_device(self._ordinal):
            driver.call("cuStreamSynchronize", self._stream)
            driver.call("cuGraphExecDestroy", self._ready)


class Clock:
    """Times work on one stream; leave the context to free its memory and events."""

    def __init__(self, stream: int, ordinal: int) -> None:
        self._ordinal, self._stream = ordinal, driver.handle("CUstream", stream)
        self._flushed = memory.allocate(_FLUSHED, ordinal, stream)
        with driver.on_device(ordinal):
            self._begin, self._end = (driver.call("cuEventCreate", 0) for _ in range(2))

    def milliseconds(self, work: Callable[[], object]) -> float:
        """Milliseconds of ``work`` on the device; waits for it."""
        with driver.on_device(self._ordinal):
            target: Any = driver.handle("CUdeviceptr", self._flushed.pointer)
            driver.call("cuMemsetD8Async", target, 0, _FLUSHED, self._stream)
            driver.call("cuEventRecord", self._begin, self._stream)
            work()
            driver.call("cuEventRecord", self._end, self._stream)
            driver.call("cuEventSynchronize", self._end)
            return float(driver.call("cuEventElapsedTime", self._begin, self._end))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flushed.done(int(self._stream))
        with driver.on_device(self._ordinal):
            driver.call("cuEventDestroy", self._begin)
            driver.call("cuEventDestroy", self._end)


def race(
    bursts: Mapping[str, Burst],
    clock: Clock,
    *,
    seconds: float,
    within: float = 1.3,
    always: Collection[str] = (),
) -> dict[str, Timing]:
    """Median times of bursts that take turns; what is clearly slower takes part in the first round only.

    Later rounds go through them in one order and then in the other: a burst inherits the clocks and the power
    of its predecessor (the same kernel took 0.91 or 1.00 of a time by what ran before it on an NVIDIA H200).

    Parameters
    ----------
    bursts : mapping of str to Burst
    clock : Clock
    seconds : float
        About as long as the rounds after the first may take, pauses included; there are two to nine.
    within : float
        Bursts take part in later rounds whose first time is within this factor of the least.
    always : collection of str
        Bursts that take part in every round, whatever their time.
    """

    def once(name: str) -> float:
        time.sleep(min(_PAUSE, 2e-3 * longest))
        return 1e3 * clock.milliseconds(bursts[name].queue) / bursts[name].calls

    longest = max(clock.milliseconds(burst.queue) for burst in bursts.values())
    times = {name: [once(name)] for name in bursts}
    limit = within * min(first for (first,) in times.values())
    racing = [name for name, (first,) in times.items() if first <= limit or name in always]
    begin, rounds = time.perf_counter(), 0
    while rounds < _LEAST_ROUNDS or (rounds < _MOST_ROUNDS and time.perf_counter() - begin < seconds):
        racing.reverse()  # the first round went forward
        for name in racing:
            times[name].append(once(name))
        rounds += 1
    return {name: Timing(statistics.median(found), len(found)) for name, found in times.items()}
