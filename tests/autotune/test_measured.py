"""What autotune measures, chooses and says."""

from __future__ import annotations

import numpy as np
import pytest

import mxgemm as mx
from tests.autotune.products import ODD, A, B, candidates, make_fastest, model_of, other_than_the_model
from tests.autotune_fakes import LEAST, TimedDriver
from tests.device.fake_cupy import ndarray

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
