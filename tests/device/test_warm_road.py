"""gemm() on fake device arrays: the second call is a warmed one, and queues what the first queued."""

from __future__ import annotations

import ctypes
import re
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device, gpu
from mxgemm.device import compiler, driver, launcher
from mxgemm.errors import UnsupportedError
from mxgemm.policy import Policy
from mxgemm.warm import WarmCalls
from tests.device.fake_cupy import FakeCupy, ndarray
from tests.device.fakes import handle_of
from tests.policies import GEMM_MODULE, generous, under

FIRST = 9  # of the words that the fake driver reads of every launch: tensor maps' first ones, then pointers


class FakeMap:
    """A tensor map whose first word is its target."""

    def __init__(self, _spec: object, address: int) -> None:
        self._memory = (ctypes.c_uint64 * 16).from_address(address)

    def aim(self, target: int) -> None:
        self._memory[0] = target


def handle(source: str, entry: str) -> int:
    """Of a kernel with the parameters that its source declares."""
    found = re.search(rf"\b{entry}\(([^)]*)\)", source)
    assert found is not None
    declared = found[1].split(",")
    return handle_of(len(declared), sum("TensorMap" in one for one in declared))


class Road:
    """Products on one fake device, and which calls were planned anew."""

    def __init__(self, driver: Any, cupy: FakeCupy) -> None:
        self.driver, self.cupy, self.planned = driver, cupy, 0

    def queued(self, *arrays: Any, **options: Any) -> list[tuple[int, ...]]:
        """What one call queues."""
        before = len(self.driver.launched)
        mx.gemm(*arrays, **options)
        return list(self.driver.launched[before:])


@pytest.fixture
def road(fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Road]:
    fake.driver.devices = 1
    cupy = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)  # type: ignore[arg-type]  # the face is enough
    made = Road(fake.driver, cupy)
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())

    def compiled(source: str, entry: str, *, ordinal: int, shared_bytes: int) -> device.CompiledKernel:
        return device.CompiledKernel(cubin, ordinal, shared_bytes, handle(source, entry))

    monkeypatch.setattr(device, "compiled", compiled)
    monkeypatch.setattr(launcher, "EncodedMap", FakeMap)
    monkeypatch.setattr(device, "is_compiled", lambda *_, **__: True)
    monkeypatch.setattr(GEMM_MODULE, "_WARM", WarmCalls())
    begin = GEMM_MODULE.begin

    def counted(*arguments: Any) -> Any:
        made.planned += 1
        return begin(*arguments)

    monkeypatch.setattr(GEMM_MODULE, "begin", counted)
    gpu._unread.cache_clear()
    with under(generous()):
        yield made
    gpu._unread.cache_clear()


def matrix(number: int, shape: tuple[int, ...] = (64, 64), dtype: Any = np.float16) -> ndarray:
    return ndarray(np.empty(shape, dtype), number << 28)


def three(dtype: Any = np.float16, size: int = 64) -> list[ndarray]:
    return [matrix(i, (size, size), dtype) for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("dtype", "size", "early"),
    [
        (np.float64, 64, [False]),
        (np.float16, 64, [True]),
        (np.float16, 4095, [True] * 3),
    ],
)
def test_a_warmed_call_queues_what_the_ordinary_road_queues(
    road: Road, dtype: Any, size: int, early: list[bool]
) -> None:
    """Launch attributes included: a kernel that waits for its predecessor may begin before that one ends."""
    a, b, d = three(dtype, size)
    first = road.queued(a, b, out=d, precision="native")
    second = road.queued(a, b, out=d, precision="native")
    assert road.planned == 1
    assert second == first
    programmatic = [[told[:2] for told in one] for one in road.driver.told]
    assert programmatic == [[(6, 1)] if one else [] for one in early] * 2


def test_other_pointers_and_another_stream_need_no_plan(road: Road) -> None:
    a, b, d = three(np.float64)
    road.queued(a, b, out=d, precision="scalar")
    (launched,) = road.queued(
        matrix(5, dtype=np.float64), b, out=matrix(6, dtype=np.float64), precision="scalar"
    )
    assert launched[FIRST : FIRST + 2] == (5 << 28, 2 << 28)
    road.cupy.current[0] = 0x77
    (launched,) = road.queued(a, b, out=d, precision="scalar")
    assert (launched[7], road.planned) == (0x77, 1)
    (launched,) = road.queued(a, b, out=d, precision="scalar", stream=0x99)
    assert (launched[7], road.planned) == (0x99, 1)


