"""Times on the device: bursts of calls and sustained runs of several callables, in turn."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

Call = Callable[[int], object]  # of the number of the operand set

BURST = 8
TURN = 0.1  # seconds of a turn of a sustained run, about
FLUSHED = 192 << 20  # bytes; more than the L2 cache
SPIN = 200_000  # cycles during which the host gets ahead of the device


class Repeated:
    """``count`` calls on operand sets in turn, as a CUDA graph where they can be captured.

    A graph leaves the host's cost out, which is measured apart.
    """

    def __init__(self, call: Call, sets: int, count: int, *, graphs: bool) -> None:
        self.count, self.graph = count, None
        self._calls = [lambda i=i: call(i % sets) for i in range(count)]
        self._eager()
        torch.cuda.synchronize()
        if graphs:
            self.graph = _captured(self._eager)

    def _eager(self) -> None:
        for one in self._calls:
            one()

    def __call__(self) -> None:
        if self.graph is None:
            self._eager()
        else:
            self.graph.replay()


def _captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph | None:
    """``work`` as a graph; None when it cannot be captured."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin()
            try:
                work()
            finally:
                graph.capture_end()
    except (RuntimeError, ValueError) as error:
        print(f"not captured: {str(error)[:200]}", flush=True)
        torch.cuda.synchronize()
        return None
    return graph


_flush: list[Any] = []


def _flushed() -> None:
    if not _flush:
        _flush.append(torch.empty(FLUSHED, dtype=torch.uint8, device="cuda"))
    _flush[0].zero_()


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds of ``work`` on the device, caches flushed before."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    _flushed()
    torch.cuda._sleep(SPIN)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end))


def bursts(
    calls: Mapping[str, Call], sets: int, *, seconds: float = 0.25, graphs: bool = True
) -> dict[str, float]:
    """Microseconds of one call in a burst: the median of several bursts, the callables in turn."""
    ready = _repeated(calls, sets, graphs=graphs)
    first = max(_timed(one) for one in ready.values()) / 1e3
    rounds = min(9, max(3, int(seconds / first / len(ready))))
    pause = min(0.01, 2 * first)
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, one in ready.items():
            time.sleep(pause)
            times[name].append(_timed(one))
    return {name: 1e3 * statistics.median(found) / ready[name].count for name, found in times.items()}


def sustained(calls: Mapping[str, Call], sets: int, *, seconds: float = 0.3) -> dict[str, float]:
    """Microseconds of one call while the device is kept busy: the median of several turns.

    The callables take turns of about 0.1 s, in one order and in the other, for about ``seconds`` each.
    Nothing waits between turns, and the first half of each is not timed: by then the clock is that of
    the callable's own power.
    """
    rounds = max(3, round(seconds / TURN))
    half = seconds / rounds / 2
    ready = _repeated(calls, sets, graphs=True, slow=1e3 * half / BURST)
    repeats = {name: max(1, int(half / max(_timed(one) / 1e3, 1e-6))) for name, one in ready.items()}
    turns: dict[str, list[tuple[Any, Any]]] = {name: [] for name in ready}
    for number in range(rounds):
        for name in list(ready)[:: -1 if number % 2 else 1]:
            turns[name].append(_turn(ready[name], repeats[name]))
    torch.cuda.synchronize()
    return {
        name: 1e3 * statistics.median(begin.elapsed_time(end) for begin, end in found)
        / repeats[name] / ready[name].count
        for name, found in turns.items()
    }  # fmt: skip


def _turn(one: Repeated, repeats: int) -> tuple[Any, Any]:
    """Queue ``one`` so many times untimed, then timed; the events around the latter."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(repeats):
        one()
    begin.record()
    for _ in range(repeats):
        one()
    end.record()
    return begin, end


def _repeated(
    calls: Mapping[str, Call], sets: int, *, graphs: bool, slow: float = 20.0
) -> dict[str, Repeated]:
    """Bursts of eight, of two where one call takes ``slow`` milliseconds or more."""
    slowest = 0.0
    for call in calls.values():
        call(0)
        slowest = max(slowest, _timed(lambda call=call: call(0)))
    count = BURST if slowest < slow else 2
    return {name: Repeated(call, sets, count, graphs=graphs) for name, call in calls.items()}


def host_microseconds(
    calls: Mapping[str, Callable[[], object]], *, count: int = 2000, rounds: int = 7
) -> dict[str, float]:
    """Microseconds of host time of one call: medians of loops in turn, with an idle device before each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            call()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - begin) / count * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(found) for name, found in times.items()}
