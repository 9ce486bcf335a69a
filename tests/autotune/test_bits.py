"""Every candidate gives the same bits; autotune compares them."""

from __future__ import annotations

from typing import Any

import pytest

import mxgemm as mx
from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.errors import VerificationError
from mxgemm.kernels import remembered
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from tests.autotune.products import A, B, candidates
from tests.autotune_fakes import TimedDriver


def test_all_candidates_compute_the_configuration_in_the_same_parts() -> None:
    for dtype, precision, k in (
        ("float16", "native", 9000),
        ("float8_e4m3fn", "native", 9008),
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
                assert _products_of_a_part(kernel) == row.part, str(kernel)


def _posed(a: mx.ArraySpec, b: mx.ArraySpec) -> Any:
    from mxgemm.problem import pose

    return pose(a.view.operand, b.view.operand)[0]


def _products_of_a_part(kernel: Any) -> int:
    """What the kernel adds to the total as it stands: a section, or a chain where there are none."""
    if isinstance(kernel, ChainSumInstance | ClusterSumInstance):
        return kernel.part
    if isinstance(kernel, HopperInstance):
        return (kernel.section or kernel.chain) * kernel.depth
    return int(kernel.chain)


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
