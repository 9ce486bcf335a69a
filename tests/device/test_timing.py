"""Races of bursts: turns, medians, and who takes part in later rounds."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mxgemm import device
from mxgemm.device import timing
from mxgemm.device.timing import Burst, Captured, Clock, race
from tests.autotune_fakes import TimedDriver, install


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> TimedDriver:
    return install(monkeypatch)


def bursts(on: TimedDriver, *names: str, calls: int = 4) -> dict[str, Burst]:
    def queue(name: str) -> None:
        for _ in range(calls):
            on.queue(name)

    return {name: Burst(lambda name=name: queue(name), calls) for name in names}


def test_a_time_is_of_one_call_and_the_bursts_take_turns_in_one_order_and_the_other(on: TimedDriver) -> None:
    on.microseconds = {"a": 10.0, "b": 12.0}.__getitem__
    with Clock(5, 0) as clock:
        found = race(bursts(on, "a", "b"), clock, seconds=1e-9)
    assert {name: one.microseconds for name, one in found.items()} == pytest.approx({"a": 10.0, "b": 12.0})
    warming = "aaaabbbb"
    assert "".join(on.ran) == warming + "aaaabbbb" + "bbbbaaaa" + "aaaabbbb"
    assert {one.bursts for one in found.values()} == {3}


def test_the_median_forgives_a_single_slow_burst(on: TimedDriver) -> None:
    times = iter([10.0] * 8 + [1000.0] * 4 + [10.0] * 1000)
    on.microseconds = lambda _: next(times)
    with Clock(5, 0) as clock:
        found = race(bursts(on, "a"), clock, seconds=1e9)
    assert found["a"] == timing.Timing(pytest.approx(10.0), 10)


def test_the_clearly_slower_leave_after_a_round_unless_they_are_wanted(on: TimedDriver) -> None:
    on.microseconds = {"fast": 10.0, "near": 12.9, "slow": 13.1, "wanted": 500.0}.__getitem__
    with Clock(5, 0) as clock:
        found = race(bursts(on, "fast", "near", "slow", "wanted"), clock, seconds=1e-9, always=("wanted",))
    assert {name: one.bursts for name, one in found.items()} == {"fast": 3, "near": 3, "slow": 1, "wanted": 3}


def test_time_left_makes_more_rounds_up_to_a_limit(on: TimedDriver) -> None:
    with Clock(5, 0) as clock:
        assert race(bursts(on, "a"), clock, seconds=1e9)["a"].bursts == 10


def test_the_cache_is_written_over_before_every_burst(on: TimedDriver) -> None:
    with Clock(5, 0) as clock:
        clock.milliseconds(lambda: on.queue("a"))
    order = [
        name for name in on.names() if name in ("cuMemsetD8Async", "cuEventRecord", "cuEventSynchronize")
    ]
    assert order[:4] == ["cuMemsetD8Async", "cuEventRecord", "cuEventRecord", "cuEventSynchronize"]


def test_what_was_made_is_destroyed(on: TimedDriver) -> None:
    with (
        timing.own_stream(0) as stream,
        Clock(stream, 0) as clock,
        Captured(lambda: on.queue("a"), stream, 0) as work,
    ):
        assert on.ran == []  # captured, not run
        assert clock.milliseconds(work) == pytest.approx(0.01)
    assert on.ran == ["a"]
    names = on.names()
    for made, ended in (("cuGraphInstantiate", "cuGraphExecDestroy"), ("cuStreamCreate", "cuStreamDestroy")):
        assert names.count(made) == names.count(ended) == 1
    assert names.count("cuGraphDestroy") == 1


def test_a_capture_that_fails_is_ended(on: TimedDriver) -> None:
    def fails() -> None:
        raise ValueError("a launch was refused")

    with pytest.raises(ValueError, match="refused"):
        Captured(fails, 5, 0)
    ends = [name for name in on.names() if name.startswith(("cuStream", "cuGraph"))]
    assert ends == ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphDestroy"]


@pytest.mark.gpu
def test_on_a_device_a_longer_write_takes_longer() -> None:
    from mxgemm.device import driver

    def filled(nbytes: int, stream: int) -> SimpleNamespace:
        buffer = device.allocate(nbytes, 0, stream)
        target, on = driver.handle("CUdeviceptr", buffer.pointer), driver.handle("CUstream", stream)
        return SimpleNamespace(
            buffer=buffer, run=lambda: driver.call("cuMemsetD8Async", target, 1, nbytes, on)
        )

    def graphs(stream: int) -> Iterator[tuple[str, SimpleNamespace]]:
        yield "short", filled(1 << 20, stream)
        yield "long", filled(1 << 30, stream)

    with timing.own_stream(0) as stream, Clock(stream, 0) as clock:
        made = dict(graphs(stream))
        captured = {name: Captured(one.run, stream, 0) for name, one in made.items()}
        found = race({name: Burst(one, 1) for name, one in captured.items()}, clock, seconds=0.05)
        for name, one in captured.items():
            one.__exit__(None, None, None)
            made[name].buffer.done(stream)
    assert found["long"].microseconds > 5 * found["short"].microseconds
