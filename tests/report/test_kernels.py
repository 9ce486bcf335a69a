"""The covering set: every configuration, both layouts, every tile, and nothing twice."""

from collections import Counter

import pytest

from mxgemm.configs import CONFIGURATIONS
from mxgemm.kernels import KernelInstance, Lowering, candidates
from mxgemm.report.kernels import covering_cases, listed, products_of, source_sha256, without_kernel
from mxgemm.report.timed import timed_cases
from tests.report.records import ARCH


def test_every_configuration_with_a_kernel_is_covered() -> None:
    covered = {name for one in listed(ARCH) for name in one.configurations}
    assert covered == {row.name for row in CONFIGURATIONS if ARCH in row.kernels}


def test_every_mix_of_8_bit_integers_is_covered() -> None:
    mixes = Counter((p.dtype_a, p.dtype_b) for p in products_of(ARCH) if p.precision == "exact")
    assert set(mixes) == {(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")}


def test_names_tell_kernels_apart() -> None:
    names = [one.entry for one in listed(ARCH)]
    assert len(set(names)) == len(names)


Tile = tuple[str, tuple[int, int], int]

NEVER_CHOSEN: dict[Tile, str] = {}
"""Tiles on offer that no case of the set runs, each with its reason."""


def tiles_of(lowering: Lowering) -> set[Tile]:
    """Template, rows, columns and cluster of everything that multiplies."""
    return {
        (kernel.template, kernel.tile_shape, getattr(getattr(kernel, "tile", None), "cluster", 1))
        for kernel in lowering.kernels
        if isinstance(kernel, KernelInstance)
    }


@pytest.mark.parametrize("arch", [ARCH, "sm_80", "sm_90"])
def test_every_tile_on_offer_is_reached_or_has_a_reason(arch: str) -> None:
    offered: set[Tile] = set()
    for case in timed_cases(arch):
        found = candidates(case.problem, case.product.configuration, arch, alignment=case.alignment)
        offered.update(*(tiles_of(one.lowering) for one in found))
    reached: set[Tile] = set().union(*(tiles_of(one.case.lowering(arch)) for one in listed(arch)))
    assert offered - reached == set(NEVER_CHOSEN) & offered


def test_the_unit_reads_every_layout_and_alignment() -> None:
    found = [one.kernel for one in listed(ARCH) if one.kernel.lowering == "mma.sync"]
    f16 = [kernel for kernel in found if kernel.a.dtype == "float16"]
    assert {(kernel.a.layout, kernel.b.layout) for kernel in f16} == {
        (a, b) for a in ("k_major", "mn_major") for b in ("k_major", "mn_major")
    }
    assert {kernel.a.alignment for kernel in f16} >= {16, 8, 4}


def test_a_kernel_is_listed_with_a_case_that_runs_it() -> None:
    for one in listed(ARCH)[::20]:
        assert one.kernel in one.case.lowering(ARCH).kernels


def test_a_case_is_listed_or_without_a_kernel() -> None:
    missing = set(without_kernel(ARCH))
    kernels = {one.kernel for one in listed(ARCH)}
    for case in list(covering_cases(ARCH))[::50]:
        assert case in missing or set(case.lowering(ARCH).kernels) <= kernels


def test_the_hash_is_of_the_whole_source(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = listed(ARCH)[0].kernel
    before, source = source_sha256(kernel), kernel.source()
    assert before == source_sha256(kernel)
    monkeypatch.setattr(type(kernel), "source", lambda _self: source.replace("struct", "struct ", 1))
    assert source_sha256(kernel) != before
