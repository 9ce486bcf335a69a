"""Every mutant's edit applies to the building blocks of today, changes them, and compiles: without a GPU."""

from __future__ import annotations

import pytest

from mxgemm import device
from tests.kernels.hopper import mutants as hopper
from tests.kernels.mutants import MUTANTS, Mutant

ARCH = "sm_90"


def sources(mutant: Mutant | hopper.HopperMutant) -> tuple[str, str, str]:
    """Entry, source, and the source with the fault."""
    trial = mutant.trial()
    if isinstance(mutant, Mutant):
        instance = mutant.lowering(trial, ARCH).instance
    else:
        instance = mutant.lowering(trial).instance
    return instance.entry, instance.source(), mutant(instance.source())


@pytest.mark.parametrize("mutant", [*MUTANTS, *hopper.MUTANTS], ids=str)
def test_a_mutant_is_another_source_that_compiles(mutant: Mutant | hopper.HopperMutant) -> None:
    pytest.importorskip("cuda.core", reason="kernels are compiled through cuda-core")
    entry, sound, faulty = sources(mutant)
    assert faulty != sound
    assert device.compile_cubin(faulty, entry, device.compile_arch(ARCH)).code


@pytest.mark.parametrize("mutant", hopper.MUTANTS, ids=str)
def test_a_delay_is_no_edit_of_the_fault_s_text(mutant: hopper.HopperMutant) -> None:
    """Else the fault would go with the delay, and the mutant be sound."""
    _, sound, faulty = sources(mutant)
    assert mutant.delayed(sound) != faulty


def test_an_edit_that_no_longer_applies_is_told() -> None:
    with pytest.raises(AssertionError, match="0 times 'no such text'"):
        hopper.edited("source", (("no such text", ""),))


def test_each_block_has_as_many_tiles_as_the_faults_need() -> None:
    """Two for one block: no buffer is used three times, and none of the two places is the other's.

    A cluster that adds parts has one.
    """
    for mutant in hopper.MUTANTS:
        found = mutant.lowering(mutant.trial())
        expected = {id(hopper.EIGHT_BITS): 4, id(hopper.THREE_PARTS): 1}.get(id(mutant.case), 2)
        assert found.instance.tile.count(found.form.problem) == expected
