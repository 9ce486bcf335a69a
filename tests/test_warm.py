"""Warmed calls: what recognises one, and when it must not be taken."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import array, device, warm
from mxgemm.errors import UnsupportedError
from mxgemm.policy import Policy
from mxgemm.warm import WarmCalls

BYTES = 64 * 64 * 2
KEYWORDS = (1, int, 0, int, False, False, None, None)


class FakeArray:
    """A device array as a fingerprint sees it."""

    def __init__(self, pointer: int, shape: tuple[int, ...] = (64, 64)) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides, self.dtype = shape, (128, 2), np.dtype(np.float16)


class FakeLaunch:
    """Remembers its launches."""

    kernel = SimpleNamespace(ordinal=0)

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def __call__(self, stream: int, *pointers: int) -> None:
        self.calls.append((stream, *pointers))


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(array._by_class, FakeArray, array._CUPY)
    monkeypatch.setattr(array, "stream_of", lambda *_: 7)
    monkeypatch.setattr(device, "refuse_capture", lambda *_: None)


def warmed(in_place: bool = False) -> tuple[WarmCalls, FakeLaunch, Any]:
    """Calls that know one product of 64x64 matrices, its launch, and a function that makes the call."""
    calls, launch, policy = WarmCalls(), FakeLaunch(), Policy()
    spans = (0, BYTES) * 4

    def call(a: int, b: int, d: int, c: int | None = None) -> bool:
        addend = None if c is None else FakeArray(c)
        key, pointers = calls.key(policy, (FakeArray(a), FakeArray(b), FakeArray(d), addend), KEYWORDS) or (
            None,
            (),
        )
        assert key is not None
        calls._calls.setdefault(
            key, warm._WarmCall(launch, lambda p: p[:4], spans, in_place, 0, None)  # type: ignore[arg-type]
        )  # fmt: skip
        return calls.run(key, pointers, None, None, policy)

    return calls, launch, call


def test_a_warmed_call_launches_with_its_own_pointers_and_stream() -> None:
    _, launch, call = warmed()
    assert call(1 << 20, 2 << 20, 3 << 20)
    assert call(4 << 20, 5 << 20, 6 << 20)
    assert launch.calls == [(7, 1 << 20, 2 << 20, 3 << 20, 0), (7, 4 << 20, 5 << 20, 6 << 20, 0)]


@pytest.mark.parametrize("shift", [0, BYTES - 16, 16 - BYTES])
@pytest.mark.parametrize("operand", [0, 1])
def test_an_out_that_meets_an_operand_is_not_warmed(operand: int, shift: int) -> None:
    _, launch, call = warmed()
    pointers = [1 << 20, 2 << 20]
    assert call(*pointers, 3 << 20)
    assert not call(*pointers, pointers[operand] + shift)
    assert len(launch.calls) == 1
    assert call(*pointers, pointers[operand] + (BYTES if shift >= 0 else -BYTES))


def test_c_in_place_and_c_apart_are_different_calls() -> None:
    _, _, call = warmed()
    assert call(1 << 20, 2 << 20, 3 << 20, 4 << 20)
    assert not call(1 << 20, 2 << 20, 3 << 20, 3 << 20)
    assert not call(1 << 20, 2 << 20, 3 << 20, (3 << 20) + 16)
    _, _, in_place = warmed(in_place=True)
    assert in_place(1 << 20, 2 << 20, 3 << 20, 3 << 20)
    assert not in_place(1 << 20, 2 << 20, 3 << 20, 4 << 20)


def test_whatever_decides_the_plan_is_part_of_the_key() -> None:
    calls, policy = WarmCalls(), Policy()
    a, b, d = (FakeArray(i << 20) for i in (1, 2, 3))
    keys = {calls.key(policy, (a, b, d, None), KEYWORDS)[0]}  # type: ignore[index]
    keys.add(calls.key(policy, (FakeArray((1 << 20) + 2), b, d, None), KEYWORDS)[0])  # type: ignore[index]
    keys.add(calls.key(policy, (FakeArray(1 << 20, (32, 64)), b, d, None), KEYWORDS)[0])  # type: ignore[index]
    keys.add(calls.key(policy, (a, b, d, FakeArray(4 << 20)), KEYWORDS)[0])  # type: ignore[index]
    keys.add(calls.key(policy, (a, b, d, None), (1.0, float, *KEYWORDS[2:]))[0])  # type: ignore[index]
    policy.accept_relaxed_accumulation(reason="a grant changes what runs")
    keys.add(calls.key(policy, (a, b, d, None), KEYWORDS)[0])  # type: ignore[index]
    assert len(keys) == 6


def test_arrays_without_a_fingerprint_are_never_warmed() -> None:
    x = np.ones((2, 2))
    assert WarmCalls().key(Policy(), (x, x, x, None), KEYWORDS) is None
    assert WarmCalls().new_result(Policy(), (x, x, None), KEYWORDS) == (None, None)


def test_the_oldest_calls_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_CAPACITY", 2)
    kept: dict[Any, int] = {}
    for i in range(4):
        warm._put(kept, (i,), i)
    assert kept == {(2,): 2, (3,): 3}


@pytest.mark.parametrize("transposes", [{"transpose_a": 1}, {"transpose_b": 0}])
def test_what_only_equals_a_bool_takes_the_road_that_refuses_it(transposes: dict[str, Any]) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a warmed call was looked for")

    x = np.ones((2, 2), np.int8)
    module = sys.modules["mxgemm.gemm"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._WARM, "key", never)
        with pytest.raises(UnsupportedError, match="transpose"):
            mx.gemm(x, x, out=np.empty((2, 2), np.int32), **transposes)
