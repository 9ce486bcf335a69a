"""Prepared launches take the addresses of a call to exactly where the ordinary road puts them."""

from __future__ import annotations

from typing import Any

import pytest

from mxgemm import device, gpu, kernels, warm_launches
from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.problem import pose
from mxgemm.shapes import Operand, contiguous
from mxgemm.warm_launches import prepared_launches

NAMES = ("a", "b", "d", "c", "bias", "workspace", "scale_rows", "scale_cols")
ADDRESSES = (3 << 30, 5 << 33, 7 << 31, 9 << 34, 15 << 32, 11 << 35, 17 << 33, 19 << 31)
FLAGS = 13 << 30


@pytest.fixture(autouse=True)
def queued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Launches that are queued: kernel, grid, threads, all arguments, maps, whether they may begin early."""
    seen: list[Any] = []

    class Recorder:
        def __init__(self, *facts: Any, programmatic: bool, pick: Any) -> None:
            self.facts, self.programmatic, self.pick = facts, programmatic, pick

        def queue(self, stream: int, addresses: tuple[int, ...]) -> None:
            kernel, grid, block, count, constants, maps = self.facts
            pointers = self.pick(addresses)
            assert (stream, len(pointers)) == (7, count)
            seen.append((kernel, grid, block, (*pointers, *constants), maps, self.programmatic))

    monkeypatch.setattr(device, "BoundLaunch", Recorder)
    monkeypatch.setattr(
        gpu, "kernels_of", lambda lowering, *_: {one.entry: one.entry for one in lowering.kernels}
    )
    return seen


def lowered(a: Operand, b: Operand, precision: str, arch: str, **posed: Any) -> kernels.Lowering:
    problem, _ = pose(a, b, **posed)
    return kernels.lower(problem, configuration(a.dtype, b.dtype, precision), arch)


def rows(dtype: str, *shape: int) -> Operand:
    return contiguous(dtype, shape)


CASES = {
    "one launch": lambda: lowered(rows("float16", 96, 64), rows("float16", 64, 64), "native", "sm_80"),
    "the transpose": lambda: lowered(
        rows("float16", 96, 64), rows("float16", 64, 64), "native", "sm_80",
        d=Operand("float16", (96, 64), (1, 96)),
    ),
    "with C": lambda: lowered(
        rows("float32", 96, 64), rows("float32", 64, 64), "tf32", "sm_80", c=rows("float32", 96, 64), beta=1
    ),
    "with every term": lambda: lowered(
        rows("float16", 96, 64), rows("float16", 64, 64), "native", "sm_90",
        c=rows("float16", 96, 64), beta=2, epilogue=EpilogueSpec("clamp", -1.0, 2.0, True, True, True),
        bias=rows("float16", 64), scale_rows=rows("float32", 96), scale_cols=rows("float32", 64),
    ),
    "the transpose with bias and scales": lambda: lowered(
        rows("float16", 96, 64), rows("float16", 64, 64), "native", "sm_80",
        d=Operand("float16", (96, 64), (1, 96)), bias=rows("float16", 96, 1), scale_rows=rows("float32", 96),
        epilogue=EpilogueSpec("relu", has_bias=True, has_scale_rows=True),
    ),
    "chains side by side with bias": lambda: lowered(
        rows("float16", 256, 65536), rows("float16", 65536, 256), "native", "sm_90",
        epilogue=EpilogueSpec("gelu", has_bias=True), bias=rows("float16", 256),
    ),
    "a batch with a bias of each": lambda: lowered(
        rows("float16", 3, 96, 64), rows("float16", 3, 64, 64), "native", "sm_90",
        epilogue=EpilogueSpec("silu", has_bias=True), bias=rows("float16", 3, 1, 64),
    ),
    "arranged": lambda: lowered(
        rows("float16", 4095, 4095), rows("float16", 4095, 4095), "native", "sm_90"
    ),
    "chains side by side": lambda: lowered(
        rows("float16", 256, 65536), rows("float16", 65536, 256), "native", "sm_90"
    ),
    "arranged, and chains": lambda: lowered(
        rows("float16", 256, 65537), rows("float16", 65537, 256), "native", "sm_90"
    ),
    "turned": lambda: lowered(
        Operand("int8", (2048, 2048), (1, 2048)), rows("int8", 2048, 2048), "exact", "sm_90"
    ),
    "packed": lambda: lowered(
        Operand("float64", (40, 30), (120, 2)), rows("float64", 30, 24), "native", "sm_90"
    ),
    "batches, some backwards": lambda: lowered(
        Operand("float16", (2, 1, 2, 1, 2, 1, 16, 16), (-1024, 0, 512, 0, 256, 0, 16, 1)),
        rows("float16", 1, 2, 1, 2, 1, 2, 16, 16), "native", "sm_80",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_argument_of_every_launch_is_the_ordinary_roads(name: str, queued: list[Any]) -> None:
    lowering = CASES[name]()
    named = dict(zip(NAMES, ADDRESSES, strict=True))
    workspace = named.pop("workspace")
    form = lowering.form
    present = {form.caller_name(name) for name in named if getattr(form.problem, name) is not None}
    named = {name: at if name in present else 0 for name, at in named.items()}
    wanted = list(lowering.launches(named, workspace=workspace, flags=FLAGS))
    for one in prepared_launches(lowering, 0, FLAGS):
        one.queue(7, tuple({**named, "workspace": workspace}[name] for name in NAMES))
    assert queued == [
        (
            one.instance.entry, one.grid, (one.instance.threads,), one.arguments, one.maps,
            one.instance.programmatic,
        )
        for one in wanted
    ]  # fmt: skip


def test_the_cases_are_of_every_kind() -> None:
    made = {name: make() for name, make in CASES.items()}
    counts = {name: len(prepared_launches(one, 0, FLAGS)) for name, one in made.items()}
    assert counts["one launch"] == 1
    assert counts["arranged"] == 3
    assert counts["chains side by side"] == 2
    assert counts["batches, some backwards"] == 4
    assert [made[name].workspace_bytes > 0 for name in ("one launch", "turned", "packed")] == [
        False,
        True,
        True,
    ]
    assert made["the transpose"].form.transposed


@pytest.mark.parametrize("alpha", [float("inf"), float("nan"), 1e300, -0.0])
def test_scalars_without_a_difference_stay_constants(queued: list[Any], alpha: float) -> None:
    """Overflow and NaN are values like others: 1e300 is an infinity to float32."""
    lowering = lowered(rows("float16", 64, 64), rows("float16", 64, 64), "native", "sm_90", alpha=alpha)
    (bound,) = prepared_launches(lowering, 0, FLAGS)
    bound.queue(7, ADDRESSES)
    (wanted,) = lowering.launches(dict(zip("abd", ADDRESSES, strict=False)), flags=FLAGS)
    assert repr(queued[-1][3]) == repr(wanted.arguments)


def test_a_launch_may_begin_early_where_its_own_kernel_waits(queued: list[Any]) -> None:
    def early(name: str) -> list[bool]:
        queued.clear()
        for one in prepared_launches(CASES[name](), 0, FLAGS):
            one.queue(7, ADDRESSES)
        return [one[-1] for one in queued]

    assert early("one launch") == [False]
    assert early("packed") == [False, False]
    assert early("arranged, and chains") == [True] * 3


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_kernels_that_may_begin_early_wait_for_their_predecessor(name: str) -> None:
    for kernel in CASES[name]().kernels:
        waits = kernel.source().count("wait_for_predecessor();")  # its definition has no semicolon there
        assert waits == int(kernel.programmatic), kernel.entry


def test_constants_that_look_like_addresses_stay_constants(queued: list[Any]) -> None:
    """A stride may be any number, the very addresses that launches are asked at among them."""
    for stride in (*warm_launches._FIRST.values(), *warm_launches._SECOND.values()):
        lowering = lowered(
            Operand("float32", (1, 64), (stride, 1)), rows("float32", 64, 64), "scalar", "sm_80"
        )
        (bound,) = prepared_launches(lowering, 0, FLAGS)
        bound.queue(7, ADDRESSES)
        (wanted,) = lowering.launches(dict(zip("abd", ADDRESSES, strict=False)), flags=FLAGS)
        assert stride in wanted.arguments
        assert queued[-1][3] == wanted.arguments


def test_long_batches_and_empty_results_are_not_kept() -> None:
    long = lowered(
        rows("float16", 9, 1, 2, 1, 2, 1, 16, 16),
        rows("float16", 1, 2, 1, 2, 1, 2, 16, 16),
        "native",
        "sm_80",
    )
    assert len(list(long.launches(dict.fromkeys("abd", 1 << 20)))) == 18
    assert prepared_launches(long, 0, FLAGS) == ()
    empty = lowered(rows("float16", 0, 64), rows("float16", 64, 64), "native", "sm_80")
    assert prepared_launches(empty, 0, FLAGS) == ()
