"""Warmed calls: what recognises one, and when it must not be taken."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import array, device, warm
from mxgemm.errors import UnsupportedError
from mxgemm.policy import Policy
from mxgemm.road import Begun
from mxgemm.warm import WarmCalls

BYTES = 64 * 64 * 2
KEYWORDS = (int, int, type(None), type(None), 1, 0, False, False, None, None, None)
STREAM, RESULT, BORROWED = 7, 9 << 20, 8 << 20


class FakeArray:
    """A device array as a fingerprint sees it."""

    def __init__(self, pointer: int, shape: tuple[int, ...] = (64, 64), dtype: Any = np.float16) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides, self.dtype = shape, (128, 2), np.dtype(dtype)


class World:
    """Calls that know one product of 64x64 matrices, and what its launches, memory and streams saw."""

    def __init__(self, *, in_place: bool = False, workspace_bytes: int = 0, launches: int = 1) -> None:
        self.calls, self.policy = WarmCalls(), Policy()
        self.seen: list[tuple[Any, ...]] = []
        self.capturing = False
        self.result = RESULT
        self._made = warm._WarmCall(
            tuple(self._queue(i) for i in range(launches)), 0, lambda: STREAM,
            lambda _a: (FakeArray(self.result), self.result), (0, BYTES),
            tuple((place, 0, BYTES) for place in (0, 1, *([] if in_place else [3]), 4, 6, 7)), in_place,
            workspace_bytes, None,  # type: ignore[arg-type]  # nobody listens
        )  # fmt: skip

    def _queue(self, number: int) -> Any:
        return SimpleNamespace(
            queue=lambda stream, pointers: self.seen.append((number, stream, *pointers)),
            fixed=lambda *_: None,
        )

    def borrow(self, nbytes: int, _ordinal: int, stream: int) -> int:
        self.seen.append(("borrow", nbytes, stream))
        return BORROWED

    def give_back(self, pointer: int, _ordinal: int, stream: int) -> None:
        self.seen.append(("give back", pointer, stream))

    def refuse_capture(self, _stream: int, _ordinal: int, what: str) -> None:
        if self.capturing:
            raise UnsupportedError(what)

    def __call__(self, a: int, b: int, d: int | None, c: int | None = None, **more: Any) -> Any:
        """The call's result; None when it was not a warmed one."""
        bias, rows, cols = (more.get(name) for name in ("bias", "rows", "cols"))
        *arrays, to_bias, to_rows, to_cols = [
            None if at is None else FakeArray(at) for at in (a, b, c, d, bias, rows, cols)
        ]
        scales = None if rows is None and cols is None else (to_rows, to_cols)
        work = more.get("workspace")
        brought = None if work is None else FakeArray(work, (4096,), np.uint8)
        rest = (to_bias, scales, brought, more.get("stream"), KEYWORDS)
        known = self.calls._known.calls
        if not known or more.get("new_key"):
            result, key = self.calls.attempt(self.policy, *arrays, *rest)
            assert result is None
            assert key is not None
            known[key] = self._made
        return self.calls.attempt(self.policy, *arrays, *rest)[0]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a :class:`World` in place of the device."""
    monkeypatch.setitem(array.LIBRARIES, FakeArray, array._CUPY)

    def make(**facts: Any) -> World:
        made = World(**facts)
        monkeypatch.setattr(device, "refuse_capture", made.refuse_capture)
        monkeypatch.setattr(device, "is_capturing", lambda *_: made.capturing)
        monkeypatch.setattr(device, "borrow", made.borrow)
        monkeypatch.setattr(device, "give_back", made.give_back)
        return made

    return make


def test_a_warmed_call_launches_with_its_own_pointers_and_stream(world: Any) -> None:
    call = world()
    assert call(1 << 20, 2 << 20, 3 << 20).data.ptr == 3 << 20
    call(4 << 20, 5 << 20, 6 << 20, stream=0x99)
    assert call.seen == [
        (0, STREAM, 1 << 20, 2 << 20, 3 << 20, 0, 0, 0, 0, 0),
        (0, 0x99, 4 << 20, 5 << 20, 6 << 20, 0, 0, 0, 0, 0),
    ]


def test_several_launches_run_in_order(world: Any) -> None:
    call = world(launches=3)
    call(1 << 20, 2 << 20, 3 << 20)
    assert [seen[0] for seen in call.seen] == [0, 1, 2]


@pytest.mark.parametrize("shift", [0, BYTES - 16, 16 - BYTES])
@pytest.mark.parametrize("operand", [0, 1])
def test_an_out_that_meets_an_operand_is_not_warmed(world: Any, operand: int, shift: int) -> None:
    call = world()
    pointers = [1 << 20, 2 << 20]
    assert call(*pointers, 3 << 20)
    assert call(*pointers, pointers[operand] + shift) is None
    assert len(call.seen) == 1
    assert call(*pointers, pointers[operand] + (BYTES if shift >= 0 else -BYTES))


def test_what_overlaps_is_looked_at_again_when_pointers_change_back(world: Any) -> None:
    call = world()
    for _ in range(2):
        assert call(1 << 20, 2 << 20, 3 << 20)
        assert call(1 << 20, 2 << 20, 1 << 20) is None


def test_c_in_place_and_c_apart_are_different_calls(world: Any) -> None:
    call = world()
    assert call(1 << 20, 2 << 20, 3 << 20, 4 << 20)
    assert call(1 << 20, 2 << 20, 3 << 20, 3 << 20) is None
    assert call(1 << 20, 2 << 20, 3 << 20, (3 << 20) + 16) is None
    in_place = world(in_place=True)
    assert in_place(1 << 20, 2 << 20, 3 << 20, 3 << 20)
    assert in_place(1 << 20, 2 << 20, 3 << 20, 4 << 20) is None


@pytest.mark.parametrize("name", ["c", "bias", "rows", "cols"])
def test_what_meets_the_result_or_the_workspace_is_not_warmed(world: Any, name: str) -> None:
    call, places = world(workspace_bytes=4096), (1 << 20, 2 << 20, 3 << 20)
    assert call(*places, **{name: 4 << 20})
    for inside in (3 << 20, (3 << 20) + BYTES - 16, (3 << 20) + 16 - BYTES):
        assert call(*places, **{name: inside}) is None
    assert call(*places, **{name: (3 << 20) + BYTES})
    assert call(*places, **{name: 4 << 20}, workspace=5 << 20, new_key=True)
    for inside in (4 << 20, (4 << 20) + BYTES - 16, (4 << 20) + 16 - 4096):
        assert call(*places, **{name: 4 << 20}, workspace=inside) is None
    assert call(*places, **{name: 4 << 20}, workspace=(4 << 20) + BYTES)


def test_workspace_that_nothing_needs_may_lie_anywhere(world: Any) -> None:
    assert world()(1 << 20, 2 << 20, 3 << 20, workspace=(3 << 20) + 16)


def test_every_address_has_its_place(world: Any) -> None:
    call = world()
    places = {name: i << 20 for i, name in enumerate(("c", "bias", "workspace", "rows", "cols"), 4)}
    assert call(1 << 20, 2 << 20, 3 << 20, **places)
    assert call.seen == [(0, STREAM, *(i << 20 for i in range(1, 9)))]


# Workspace


def test_workspace_is_taken_and_given_back_in_the_streams_order(world: Any) -> None:
    call = world(workspace_bytes=4096, launches=2)
    assert call(1 << 20, 2 << 20, 3 << 20)
    assert [seen[0] for seen in call.seen] == ["borrow", 0, 1, "give back"]
    assert call.seen[0] == ("borrow", 4096, STREAM)
    assert {seen[7] for seen in call.seen[1:3]} == {BORROWED}
    assert call.seen[3] == ("give back", BORROWED, STREAM)


def test_the_callers_workspace_is_used_where_there_is_one(world: Any) -> None:
    call = world(workspace_bytes=4096)
    assert call(1 << 20, 2 << 20, 3 << 20, workspace=4 << 20)
    assert [seen[7] for seen in call.seen] == [4 << 20]
    call.capturing = True
    assert call(1 << 20, 2 << 20, 3 << 20, workspace=4 << 20)


def test_workspace_is_given_back_when_a_launch_fails(world: Any) -> None:
    call = world(workspace_bytes=4096)

    def refuse(*_: Any) -> None:
        raise device.DriverError("to launch k", "CUDA_ERROR_INVALID_VALUE")

    call._made = replace(call._made, launches=(SimpleNamespace(queue=refuse),))
    with pytest.raises(device.DriverError):
        call(1 << 20, 2 << 20, 3 << 20)
    assert [seen[0] for seen in call.seen] == ["borrow", "give back"]


def test_a_captured_call_that_needs_workspace_takes_the_ordinary_road(world: Any) -> None:
    call = world(workspace_bytes=4096)
    assert call(1 << 20, 2 << 20, 3 << 20)
    call.seen.clear()
    call.capturing = True
    assert call(1 << 20, 2 << 20, 3 << 20) is None
    assert call.seen == []
    without = world()
    without.capturing = True
    assert without(1 << 20, 2 << 20, 3 << 20)


# New results


def test_a_call_without_out_makes_its_result(world: Any) -> None:
    call = world()
    assert call(1 << 20, 2 << 20, None).data.ptr == RESULT
    assert [seen[4] for seen in call.seen] == [RESULT]


def test_a_result_is_not_allocated_under_capture(world: Any) -> None:
    call = world()
    call(1 << 20, 2 << 20, None)
    call.capturing = True
    with pytest.raises(UnsupportedError, match="out="):
        call(1 << 20, 2 << 20, None)
    assert len(call.seen) == 1


def test_a_result_from_an_allocator_of_another_alignment_is_not_warmed(world: Any) -> None:
    call = world()
    call.result = RESULT + 8
    assert call(1 << 20, 2 << 20, None) is None
    assert call.seen == []


def test_a_result_for_another_stream_is_not_the_librarys_to_allocate(world: Any) -> None:
    call = world()
    assert call(1 << 20, 2 << 20, None)
    assert call(1 << 20, 2 << 20, None, stream=0x99) is None
    empty, arrays = WarmCalls(), (FakeArray(1 << 20), FakeArray(2 << 20))
    assert empty.attempt(Policy(), *arrays, None, None, None, None, None, 0x99, KEYWORDS) == (None, None)


# What a key holds


def key_of(policy: Policy, *arrays: Any, keywords: Any = KEYWORDS, **more: Any) -> Any:
    a, b, d, c = arrays
    scales = (more.get("rows"), more.get("cols")) if {"rows", "cols"} & set(more) else None
    return WarmCalls().attempt(
        policy, a, b, c, d, more.get("bias"), scales, more.get("workspace"), None, keywords
    )[1]


@pytest.mark.usefixtures("world")
def test_whatever_decides_the_plan_is_part_of_the_key(world: Any) -> None:
    world()
    policy = Policy()
    a, b, d = (FakeArray(i << 20) for i in (1, 2, 3))
    work = FakeArray(5 << 20, (4096,), np.uint8)
    terms = [
        FakeArray(6 << 20), FakeArray((6 << 20) + 2), FakeArray(6 << 20, (64,)),
        FakeArray(6 << 20, dtype=np.int16), turned := FakeArray(6 << 20), elsewhere := FakeArray(6 << 20),
    ]  # fmt: skip
    turned.strides, elsewhere.data.device_id = (2, 128), 1
    keys = [
        key_of(policy, a, b, d, None),
        key_of(policy, FakeArray((1 << 20) + 2), b, d, None),
        key_of(policy, FakeArray(1 << 20, (32, 64)), b, d, None),
        key_of(policy, FakeArray(1 << 20, dtype=np.int16), b, d, None),
        key_of(policy, a, b, FakeArray((3 << 20) + 2), None),
        key_of(policy, a, b, None, None),
        key_of(policy, a, b, d, FakeArray(4 << 20)),
        key_of(policy, a, b, d, None, workspace=work),
        key_of(policy, a, b, d, None, workspace=FakeArray((5 << 20) + 1, (4096,), np.uint8)),
        key_of(policy, a, b, d, None, workspace=FakeArray(5 << 20, (4095,), np.uint8)),
        key_of(policy, a, b, d, None, keywords=(float, *KEYWORDS[1:4], 1.0, *KEYWORDS[5:])),
        *(key_of(policy, a, b, d, None, **{name: x}) for name in ("bias", "rows", "cols") for x in terms),
        key_of(policy, a, b, d, None, rows=terms[0], cols=terms[0]),
        key_of(policy, a, b, d, terms[0], bias=terms[0]),
    ]
    policy.accept_relaxed_accumulation(reason="a grant changes what runs")
    keys.append(key_of(policy, a, b, d, None))
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key_of(policy, FakeArray(7 << 20), b, d, None) == keys[-1]


def test_arrays_without_a_fingerprint_are_never_warmed(world: Any) -> None:
    world()
    x, y = np.ones((2, 2)), FakeArray(1 << 20)
    for arrays in ((x, y, y, None), (y, x, y, None), (y, y, x, None), (y, y, y, x)):
        assert key_of(Policy(), *arrays) is None
    for name in ("workspace", "bias", "rows", "cols"):
        assert key_of(Policy(), y, y, y, None, **{name: x}) is None


def test_a_keyword_without_a_hash_is_left_to_the_road_that_names_it(world: Any) -> None:
    world()
    y = FakeArray(1 << 20)
    keywords = (*KEYWORDS[:2], list, *KEYWORDS[3:8], ["native"], None)
    assert key_of(Policy(), y, y, y, None, keywords=keywords) is None


# What is kept


def remember(calls: WarmCalls, monkeypatch: pytest.MonkeyPatch, *keys: int, version: int = 0) -> None:
    monkeypatch.setattr(warm, "_prepare", lambda begun: begun)
    for key in keys:
        calls.remember((key,), f"call {key}", version)  # type: ignore[arg-type]  # what _prepare made


def test_the_oldest_calls_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_CAPACITY", 2)
    calls = WarmCalls()
    remember(calls, monkeypatch, 0, 1, 2, 3)
    assert calls._known.calls == {(2,): "call 2", (3,): "call 3"}


def test_a_plan_from_before_everything_was_forgotten_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = WarmCalls()
    remember(calls, monkeypatch, 0)
    calls.forget()
    assert calls._known.calls == {}
    remember(calls, monkeypatch, 1, version=0)
    assert calls._known.calls == {}
    remember(calls, monkeypatch, 2, version=calls.version)
    assert list(calls._known.calls) == [(2,)]


def test_calls_on_the_host_and_those_planned_under_capture_are_not_kept() -> None:
    cuda = SimpleNamespace(a=SimpleNamespace(device="cuda"))
    assert warm._prepare(Begun(cuda, None, {}, None)) is None  # type: ignore[arg-type]
    lowering: Any = object()
    assert warm._prepare(Begun(cuda, None, {}, lowering, may_allocate=False)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("transposes", [{"transpose_a": 1}, {"transpose_b": 0}])
def test_what_only_equals_a_bool_takes_the_road_that_refuses_it(transposes: dict[str, Any]) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a warmed call was looked for")

    x = np.ones((2, 2), np.int8)
    module = sys.modules["mxgemm.gemm"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module._WARM, "attempt", never)
        with pytest.raises(UnsupportedError, match="transpose"):
            mx.gemm(x, x, out=np.empty((2, 2), np.int32), **transposes)
