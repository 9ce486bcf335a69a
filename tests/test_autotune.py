"""autotune: what it measures, what it says, and that gemm runs what it found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.device import properties
from mxgemm.errors import PolicyError, ShapeError, UnsupportedError, VerificationError
from mxgemm.kernels import remembered
from mxgemm.policy import Policy
from mxgemm.restrictions import Restrictions
from tests.autotune_fakes import LEAST, TimedDriver, install, use
from tests.device.fake_cupy import FakeCupy, ndarray
from tests.device.fakes import Status

A, B = (mx.ArraySpec((256, 512), "float16"), mx.ArraySpec((512, 384), "float16"))
ODD, EMPTY = (mx.ArraySpec(shape, "float16") for shape in ((255, 511), (0, 512)))
HOST = (np.ones((4, 4), np.int8),) * 2


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TimedDriver]:
    """A fake device, a cache folder of its own, and a policy that has accepted relaxed accumulation."""
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="a test")
    policy.accept_operand_rounding("tf32", reason="a test")
    use(monkeypatch, policy)
    made = install(monkeypatch, str(tmp_path))
    cupy = FakeCupy()
    cupy.cuda.runtime.getDevice = lambda: 0
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    remembered.forget()
    yield made
    remembered.forget()
    mx.gemm.__globals__["_WARM"].forget()


def candidates(a: mx.ArraySpec = A, b: mx.ArraySpec = B, **options: Any) -> tuple[kernels.Candidate, ...]:
    plan = mx.prepare(a, b, **options)
    return kernels.candidates(plan.problem, plan.configuration, plan.capabilities.arch)


def model_of(a: mx.ArraySpec = A, b: mx.ArraySpec = B) -> str:
    return str(mx.prepare(a, b).kernel.entry)  # type: ignore[union-attr]  # a GPU's plan


def make_fastest(on: TimedDriver, entry: str) -> None:
    on.microseconds = lambda ran: 5.0 if ran == entry else 9.0


def other_than_the_model() -> str:
    """A candidate that the model does not choose."""
    return next(e for one in candidates() if (e := one.lowering.instance.entry) != model_of())


# What it finds


@pytest.mark.parametrize("number", [0, 3, -1])
def test_the_fastest_candidate_is_chosen(on: TimedDriver, number: int) -> None:
    wanted, model = candidates()[number].lowering.instance.entry, model_of()
    make_fastest(on, wanted)
    found = mx.autotune(A, B)
    assert found.chosen.entry == wanted
    assert (found.chosen.microseconds, found.measured[1].microseconds) == (5.0, 9.0)
    assert found.model.entry == model


def test_every_candidate_of_both_families_is_measured(on: TimedDriver) -> None:
    found = mx.autotune(A, B)
    assert {one.entry for one in found.measured} == {one.lowering.instance.entry for one in candidates()}
    assert {one.lowering for one in found.measured} == {"wgmma", "mma.sync"}
    assert {one.entry for one in found.measured} <= set(on.ran)


def test_a_candidate_that_copies_first_is_timed_with_its_copies(on: TimedDriver) -> None:
    on.microseconds = lambda ran: 40.0 if "arrange" in ran else 9.0
    odd = mx.ArraySpec((511, 384), "float16")
    found = mx.autotune(ODD, odd)
    by_family = {one.lowering: one for one in found.measured}
    assert (by_family["wgmma"].microseconds, by_family["mma.sync"].microseconds) == (49.0, 9.0)
    assert by_family["wgmma"].workspace_bytes > 0
    assert found.chosen.lowering == "mma.sync"


def test_candidates_are_launched_as_their_calls_will_be(on: TimedDriver) -> None:
    odd = mx.ArraySpec((511, 384), "float16")
    mx.autotune(ODD, odd)
    kernels_of_all = [kernel for one in candidates(ODD, odd) for kernel in one.lowering.kernels]
    assert on.early == {kernel.entry: kernel.programmatic for kernel in kernels_of_all}
    assert set(on.early.values()) == {True, False}


def test_what_is_clearly_slower_is_measured_once_and_the_models_choice_always(on: TimedDriver) -> None:
    fast, model = other_than_the_model(), model_of()
    on.microseconds = lambda ran: 5.0 if ran == fast else 5000.0
    found = {one.entry: one for one in mx.autotune(A, B).measured}
    assert found[fast].bursts >= 3
    assert found[model].bursts >= 3
    assert {one.bursts for entry, one in found.items() if entry not in (fast, model)} == {1}


def test_nothing_but_memory_of_its_own_is_touched(on: TimedDriver) -> None:
    x, y, z = (ndarray(np.empty((64, 64), np.float16), pointer) for pointer in (1 << 20, 2 << 20, 3 << 20))
    mx.autotune(x, y, out=z)
    assert on.written
    assert min(on.written) >= LEAST


# The same bits


def test_all_candidates_compute_the_configuration_in_the_same_chains() -> None:
    for dtype, precision, k in (
        ("float16", "native", 9000),
        ("float32", "tf32", 9000),
        ("int8", "exact", 64),
    ):
        row = configuration(dtype, dtype, precision)
        problem = mx.ArraySpec((128, k), dtype), mx.ArraySpec((k, 128), dtype)
        posed = _posed(*problem)
        for one in kernels.candidates(posed, row, "sm_90"):
            kernel: Any = one.lowering.instance
            assert kernel.accumulator == row.accumulator
            if precision != "exact":
                assert row.chain in (getattr(kernel, "chain", None), _products_of_a_chain(kernel)), str(
                    kernel
                )


def _posed(a: mx.ArraySpec, b: mx.ArraySpec) -> Any:
    from mxgemm.problem import pose

    return pose(a.view.operand, b.view.operand)[0]


def _products_of_a_chain(kernel: Any) -> int | None:
    return kernel.chain * kernel.depth if hasattr(kernel, "depth") else None


def test_a_candidate_with_other_bits_is_an_error_and_nothing_is_remembered(on: TimedDriver) -> None:
    faulty = candidates()[2].lowering.instance
    on.bits = lambda ran: 8 if ran == faulty.entry else 7
    with pytest.raises(VerificationError, match=r"differ in \d+ of \d+ entries"):
        mx.autotune(A, B)
    assert "measured" not in str(mx.prepare(A, B))


def test_d_is_poisoned_before_each_candidate(on: TimedDriver) -> None:
    """What a kernel leaves out is not what its predecessor wrote."""
    found = mx.autotune(A, B)
    poisoned = [call for call in on.calls if call[0] == "cuMemsetD8Async" and call[2] == 0xFF]
    assert len(poisoned) == len(found.measured)
    assert {nbytes for *_, nbytes, _stream in poisoned} == {256 * 384 * 2}


def test_any_nan_equals_any_nan_and_nothing_else(on: TimedDriver) -> None:
    other = candidates()[2].lowering.instance.entry
    on.bits = lambda ran: 0x7F if ran == other else 0xFF  # in every byte: NaNs of either sign
    assert mx.autotune(A, B, remember=False).measured
    on.bits = lambda ran: 0x70 if ran == other else 0xFF
    with pytest.raises(VerificationError):
        mx.autotune(A, B, remember=False)


@pytest.mark.usefixtures("on")
def test_a_choice_of_another_configuration_is_never_taken() -> None:
    x, y = mx.ArraySpec((256, 512), "float32"), mx.ArraySpec((512, 384), "float32")
    tf32 = mx.autotune(x, y, precision="tf32")
    plan = mx.prepare(x, y, precision="scalar")
    words = kernels.signature(plan.problem, plan.configuration, "sm_90", {}, ())
    foreign = kernels.Choice(tf32.chosen.entry, "tile", 1.0, "m", "model", 2.0, 2, "2026-01-01")
    remembered.keep(remembered.Key(plan.capabilities.name, 132, words), foreign, {})
    after = mx.prepare(x, y, precision="scalar")
    assert after.kernel == plan.kernel
    assert any("is no candidate" in note for note in after.notes)


# That it is used


def test_plans_name_what_was_measured(on: TimedDriver) -> None:
    wanted, before = other_than_the_model(), mx.prepare(A, B)
    make_fastest(on, wanted)
    mx.autotune(A, B)
    after = mx.prepare(A, B)
    assert (before.kernel.entry, after.kernel.entry) == (model_of_choice(after), wanted)  # type: ignore[union-attr]
    (note,) = after.notes
    assert note.startswith("measured by autotune on 20")
    assert ": 5.0 us, least of" in note
    assert "model's choice 9.0 us" in note


def model_of_choice(plan: mx.Plan) -> str:
    """The model's choice as the lowering without a measurement makes it."""
    here = plan.capabilities
    asked = (plan.problem, plan.configuration, here.arch)
    return kernels.lower(*asked, multiprocessors=here.multiprocessors).instance.entry


