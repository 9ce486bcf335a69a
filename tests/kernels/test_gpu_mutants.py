"""Kernels with one fault put into a building block are caught: by a wrong bit, a guard band or a flag."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mxgemm import device
from tests.kernels.hopper import mutants as hopper
from tests.kernels.mutants import MUTANTS, Mutant

pytestmark = pytest.mark.gpu

RUNS = 50  # a race need not show at once
LIMIT = 45  # seconds of a process whose kernel may never end
ROOT = Path(__file__).parents[2]


def caught(mutant: Mutant, arch: str) -> bool:
    """Whether the largest tile, edited, ever differs from itself unedited."""
    trial = mutant.trial()
    found = mutant.lowering(trial, arch)
    good, good_flags = trial.run(found)
    expected = trial.predicted(arch) if trial.case.product.work < 2**26 else None
    assert expected is None or trial.faults(good, good_flags, expected) == []
    for _ in range(RUNS):
        back, flags = trial.run(found, mutant)
        if flags != good_flags or back.tobytes() != good.tobytes():
            return True
    return False


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_fault_is_caught(mutant: Mutant) -> None:
    assert caught(mutant, device.capabilities(0).arch)


@pytest.mark.parametrize("mutant", hopper.MUTANTS, ids=str)
def test_a_fault_between_the_warps_of_a_block_is_caught(mutant: hopper.HopperMutant) -> None:
    """In a process of its own: a kernel that waits for ever ends with it, and is caught thereby."""
    if device.capabilities(0).arch != hopper.ARCH:
        pytest.skip(f"these kernels are for {hopper.ARCH}")
    command = [sys.executable, "-m", hopper.__name__, str(hopper.MUTANTS.index(mutant))]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    try:
        words, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        words = f"{process.communicate()[0]}{hopper.CAUGHT}: it never ended"
    assert hopper.SOUND in words, words  # without the fault nothing is wrong, however late the warps are
    assert hopper.CAUGHT in words, words