def test_a_new_result_comes_from_the_second_call_on(road: Road) -> None:
    a, b, _ = three()
    for _ in range(3):
        made = mx.gemm(a, b, precision="native")
        assert (made.shape, made.dtype) == ((64, 64), np.float16)
    assert road.planned == 1
    assert len(road.driver.launched) == 3


def test_workspace_of_a_warmed_call_goes_back_at_once(road: Road) -> None:
    a, b, d = three(size=4095)
    mx.gemm(a, b, out=d, precision="native")
    road.driver.calls.clear()
    mx.gemm(a, b, out=d, precision="native")
    needed = mx.explain(a, b, out=d, precision="native").workspace_bytes
    assert [call for call in road.driver.calls if call[0].startswith("cuMem")] == [
        ("cuMemAllocAsync", needed, device.LEGACY), ("cuMemFreeAsync", 0x7000, device.LEGACY)
    ]  # fmt: skip
    work = ndarray(np.empty(needed, np.uint8), 9 << 28)
    for _ in range(2):
        road.driver.calls.clear()
        mx.gemm(a, b, out=d, precision="native", workspace=work)
    assert road.driver.calls == []
    assert road.planned == 3  # of two kinds of call, and explained


def test_a_captured_call_runs_without_workspace_and_is_not_what_is_remembered(road: Road) -> None:
    a, b, d = three(size=4095)
    road.cupy.current[0] = 0x77
    road.driver.capturing.add(0x77)
    captured = road.queued(a, b, out=d, precision="native")
    road.driver.capturing.clear()
    first, second = (road.queued(a, b, out=d, precision="native") for _ in range(2))
    assert (len(captured), len(first), len(second), road.planned) == (1, 3, 3, 2)
    road.driver.capturing.add(0x77)
    assert len(road.queued(a, b, out=d, precision="native")) == 1
    with pytest.raises(UnsupportedError, match="out="):
        mx.gemm(a, b, precision="native")


