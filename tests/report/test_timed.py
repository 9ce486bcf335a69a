"""What is timed is in the covering set, made shorter where that changes nothing but time."""

import pytest

from benchmarks import performance
from mxgemm.kernels.names import SIZES
from mxgemm.report import Case, listed, timed
from mxgemm.report.kernels import covering_cases

HOPPER = "sm_90"


def timed_by_the_benchmark() -> set[Case]:
    parts = performance.timed_cases(HOPPER, performance.PARTS, quick=False)
    return {case for _, _, case in parts} | {case for _, case in timed.epilogues(HOPPER)}


def test_every_kernel_whose_speed_is_told_is_listed() -> None:
    kernels = {one.kernel for one in listed(HOPPER)}
    missing = {
        str(case) for case in timed_by_the_benchmark() if not set(case.lowering(HOPPER).kernels) <= kernels
    }
    assert missing == set()


def test_the_list_is_what_the_benchmark_times_in_full_and_in_short() -> None:
    whole = timed_by_the_benchmark()
    assert set(timed.timed_cases(HOPPER)) == whole
    quick = performance.timed_cases(HOPPER, performance.PARTS, quick=True)
    assert {case for _, _, case in quick} < whole


def test_a_shortened_case_runs_the_same_kernels_on_a_d_of_the_same_size() -> None:
    cases = timed.timed_cases(HOPPER)
    shorter = [timed.shortened(case, HOPPER) for case in cases]
    assert sum(one.product.k < case.product.k for one, case in zip(shorter, cases, strict=True)) > 100
    for one, case in zip(shorter, cases, strict=True):
        assert one.lowering(HOPPER).kernels == case.lowering(HOPPER).kernels
        assert (one.product.m, one.product.n, one.layout) == (case.product.m, case.product.n, case.layout)
        line = 128 // SIZES[case.product.dtype_a]
        assert min(6 * line, case.product.k) <= one.product.k <= case.product.k
        assert (case.product.k - one.product.k) % line == 0


@pytest.mark.parametrize("arch", ["sm_70", "sm_75"])
def test_kinds_without_a_kernel_are_left_out(arch: str) -> None:
    cases = timed.timed_cases(arch)
    assert {case.product.configuration.name for case in cases} == {
        case.product.configuration.name for _, case in timed.table(arch)
    }
    assert all(arch in case.product.configuration.kernels for case in cases)
    assert {timed.shortened(case, arch) for case in cases} <= set(covering_cases(arch))