def test_calls_launch_what_was_measured_and_so_do_warmed_ones(on: TimedDriver) -> None:
    x, y, z = (
        ndarray(np.empty(shape, np.float16), pointer << 20)
        for pointer, shape in enumerate(((256, 512), (512, 384), (256, 384)), 1)
    )

    def launched() -> str:
        on.ran.clear()
        mx.gemm(x, y, out=z)
        (entry,) = on.ran
        return entry

    model, wanted = model_of(), other_than_the_model()
    assert [launched(), launched()] == [model, model]  # the second one is warmed
    make_fastest(on, wanted)
    mx.autotune(x, y, out=z)
    assert [launched(), launched()] == [wanted, wanted]


def test_a_call_that_was_planned_before_is_not_kept_for_later_ones(on: TimedDriver) -> None:
    x, y, z = (
        ndarray(np.empty(shape, np.float16), pointer << 20)
        for pointer, shape in enumerate(((256, 512), (512, 384), (256, 384)), 1)
    )
    model, wanted = model_of(), other_than_the_model()

    def meanwhile(_ran: str) -> float:
        """While the first call launches, another thread's autotune ends."""
        make_fastest(on, wanted)
        mx.autotune(x, y, out=z)
        on.ran.clear()
        return 1.0

    on.microseconds = meanwhile
    mx.gemm(x, y, out=z)
    assert model != wanted
    for _ in range(2):
        on.ran.clear()
        mx.gemm(x, y, out=z)
        assert on.ran == [wanted]