def test_workspace_in_an_operand_or_the_result_is_refused_warmed_or_not(road: Road) -> None:
    a, b, d = three(size=4095)
    needed = mx.explain(a, b, out=d, precision="native").workspace_bytes
    road.queued(a, b, out=d, precision="native", workspace=ndarray(np.empty(needed, np.uint8), 9 << 28))
    for name, at in (("a", 1), ("b", 2), ("d", 3)):
        for inside in ((at << 28) + 4096, (at << 28) - 4096):
            work = ndarray(np.empty(needed, np.uint8), inside)
            with pytest.raises(UnsupportedError, match=f"workspace shares memory with {name}"):
                mx.gemm(a, b, out=d, precision="native", workspace=work)
    mx.gemm(a, b, precision="native", workspace=ndarray(np.empty(needed, np.uint8), 9 << 28))
    inside_a = ndarray(np.empty(needed, np.uint8), (1 << 28) + 4096)
    with pytest.raises(UnsupportedError, match="workspace shares memory with a"):
        mx.gemm(a, b, precision="native", workspace=inside_a)
    beside = ndarray(np.empty(needed, np.uint8), (1 << 28) - needed // 16 * 16 - 16)
    assert len(road.queued(a, b, out=d, precision="native", workspace=beside)) == 3


@pytest.mark.parametrize("alpha", [float("inf"), float("nan"), 1e300, -0.0])
def test_scalars_that_are_no_ordinary_numbers_are_warmed_too(road: Road, alpha: float) -> None:
    a, b, d = three()
    first, second = (road.queued(a, b, out=d, precision="native", alpha=alpha) for _ in range(2))
    assert (second, road.planned) == (first, 1)


def test_addresses_of_all_64_bits_are_the_same_on_both_roads(road: Road) -> None:
    for dtype in (np.float16, np.float64):
        a, b, d = (ndarray(np.empty((64, 64), dtype), (1 << 63) + (i << 28)) for i in (1, 2, 3))
        first, second = (road.queued(a, b, out=d, precision="native") for _ in range(2))
        assert second == first
    assert road.planned == 2


def test_every_warmed_call_is_reported(road: Road) -> None:
    heard: list[mx.Decision] = []
    policy = generous()
    policy.set_reporter(heard.append)
    a, b, d = three()
    with under(policy):
        for _ in range(3):
            road.queued(a, b, out=d, precision="native")
        road.queued(a, b, precision="native")
        road.queued(a, b, precision="native")
    assert road.planned == 2
    assert heard == [heard[0]] * 5


def test_calls_at_the_same_addresses_are_told_apart(road: Road) -> None:
    """Other shapes, strides and keywords over the same memory are other calls, whatever ran last."""
    square = three()
    wide = [matrix(i, shape) for i, shape in ((1, (64, 128)), (2, (128, 64)), (3, (64, 64)))]
    turned = [square[0], matrix(2), square[2]]
    turned[1].strides = turned[1].strides[::-1]
    calls: list[tuple[list[ndarray], dict[str, Any]]] = [
        (square, {}), (wide, {}), (turned, {}), (square, {"alpha": 2}), (square, {"transpose_b": True}),
        (square, {"precision": "native"}), (square, {"precision": None}), (square, {"max_error": 1.0}),
    ]  # fmt: skip
    first = [road.queued(a, b, out=d, **options) for (a, b, d), options in calls]
    planned = road.planned
    for _ in range(2):
        again = [road.queued(a, b, out=d, **options) for (a, b, d), options in calls]
        assert again == first
    assert road.planned == planned
    assert len({str(one) for one in first}) >= 4


@pytest.mark.parametrize(
    "options", [{"precision": np.array(["native", "x"])}, {"max_error": np.array([1.0, 2.0])}]
)
def test_a_keyword_that_compares_like_an_array_is_left_to_the_ordinary_road(
    road: Road, options: dict[str, Any]
) -> None:
    a, b, d = three()
    for _ in range(2):
        road.queued(a, b, out=d, precision="native", max_error=1.0)
    with pytest.raises(mx.MxgemmError):
        mx.gemm(a, b, out=d, **{"precision": "native", "max_error": 1.0, **options})


def test_a_grant_that_changes_the_choice_is_seen_by_warmed_calls(road: Road) -> None:
    heard: list[mx.Decision] = []
    policy = Policy()
    policy.set_reporter(heard.append)
    a, b, d = three(np.float16)
    with under(policy), warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.MatrixProductAdvice)
        for _ in range(2):
            road.queued(a, b, out=d)
        policy.accept_relaxed_accumulation(reason="a test")
        for _ in range(2):
            road.queued(a, b, out=d)
    assert road.planned == 2
    assert [one.applied for one in heard] == [False, False, True, True]


def test_an_array_that_changes_in_place_is_another_call(road: Road) -> None:
    a, b, d = three()
    road.queued(a, b, out=d, precision="native")
    a.strides = a.strides[::-1]
    (launched,) = road.queued(a, b, out=d, precision="native")
    assert road.planned == 2
    a.data.ptr = 7 << 28
    (again,) = road.queued(a, b, out=d, precision="native")
    assert (again[FIRST], road.planned) == (7 << 28, 2)
    changes = {pair for pair in zip(launched, again, strict=True) if pair[0] != pair[1]}
    assert changes == {(1 << 28, 7 << 28)}


def test_a_refused_launch_leaves_the_warmed_call_as_it_was(road: Road) -> None:
    a, b, d = three(size=4095)
    first = road.queued(a, b, out=d, precision="native")
    road.driver.refuses.add("cuLaunchKernelEx")
    road.driver.calls.clear()
    with pytest.raises(device.DriverError, match="to launch"):
        mx.gemm(a, b, out=matrix(5, (4095, 4095)), precision="native")
    memory = [call[0] for call in road.driver.calls if call[0].startswith("cuMem")]
    assert memory == ["cuMemAllocAsync", "cuMemFreeAsync"]
    road.driver.refuses.clear()
    assert road.queued(a, b, out=d, precision="native") == first
    assert road.planned == 1


