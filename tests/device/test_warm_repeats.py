"""Calls that repeat one exactly take the shortest way, and nothing that differs passes for one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import array, array_cupy
from mxgemm.device import driver
from mxgemm.errors import UnsupportedError
from mxgemm.policy import Policy
from tests.device import test_warm_road
from tests.device.fake_cupy import ndarray
from tests.device.test_warm_road import Road, matrix, three
from tests.policies import GEMM_MODULE, generous, under

road = test_warm_road.road

ENOUGH = 3  # calls: planned, found again, and kept as one that repeats


def looked_for(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each call that was not found as a repeat."""
    calls: list[int] = []
    attempt = GEMM_MODULE._WARM.attempt

    def counted(*given: Any) -> Any:
        calls.append(1)
        return attempt(*given)

    monkeypatch.setattr(GEMM_MODULE._WARM, "attempt", counted)
    return calls


def kept() -> dict[Any, Any]:
    """What is kept of CuPy's arrays."""
    found = GEMM_MODULE._WARM.repeats.get(ndarray)
    return {} if found is None else found[1]


def test_a_repeated_call_queues_what_the_first_one_queued(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, d = three()
    queued = [road.queued(a, b, out=d, precision="native") for _ in range(ENOUGH)]
    looked = looked_for(monkeypatch)
    queued += [road.queued(a, b, out=d, precision="native") for _ in range(3)]
    assert queued == [queued[0]] * 6
    assert (looked, road.planned) == ([], 1)
    assert {str(told) for told in road.driver.told} == {str(road.driver.told[0])}


DIFFERENCES: dict[str, Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "other A": lambda x: ((matrix(5), x[1]), {"out": x[2]}),
    "other B": lambda x: ((x[0], matrix(5)), {"out": x[2]}),
    "other D": lambda x: (x[:2], {"out": matrix(5)}),
    "A and B exchanged": lambda x: ((x[1], x[0]), {"out": x[2]}),
    "with C": lambda x: ((*x[:2], matrix(5)), {"out": x[2], "beta": 1}),
    "C without a factor": lambda x: ((*x[:2], matrix(5)), {"out": x[2]}),
    "alpha": lambda x: (x[:2], {"out": x[2], "alpha": 2}),
    "alpha of another class": lambda x: (x[:2], {"out": x[2], "alpha": 1.0}),
    "beta": lambda x: (x[:2], {"out": x[2], "beta": 2}),
    "transpose_a": lambda x: (x[:2], {"out": x[2], "transpose_a": True}),
    "transpose_b": lambda x: (x[:2], {"out": x[2], "transpose_b": True}),
    "precision": lambda x: (x[:2], {"out": x[2], "precision": None}),
    "max_error": lambda x: (x[:2], {"out": x[2], "max_error": 1.0}),
    "out_dtype": lambda x: (x[:2], {"out": x[2], "out_dtype": "float16"}),
    "epilogue": lambda x: (x[:2], {"out": x[2], "epilogue": mx.epilogue.relu()}),
    "workspace": lambda x: (
        x[:2], {"out": x[2], "workspace": ndarray(np.empty(4096, np.uint8), 9 << 28)}
    ),
    "stream": lambda x: (x[:2], {"out": x[2], "stream": 0x99}),
    "a new result": lambda x: (x[:2], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_call_that_differs_in_anything_is_no_repeat(
    road: Road, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    a, b, d = three()
    for _ in range(ENOUGH):
        road.queued(a, b, out=d, precision="native")
    arrays, options = DIFFERENCES[name]((a, b, d))
    options = {"precision": "native", **options}
    looked = looked_for(monkeypatch)
    other = road.queued(*arrays, **options)
    assert len(looked) == 1
    road.queued(a, b, out=d, precision="native")
    assert len(looked) == 1, "the call that repeats is forgotten"
    GEMM_MODULE.forget_warmed()
    assert road.queued(*arrays, **options) == other, "queued otherwise than without anything kept"


def test_a_shape_that_was_set_since_is_noticed(road: Road) -> None:
    for size, shape in ((64, (32, 128)), (64, (64, 8, 8)), (64, (4096,))):
        a, b, d = three(size=size)
        for _ in range(ENOUGH):
            road.queued(a, b, out=d, precision="native")
        for one in (a, b, d):
            before = one.shape, one.strides
            one.shape, one.strides = shape, np.empty(shape, np.float16).strides
            with pytest.raises(mx.MxgemmError):
                mx.gemm(a, b, out=d, precision="native")
            one.shape, one.strides = before


def test_a_matrix_that_lost_its_axes_since_is_noticed(road: Road) -> None:
    a, b, d = (matrix(i, (1, 1)) for i in (1, 2, 3))
    for _ in range(ENOUGH):
        road.queued(a, b, out=d, precision="native")
    assert len(kept()) == 1
    for one in (a, b, d):
        one.shape = one.strides = ()
        with pytest.raises(mx.ShapeError):
            mx.gemm(a, b, out=d, precision="native")
        one.shape, one.strides = (1, 1), (2, 2)


def test_arrays_of_other_than_two_axes_repeat_too(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, d = (matrix(i, (3, 64, 64)) for i in (1, 2, 3))
    for _ in range(ENOUGH):
        first = road.queued(a, b, out=d, precision="native")
    looked = looked_for(monkeypatch)
    assert road.queued(a, b, out=d, precision="native") == first
    assert looked == []
    for one in (a, b, d):
        one.shape = (3, 4096, 1)
        assert array_cupy.repeated(kept(), a, b, d) is None
        one.shape = (3, 64, 64)


def test_what_is_kept_goes_with_any_of_its_arrays(road: Road) -> None:
    """Another array may have the identity of one that is gone."""
    for gone in range(3):
        arrays = three()
        for _ in range(ENOUGH):
            road.queued(arrays[0], arrays[1], out=arrays[2], precision="native")
        assert len(kept()) == 1
        del arrays[gone]
        gc.collect()
        assert kept() == {}
        del arrays
        GEMM_MODULE.forget_warmed()


def test_a_class_of_the_programs_own_is_not_kept(road: Road) -> None:
    class Own(ndarray):
        pass

    a, b, d = three()
    own = Own(np.empty((64, 64), np.float16), 3 << 28)
    for _ in range(ENOUGH + 1):
        road.queued(a, b, out=own, precision="native")
        array_cupy.keep(kept(), own, b, d, "never")
    assert GEMM_MODULE._WARM.repeats.get(Own) in (None, (array_cupy.repeated, {}))
    assert array_cupy.repeated(kept(), own, b, d) is None


def test_another_current_stream_is_no_repeat(road: Road) -> None:
    a, b, d = three()
    for _ in range(ENOUGH):
        road.queued(a, b, out=d, precision="native")
    road.cupy.current[0] = 0x77
    (launched,) = road.queued(a, b, out=d, precision="native")
    assert launched[7] == 0x77
    road.cupy.current[0] = 0
    (launched,) = road.queued(a, b, out=d, precision="native")
    assert launched[7] == 1


def test_a_policy_in_another_state_and_another_policy_are_no_repeat(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, d = three()
    heard: list[mx.Decision] = []
    policy = generous()
    with under(policy):
        for _ in range(ENOUGH):
            road.queued(a, b, out=d, precision="native")
        looked = looked_for(monkeypatch)
        road.queued(a, b, out=d, precision="native")
        assert looked == []
        policy.set_reporter(heard.append)
        for _ in range(4):
            road.queued(a, b, out=d, precision="native")
        assert (len(heard), len(looked)) == (4, 4)
        policy.set_reporter(None)
        road.queued(a, b, out=d, precision="native")
        assert len(looked) == 4
        policy.accept_contraction("k", reason="a grant like any other")
        road.queued(a, b, out=d, precision="native")
        assert len(looked) == 5
    with under(Policy()), pytest.raises(mx.PolicyError):
        mx.gemm(a, b, out=d, precision="native")


def test_a_grant_while_a_call_runs_asks_for_a_new_plan(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, d = three()
    policy = generous()
    report = policy.report

    def granting(decision: mx.Decision) -> None:
        policy.accept_contraction("k", reason="a grant like any other")
        report(decision)

    with under(policy):
        for _ in range(ENOUGH - 1):
            road.queued(a, b, out=d, precision="native")
        monkeypatch.setattr(policy, "report", granting)
        road.queued(a, b, out=d, precision="native")
        assert kept() == {}
        road.queued(a, b, out=d, precision="native")
        assert road.planned == 2


def test_a_refused_launch_is_told_as_ever_and_a_fork_too(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, d = three()
    for _ in range(ENOUGH):
        first = road.queued(a, b, out=d, precision="native")
    road.driver.refuses.add("cuLaunchKernelEx")
    with pytest.raises(mx.MxgemmError, match="to launch"):
        mx.gemm(a, b, out=d, precision="native")
    road.driver.refuses.clear()
    assert road.queued(a, b, out=d, precision="native") == first
    monkeypatch.setattr(driver.Process, "forked", True)
    with pytest.raises(UnsupportedError, match="spawn"):
        mx.gemm(a, b, out=d, precision="native")


def test_what_needs_workspace_several_launches_or_several_devices_does_not_repeat(road: Road) -> None:
    chains = [matrix(1, (256, 65536)), matrix(2, (65536, 256)), matrix(3, (256, 256))]
    for arrays in (three(size=4095), chains):
        for _ in range(ENOUGH):
            road.queued(arrays[0], arrays[1], out=arrays[2], precision="native")
    assert kept() == {}
    road.driver.devices = 2
    driver._count.cache_clear()
    GEMM_MODULE.forget_warmed()
    a, b, d = three()
    for _ in range(ENOUGH):
        road.queued(a, b, out=d, precision="native")
    assert kept() == {}


def test_what_was_forgotten_does_not_repeat(road: Road) -> None:
    a, b, d = three()
    for _ in range(ENOUGH):
        road.queued(a, b, out=d, precision="native")
    GEMM_MODULE.forget_warmed()
    road.queued(a, b, out=d, precision="native")
    assert road.planned == 2


def test_new_arrays_at_old_addresses_are_kept_ever_less_often(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    keep = array_cupy.keep

    def counted(*given: Any) -> None:
        times.append(turn)
        keep(*given)

    library = replace(array.LIBRARIES[ndarray], keep=counted)
    monkeypatch.setitem(array.LIBRARIES, ndarray, library)
    others: list[Any] = []
    for number in range(40):
        turn = number
        a, b, d = three()
        others.append((a, b, d))
        road.queued(a, b, out=d, precision="native")
    assert times == [2, 3, 5, 9, 17, 33]
    assert road.planned == 1
