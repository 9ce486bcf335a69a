"""What of a large product the CPU computes, and that no run of the correctness benchmark is made twice."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import operands
from benchmarks.grid import planned
from benchmarks.operands import Values
from mxgemm.report.cases import Product
from tests.policies import generous, under
from tests.report.records import ARCH

LARGE = Product("float16", "float16", "native", 4096, 5000, 64)


@pytest.mark.parametrize("extent", [1, 2, 59, 60, 61, 4097, 129280])
def test_chosen_rows_are_spread_and_have_both_ends(extent: int) -> None:
    found = operands._spread(np.random.default_rng(1), extent)
    assert (found[0], found[-1]) == (0, extent - 1)
    assert len(found) >= min(extent, operands.CHOSEN) // 2
    assert np.all(np.diff(found) > 0)
    assert np.max(np.diff(found), initial=0) <= 2 * -(-extent // operands.CHOSEN)


def test_two_values_choose_two_sets() -> None:
    one, other = Values(LARGE, "normal").chosen(), Values(LARGE, "wide").chosen()
    assert not np.array_equal(one[0], other[0])


def test_integers_are_computed_whole_up_to_larger_products() -> None:
    assert Values(LARGE, "normal").is_sampled
    exact = replace(LARGE, dtype_a="int8", dtype_b="int8", precision="exact")
    assert not Values(exact, "bits").is_sampled
    assert Values(replace(exact, k=512), "bits").is_sampled


def test_a_sampled_result_is_the_chosen_part_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operands, "grant_everything", lambda: None)  # the process's grants stay as they are
    values = Values(replace(LARGE, m=100, n=130, bias="columns", scale_rows=True), "wide")
    with under(generous()):
        whole, _, sent = operands.reference(values)
        assert sent == {}  # few operands are made again
        monkeypatch.setattr(operands, "SAMPLED", 1)
        part, _, sent = operands.reference(values)
    rows, cols = values.chosen()
    assert np.array_equal(part.view(np.uint16), whole[np.ix_(rows, cols)].view(np.uint16))
    for name, x in operands.operands(values).items():
        assert np.array_equal(x.view(np.uint8), sent[name].view(np.uint8))


def test_no_run_is_made_twice() -> None:
    runs = planned(ARCH, ("cover", "layer"))
    assert len(set(runs)) == len(runs) > 100