def test_overlap_takes_the_ordinary_road_and_leaves_the_warmed_call_alone(road: Road) -> None:
    a, b, d = three()
    plain = road.queued(a, b, out=d, precision="native")
    over = road.queued(a, b, out=matrix(1), precision="native")
    assert len(over) > len(plain)
    again = road.queued(a, b, out=d, precision="native")
    assert (len(again), road.planned) == (len(plain), 2)


def test_a_call_whose_first_run_overlapped_is_planned_without_the_copies(road: Road) -> None:
    a, b, d = three()
    over = road.queued(a, b, out=matrix(1), precision="native")
    plain = road.queued(a, b, out=d, precision="native")
    assert (len(plain), road.planned) == (len(over) - 1, 2)


def test_an_unhashable_keyword_is_named(road: Road) -> None:
    a, b, d = three()
    road.queued(a, b, out=d, precision="native")
    with pytest.raises(UnsupportedError, match="precision"):
        mx.gemm(a, b, out=d, precision=["native"])  # type: ignore[arg-type]


def test_what_was_forgotten_is_planned_again(road: Road) -> None:
    a, b, d = three()
    for _ in range(2):
        road.queued(a, b, out=d, precision="native")
    GEMM_MODULE.forget_warmed()
    road.queued(a, b, out=d, precision="native")
    assert road.planned == 2


def test_after_a_fork_a_warmed_call_is_refused(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, d = three(size=4095)
    for out in (d, None):
        mx.gemm(a, b, out=out, precision="native")
    launched = len(road.driver.launched)
    monkeypatch.setattr(driver.Process, "forked", True)
    for out in (d, None):
        with pytest.raises(UnsupportedError, match="spawn"):
            mx.gemm(a, b, out=out, precision="native")
    assert (len(road.driver.launched), road.planned) == (launched, 2)


def test_with_several_devices_a_warmed_call_runs_on_its_arrays_own(road: Road) -> None:
    road.driver.devices = 2
    driver._count.cache_clear()
    road.driver.contexts.append(100)
    a, b, d = (ndarray(np.empty((4095, 4095), np.float16), i << 28, ordinal=1) for i in (1, 2, 3))
    queued = [road.queued(a, b, out=d, precision="native") for _ in range(2)]
    assert queued[0] == queued[1]
    assert {(one[7], one[8]) for one in queued[1]} == {(0x88, 101)}
    on_first = road.queued(
        *(matrix(i, (4095, 4095)) for i in (1, 2)), out=matrix(3, (4095, 4095)), precision="native"
    )
    assert {one[8] for one in on_first} == {100}
    assert (road.driver.contexts, road.planned) == ([100], 2)


@pytest.mark.parametrize(
    ("stream", "handle"),
    [(0, 1), (2, 2), (0x99, 0x99), (SimpleNamespace(ptr=0x55), 0x55), (SimpleNamespace(cuda_stream=0), 1)],
)
def test_every_kind_of_stream_is_that_of_both_roads(road: Road, stream: Any, handle: int) -> None:
    a, b, d = three()
    for _ in range(2):
        (launched,) = road.queued(a, b, out=d, precision="native", stream=stream)
        assert launched[7] == handle
    assert road.planned == 1
    with pytest.raises(UnsupportedError, match="no CUDA stream"):
        mx.gemm(a, b, out=d, precision="native", stream=True)


def test_threads_share_a_warmed_call_and_keep_their_pointers_apart(road: Road) -> None:
    road.queued(*three()[:2], out=three()[2], precision="native")
    before = len(road.driver.launched)

    def repeat(number: int) -> None:
        for _ in range(50):
            mx.gemm(
                matrix(number), matrix(number + 1), out=matrix(number + 2), precision="native", stream=number
            )

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(repeat, range(10, 50, 5)))
    found = {
        (one[7], *(word for word in one[FIRST:] if 1 << 28 <= word < 1 << 40))
        for one in road.driver.launched[before:]
    }
    assert len(road.driver.launched) == before + 8 * 50
    assert {one[0] for one in found} == set(range(10, 50, 5))
    assert all({word >> 28 for word in words} == {at, at + 1, at + 2} for at, *words in found)
