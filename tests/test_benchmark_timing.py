"""Sustained runs take turns on a busy device; on a made-up one with a clock of its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest


class Device:
    """Work takes the milliseconds that it is said to; what asks for a capture is refused."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.last = ""
        self.since = 0.0  # the last change from one callable to another
        self.log: list[str] = []

    def run(self, name: str, milliseconds: float, settling: float = 0.0) -> None:
        """A call; it takes twice as long for ``settling`` milliseconds after another's."""
        if name != self.last:
            self.last, self.since = name, self.clock
            self.log.append(name)
        self.clock += milliseconds * (2 if self.clock < self.since + settling else 1)

    def refuse(self) -> None:
        raise RuntimeError("no graphs here")

    @property
    def torch(self) -> Any:
        """What the module needs of torch."""
        device = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                self.at = 0.0

            def record(self) -> None:
                self.at = device.clock

            def synchronize(self) -> None:
                device.log.append("wait")

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        flushed = SimpleNamespace(zero_=lambda: None)
        graph = SimpleNamespace(capture_begin=self.refuse, capture_end=lambda: None)
        cuda = SimpleNamespace(
            Event=Event, CUDAGraph=lambda: graph, Stream=lambda: None, stream=lambda _: nullcontext(),
            synchronize=lambda: self.log.append("wait"), _sleep=lambda _: None,
        )  # fmt: skip
        return SimpleNamespace(cuda=cuda, uint8="uint8", empty=lambda *_, **__: flushed)


@pytest.fixture
def on() -> Device:
    return Device()


@pytest.fixture
def sustained(monkeypatch: pytest.MonkeyPatch, on: Device) -> Iterator[Callable[..., dict[str, float]]]:
    monkeypatch.setitem(sys.modules, "torch", on.torch)
    monkeypatch.delitem(sys.modules, "benchmarks.timing", raising=False)
    yield importlib.import_module("benchmarks.timing").sustained
    del sys.modules["benchmarks.timing"]


def test_turns_alternate_and_nothing_waits_between(on: Device, sustained: Any) -> None:
    calls = {"a": lambda _: on.run("a", 1.0), "b": lambda _: on.run("b", 0.5)}
    assert sustained(calls, 4) == pytest.approx({"a": 1000.0, "b": 500.0})
    waits = [i for i, one in enumerate(on.log) if one == "wait"]
    # a b, b a, a b, where the log has neighbours alike once.
    assert on.log[waits[-2] + 1 : waits[-1]] == ["a", "b", "a", "b"]


def test_what_a_change_costs_is_not_timed(on: Device, sustained: Any) -> None:
    calls = {name: lambda _, name=name: on.run(name, 1.0, settling=40.0) for name in "ab"}
    assert sustained(calls, 4) == pytest.approx({"a": 1000.0, "b": 1000.0})


@pytest.mark.parametrize("milliseconds", [0.01, 1.0, 6.0, 18.0])
def test_two_callables_take_less_than_a_second(on: Device, sustained: Any, milliseconds: float) -> None:
    calls = {name: lambda _, name=name: on.run(name, milliseconds) for name in "ab"}
    sustained(calls, 2)
    assert on.clock < 1000


def test_a_device_that_slows_down_favours_neither(on: Device, sustained: Any) -> None:
    calls = {name: lambda _, name=name: on.run(name, 1.0 + on.clock / 1e4) for name in "ab"}
    found = sustained(calls, 4)
    assert found["a"] == pytest.approx(found["b"], rel=0.02)
