"""The library beside candidates: its calls are captured with theirs, on the stream that is timed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import candidates
from mxgemm import kernels
from mxgemm.autotune_measure import measure
from mxgemm.report import Case
from mxgemm.report.cases import Product
from tests.autotune_fakes import TimedDriver, install

CASE = Case(Product("float16", "float16", "native", 256, 384, 512))


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> TimedDriver:
    return install(monkeypatch)


def library(monkeypatch: pytest.MonkeyPatch, call: Any) -> list[Any]:
    """A torch whose product is ``call``; the log has streams that are entered and waited for."""
    log: list[Any] = []

    @contextmanager
    def stream(number: int) -> Any:
        log.append(("enter", number.handle))  # type: ignore[attr-defined]  # a fake stream
        yield

    def external(handle: int) -> Any:
        return SimpleNamespace(handle=handle, synchronize=lambda: log.append("wait"))

    torch = SimpleNamespace(cuda=SimpleNamespace(ExternalStream=external, stream=stream))
    subject = SimpleNamespace(torch_peer=lambda: call, sets=[{}, {}, {}])
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "benchmarks.subjects", SimpleNamespace(subject_of=lambda _: subject))
    return log


def test_a_call_runs_once_before_it_is_captured_and_rotates_the_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    log = library(monkeypatch, called.append)
    call = candidates.peers_of(CASE)[candidates.PEER](77)
    assert (called, log) == ([0], [("enter", 77), "wait"])
    for number in range(4):
        call(number)
    assert called == [0, 0, 1, 2, 0]
    assert log[2:] == [("enter", 77)] * 4


def test_what_the_library_lacks_has_no_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    library(monkeypatch, None)
    assert candidates.peers_of(CASE) == {}


def test_the_library_is_replayed_from_a_graph_in_every_round(
    monkeypatch: pytest.MonkeyPatch, on: TimedDriver
) -> None:
    called: list[int] = []

    def product(number: int) -> None:
        called.append(number)
        on.queue("library")

    library(monkeypatch, product)
    on.microseconds = lambda ran: 3000.0 if ran == "library" else 10.0
    asked = candidates.lowered(CASE, "sm_90", 132)
    chosen = kernels.lower(**asked).instance.entry
    times = measure(
        CASE.problem, kernels.candidates(**asked)[:3], 0,
        alignment=CASE.alignment, seconds=0.1, always=chosen, peers=candidates.peers_of(CASE),
    )  # fmt: skip
    assert times[candidates.PEER].microseconds == 3000.0
    assert times[candidates.PEER].bursts >= 3
    assert len(called) == 9  # one before, eight that are captured
    assert on.ran.count("library") > 3 * 8
