"""Candidates: every way to compute a product, and a measured choice among them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels import Choice, KernelInstance, lowering
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand

INT8 = configuration("int8", "int8", "exact")
F16, TF32 = configuration("float16", "float16", "native"), configuration("float32", "float32", "tf32")
ODD = 4097


def posed(dtype: str, m: int, n: int, k: int) -> GemmProblem:
    return pose(Operand(dtype, (m, k), (k, 1)), Operand(dtype, (k, n), (n, 1)))[0]


def choice_of(instance: Any) -> Choice:
    return Choice(
        instance.entry, instance.variant, 1.0, "m", "the model's", 2.0, 9, "2026-01-02T03:04:05+00:00"
    )


@pytest.mark.parametrize(
    ("problem", "row", "arch", "families"),
    [
        (posed("float16", 512, 512, 512), F16, "sm_90", {"wgmma", "mma.sync"}),
        (posed("float16", 512, 512, 512), F16, "sm_80", {"mma.sync"}),
        (posed("float16", 512, 512, 512), configuration("float16", "float16", "scalar"), "sm_90", {"scalar"}),
        (posed("int8", 512, 512, 512), INT8, "sm_90", {"wgmma", "mma.sync"}),
        (posed("float8_e4m3fn", 512, 512, 512), configuration("float8_e4m3fn", "float8_e4m3fn", "native"),
         "sm_90", {"wgmma"}),
    ],
)  # fmt: skip
def test_families_compete_up_to_the_first_without_a_model_of_times(
    problem: GemmProblem, row: Any, arch: str, families: set[str]
) -> None:
    found = kernels.candidates(problem, row, arch)
    assert {one.lowering.instance.lowering for one in found} == families
    entries = [one.lowering.instance.entry for one in found]
    assert len(set(entries)) == len(entries)


@pytest.mark.parametrize("row", [F16, TF32])
@pytest.mark.parametrize("shape", [(512, 512, 512), (ODD, ODD, ODD), (1, 4096, 4096), (256, 256, 65536)])
def test_the_models_choice_is_a_candidate_and_the_cheapest_of_its_family(
    shape: tuple[int, int, int], row: Any
) -> None:
    problem = posed(row.source_types[0], *shape)
    chosen = kernels.lower(problem, row, "sm_90")
    found = {one.lowering.instance.entry: one for one in kernels.candidates(problem, row, "sm_90")}
    mine = found[chosen.instance.entry]
    assert (mine.lowering.form, mine.lowering.packings) == (chosen.form, chosen.packings)
    same = [one for one in found.values() if one.lowering.instance.lowering == chosen.instance.lowering]
    if mine.predicted is not None:
        assert mine.predicted == min(one.predicted for one in same if one.predicted is not None)
        assert all(math.isfinite(one.predicted) for one in same if one.predicted is not None)


@pytest.mark.parametrize("shape", [(512, 512, 512), (1, 4096, 4096), (ODD, ODD, ODD), (256, 256, 65536)])
@pytest.mark.parametrize("column_major_b", [False, True])
def test_both_orientations_compete_under_names_of_their_own(
    shape: tuple[int, int, int], column_major_b: bool
) -> None:
    m, n, k = shape
    b = Operand("float16", (k, n), (1, k) if column_major_b else (n, 1))
    problem = pose(Operand("float16", (m, k), (k, 1)), b)[0]
    found = kernels.candidates(problem, F16, "sm_90")
    forms = {one.lowering.form.transposed for one in found if one.lowering.instance.lowering == "wgmma"}
    assert forms == {False, True}
    entries = [one.lowering.instance.entry for one in found]
    assert len(set(entries)) == len(entries)


def test_without_workspace_the_orientation_that_needs_no_copies_is_taken() -> None:
    """A row-major B of tf32 is read as it lies by the transpose alone."""
    problem = posed("float32", 4096, 8, 4096)
    chosen, without = (kernels.lower(problem, TF32, "sm_90", may_allocate=x) for x in (True, False))
    assert (bool(chosen.packings), chosen.form.transposed) == (True, False)
    assert (bool(without.packings), without.form.transposed) == (False, True)
    assert {chosen.instance.lowering, without.instance.lowering} == {"wgmma"}


def test_a_prediction_includes_the_copies() -> None:
    aligned, odd = posed("float16", 4096, 4096, 4096), posed("float16", ODD, ODD, ODD)
    with_copies = kernels.candidates(odd, F16, "sm_90")[0]
    assert with_copies.lowering.packings
    product = kernels.KERNELS[0].cost(with_copies.lowering.instance, with_copies.lowering.form.problem, 132)
    assert with_copies.predicted is not None
    assert with_copies.predicted > product + 10
    assert not kernels.candidates(aligned, F16, "sm_90")[0].lowering.packings


@pytest.mark.parametrize("shape", [(512, 512, 512), (ODD, ODD, ODD), (1, 4096, 4096), (256, 256, 65536)])
def test_every_candidate_can_be_the_choice_even_where_its_family_declines(
    shape: tuple[int, int, int],
) -> None:
    problem = posed("float16", *shape)
    for one in kernels.candidates(problem, F16, "sm_90"):
        preferred = choice_of(one.lowering.instance)
        found = kernels.lower(problem, F16, "sm_90", preferred=preferred)
        assert found.instance == one.lowering.instance
        assert (found.form, found.packings) == (one.lowering.form, one.lowering.packings)
        assert found.why == (preferred.why,)


def test_a_choice_that_is_no_candidate_leaves_the_models_and_says_so() -> None:
    problem = posed("float16", 512, 512, 512)
    other = kernels.lower(posed("float32", 512, 512, 512), TF32, "sm_90").instance
    plain, found = (kernels.lower(problem, F16, "sm_90", preferred=x) for x in (None, choice_of(other)))
    assert found.instance == plain.instance
    assert found.why == (
        *plain.why,
        f"{other.variant}, which autotune preferred on 2026-01-02, is no candidate",
    )


def test_without_workspace_a_choice_that_needs_some_gives_way() -> None:
    problem = posed("float16", 256, 256, 65536)
    split = next(
        one.lowering.instance
        for one in kernels.candidates(problem, F16, "sm_90")
        if one.lowering.workspace_bytes
    )
    found = kernels.lower(problem, F16, "sm_90", preferred=choice_of(split))
    assert found.instance == split
    assert found.without_workspace is not None
    assert found.without_workspace().workspace_bytes == 0
    assert (
        kernels.lower(problem, F16, "sm_90", preferred=choice_of(split), may_allocate=False).instance != split
    )


def test_without_workspace_a_choice_that_needs_none_stays() -> None:
    problem = posed("float16", 256, 256, 65536)
    plain = [
        one.lowering for one in kernels.candidates(problem, F16, "sm_90") if not one.lowering.workspace_bytes
    ]
    wanted = plain[-1].instance
    found = kernels.lower(problem, F16, "sm_90", preferred=choice_of(wanted), may_allocate=False)
    assert found.instance == wanted


def ruling_out(monkeypatch: pytest.MonkeyPatch, ruled_out: Callable[[KernelInstance], bool]) -> None:
    """Let the first family rule instances out, by an infinite cost."""
    first, *rest = lowering.KERNELS

    def cost(instance: KernelInstance, problem: GemmProblem, multiprocessors: int) -> float:
        return math.inf if ruled_out(instance) else first.cost(instance, problem, multiprocessors)

    monkeypatch.setattr(lowering, "KERNELS", (first._replace(cost=cost), *rest))


def test_a_choice_that_its_family_rules_out_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed("float16", 512, 512, 512)
    plain = kernels.lower(problem, F16, "sm_90").instance
    other = next(
        one.lowering.instance
        for one in kernels.candidates(problem, F16, "sm_90")
        if one.lowering.instance != plain
    )
    ruling_out(monkeypatch, lambda instance: instance == other)
    found = kernels.lower(problem, F16, "sm_90", preferred=choice_of(other))
    assert found.instance == plain
    assert found.why[-1].endswith("is no candidate")


def test_a_family_that_rules_every_instance_out_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = posed("float16", 512, 512, 512)
    ruling_out(monkeypatch, lambda _: True)
    assert kernels.lower(problem, F16, "sm_90").instance.lowering == "mma.sync"
    assert {one.lowering.instance.lowering for one in kernels.candidates(problem, F16, "sm_90")} == {
        "mma.sync"
    }
    float8 = configuration("float8_e4m3fn", "float8_e4m3fn", "native")
    with pytest.raises(UnsupportedError, match="has no kernel on sm_90"):
        kernels.lower(posed("float8_e4m3fn", 512, 512, 512), float8, "sm_90")


def test_what_no_family_computes_has_no_candidates() -> None:
    with pytest.raises(UnsupportedError, match="has no kernel on sm_75"):
        kernels.candidates(
            posed("bfloat16", 8, 8, 8), configuration("bfloat16", "bfloat16", "native"), "sm_75"
        )
