"""Plans and calls run what autotune found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import kernels
from mxgemm.device import properties
from mxgemm.kernels import remembered
from mxgemm.policy import Policy
from mxgemm.restrictions import Restrictions
from tests.autotune.products import ODD, A, B, make_fastest, model_of, other_than_the_model
from tests.autotune_fakes import TimedDriver, use
from tests.device.fake_cupy import ndarray
from tests.device.fakes import Status


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