def test_a_later_process_reads_the_choice(on: TimedDriver) -> None:
    wanted = other_than_the_model()
    make_fastest(on, wanted)
    found = mx.autotune(A, B)
    assert Path(found.remembered).is_file()
    remembered.forget()  # as a new process begins
    assert mx.prepare(A, B).kernel.entry == wanted  # type: ignore[union-attr]


@pytest.mark.parametrize("changed", ["multiprocessors", "name"])
def test_another_device_measures_for_itself(on: TimedDriver, changed: str) -> None:
    make_fastest(on, other_than_the_model())
    mx.autotune(A, B)
    assert any("measured" in note for note in mx.prepare(A, B).notes)
    if changed == "multiprocessors":
        on.attributes["multiprocessors"] = 114
    else:
        on.cuDeviceGetName = lambda *_: (Status.CUDA_SUCCESS, b"Another GPU")  # type: ignore[attr-defined]
    properties._read.cache_clear()
    assert not any("measured" in note for note in mx.prepare(A, B).notes)
    properties._read.cache_clear()


def test_values_of_scalars_do_not_matter_and_layouts_do(on: TimedDriver) -> None:
    wanted = other_than_the_model()
    make_fastest(on, wanted)
    mx.autotune(A, B)
    assert mx.prepare(A, B, alpha=3.5).kernel.entry == wanted  # type: ignore[union-attr]
    other = mx.ArraySpec((512, 384), "float16", (1, 512))
    assert not any("measured" in note for note in mx.prepare(A, other).notes)


def test_a_captured_call_never_gets_workspace(on: TimedDriver) -> None:
    odd = mx.ArraySpec((511, 384), "float16")
    on.microseconds = lambda ran: 1.0 if "arrange" in ran or "wgmma" in ran else 90.0
    found = mx.autotune(ODD, odd)
    assert found.chosen.lowering == "wgmma"
    on.capturing.add(1)
    assert mx.explain(ODD.view, odd.view).workspace_bytes == 0


def test_remember_false_and_the_environment_keep_the_models_choice(
    on: TimedDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_fastest(on, other_than_the_model())
    model = model_of()
    found = mx.autotune(A, B, remember=False)
    assert found.chosen.entry != model
    assert found.remembered == "no: remember=False"
    policy = Policy(Restrictions(frozenset({"autotune"})))
    policy.accept_relaxed_accumulation(reason="a test")
    mx.autotune(A, B)
    assert model_of() != model
    use(monkeypatch, policy)
    assert model_of() == model
    before = sorted(tmp_path.rglob("*.json"))
    found = mx.autotune(A, B)
    assert found.remembered == "no: MXGEMM_DISABLE has the word autotune"
    assert found.plan.kernel.entry == model  # type: ignore[union-attr]
    assert sorted(tmp_path.rglob("*.json")) == before


def test_remember_false_leaves_what_was_remembered_and_says_what_runs(on: TimedDriver) -> None:
    first, second = other_than_the_model(), model_of()
    make_fastest(on, first)
    mx.autotune(A, B)
    make_fastest(on, second)
    found = mx.autotune(A, B, remember=False)
    assert found.chosen.entry == second
    assert found.plan.kernel.entry == mx.prepare(A, B).kernel.entry == first  # type: ignore[union-attr]


# What it takes


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


# What it says


def test_it_prints_a_table(on: TimedDriver) -> None:
    make_fastest(on, other_than_the_model())
    found = mx.autotune(A, B)
    text = str(found)
    chosen = next(line for line in text.splitlines() if line.endswith("(chosen)"))
    assert chosen.split()[0] == "5.0"
    assert f"{found.chosen.predicted:.1f}" in chosen
    assert sum("(model)" in line for line in text.splitlines()) == 1
    assert f"least median of {len(found.measured)} candidates" in text
    assert "the model's choice takes 80.0 % longer" in text
    assert found.remembered in text
