"""What autotune takes and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm.errors import PolicyError, ShapeError, UnsupportedError
from mxgemm.policy import Policy
from tests.autotune.products import A, B, make_fastest, other_than_the_model
from tests.autotune_fakes import TimedDriver, use
from tests.device.fake_cupy import ndarray

EMPTY = mx.ArraySpec((0, 512), "float16")
HOST = (np.ones((4, 4), np.int8),) * 2


def test_a_plan_or_its_problem_says_what_arrays_say(on: TimedDriver) -> None:
    wanted = other_than_the_model()
    make_fastest(on, wanted)
    plan = mx.prepare(A, B)
    assert mx.autotune(plan, remember=False).chosen.entry == wanted
    assert mx.autotune(plan.problem).chosen.entry == wanted
    assert mx.autotune(plan.problem, precision="native", device="cuda:0").chosen.entry == wanted
    assert mx.prepare(A, B).kernel.entry == wanted  # type: ignore[union-attr]


@pytest.mark.usefixtures("on")
def test_everything_that_gemm_takes_is_taken() -> None:
    x, y, c = (ndarray(np.empty((64, 64), np.float16), pointer << 20) for pointer in (1, 2, 3))
    bias = ndarray(np.empty(64, np.float32), 4 << 20)
    found = mx.autotune(
        x, y, c, alpha=2, beta=1, out=c, epilogue=mx.epilogue.relu(bias=bias), transpose_a=True
    )
    assert found.plan.problem.c is not None
    assert found.plan.problem.epilogue.has_bias
    x, y = (ndarray(np.empty((3, 64, 64), np.int8), pointer << 20) for pointer in (1, 2))
    assert mx.autotune(x, y).plan.problem.batch == (3,)


@pytest.mark.usefixtures("on")
def test_an_array_from_the_host_runs_on_the_gpu_when_asked() -> None:
    x = np.ones((64, 64), np.float16)
    assert mx.autotune(x, x, device="cuda").plan.capabilities.backend == "cuda:0"


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        (HOST, {}, UnsupportedError, "cpu:sm_90 has none to choose among; supported"),
        (HOST, {"device": "cpu:sm_80"}, UnsupportedError, "supported are arrays on a"),
        ((A, B), {"seconds": 0}, UnsupportedError, "seconds=0 is no positive number"),
        ((A, B), {"seconds": True}, UnsupportedError, "seconds=True"),
        ((A, B), {"seconds": -1.0}, UnsupportedError, "seconds=-1.0"),
        ((A, B), {"seconds": float("nan")}, UnsupportedError, "seconds=nan"),
        ((A, B), {"seconds": float("inf")}, UnsupportedError, "seconds=inf"),
        ((A, B), {"seconds": "1"}, UnsupportedError, "seconds='1'"),
        ((A, B), {"precison": "native"}, TypeError, "precison"),
        ((A, B), {"precision": "i8crt5"}, UnsupportedError, "i8crt5"),
        ((A, A), {}, ShapeError, "512"),
        ((EMPTY, B), {}, UnsupportedError, "nothing to measure"),
        ((A, B), {"alpha": 0}, UnsupportedError, "no product is computed"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("on")
def test_what_it_refuses(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        mx.autotune(*arguments, **options)


@pytest.mark.usefixtures("on")
@pytest.mark.parametrize("seconds", [1, np.float32(0.5), np.float64(0.5), np.int64(1), 10**400])
def test_any_positive_number_of_seconds_is_taken(seconds: Any) -> None:
    assert mx.autotune(A, B, seconds=seconds, remember=False).measured


@pytest.mark.usefixtures("on")
def test_a_host_arrays_own_alignment_does_not_matter() -> None:
    """What runs reads the copies on the device."""
    whole = np.ones(64 * 64 + 1, np.float16)
    aligned, off = np.ones((64, 64), np.float16), whole[1:].reshape(64, 64)
    assert off.ctypes.data % 16
    plans = [mx.explain(x, x, out=x.copy(), device="cuda") for x in (aligned, off)]
    assert plans[0].kernel == plans[1].kernel
    mx.autotune(aligned, aligned, device="cuda")
    assert any("measured" in note for note in mx.explain(off, off, device="cuda").notes)


@pytest.mark.usefixtures("on")
def test_a_plan_with_more_is_refused() -> None:
    plan = mx.prepare(A, B)
    with pytest.raises(UnsupportedError, match="got also b or c"):
        mx.autotune(plan, B)
    with pytest.raises(UnsupportedError, match="got also precision"):
        mx.autotune(plan, precision="native")
    with pytest.raises(UnsupportedError, match="but for precision, max_error, device; got also alpha"):
        mx.autotune(plan.problem, alpha=2)
    with pytest.raises(UnsupportedError, match="device='cpu' has no kernels"):
        mx.autotune(plan.problem, device="cpu")
    for place in ("cudas", "cuda:", "cuda:-1", 0.5):
        with pytest.raises(UnsupportedError, match=r"is not known; supported are 'cuda'"):
            mx.autotune(plan.problem, device=place)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="none to choose among"):
        mx.autotune(mx.explain(np.ones((4, 4), np.int8), np.ones((4, 4), np.int8)))


@pytest.mark.usefixtures("on")
def test_a_precision_needs_its_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = mx.prepare(A, B).problem
    use(monkeypatch, Policy())
    for arguments in ((A, B), (problem,)):
        with pytest.raises(PolicyError, match="accept_relaxed_accumulation"):
            mx.autotune(*arguments, precision="native")


def test_a_capturing_stream_is_refused(on: TimedDriver) -> None:
    on.capturing.add(1)
    with pytest.raises(UnsupportedError, match="autotune measures"):
        mx.autotune(A, B)
