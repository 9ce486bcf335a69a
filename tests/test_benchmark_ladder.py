"""Ideas are taken away from the choice of today, and only where it has them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks import candidates, ladder
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.report import source_sha256, timed
from tests.autotune_fakes import TimedDriver, install

ARCH = "sm_90"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        candidates.device, "capabilities", lambda *_: SimpleNamespace(arch=ARCH, multiprocessors=132)
    )


def rung(words: str) -> ladder.Rung:
    return next(one for one in ladder.rungs(ARCH) if words in one.idea)


def test_every_rung_is_of_a_product_that_is_timed_too() -> None:
    assert {one.case for one in ladder.rungs(ARCH)} <= set(timed.timed_cases(ARCH))


def test_every_rung_differs_from_the_choice_which_is_what_runs() -> None:
    for one in ladder.rungs(ARCH):
        chosen, beside = ladder.sides(one)
        assert chosen.lowering.instance == one.case.lowering(ARCH).instance
        assert chosen.lowering.instance not in [other.lowering.instance for other in beside]


def test_what_is_left_is_the_models_choice_of_the_rest() -> None:
    one = rung("clusters of two")
    chosen, (beside,) = ladder.sides(one)
    assert (ladder.tile_of(chosen).cluster, ladder.tile_of(beside).cluster) == (2, 1)
    asked = candidates.lowered_here(one.case)
    single = [x for x in ladder.kernels.candidates(**asked) if x.predicted and ladder.tile_of(x).cluster == 1]
    assert beside.predicted == min(x.predicted for x in single)


def test_a_family_that_predicts_no_times_is_measured_whole() -> None:
    _, beside = ladder.sides(rung("in place of mma.sync"))
    assert len(beside) > 1
    assert {one.lowering.instance.lowering for one in beside} == {"mma.sync"}


def test_a_choice_without_the_idea_has_nothing_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    bare = ladder.Rung("three", timed.case_of(timed.KINDS[0], timed.SQUARE), ladder.THREE)
    chosen, beside = ladder.sides(bare)
    assert beside == ()
    assert ladder.climbed(bare, chosen, beside) is None
    assert "left out: three is not chosen for" in capsys.readouterr().out


def test_a_kernel_that_is_launched_after_its_predecessor_is_the_same_code() -> None:
    chosen, (beside,) = ladder.sides(rung("begin while"))
    ours, late = chosen.lowering.instance, beside.lowering.instance
    assert (ours.programmatic, late.programmatic) == (True, False)
    assert late.entry != ours.entry
    assert late.source().replace(late.entry, ours.entry) == ours.source()
    assert beside.lowering.workspace_bytes == chosen.lowering.workspace_bytes


@pytest.mark.parametrize(("words", "rows"), [("in place of 4", 4), ("in place of 32", 32)])
def test_other_bands_are_the_same_tile_in_another_order(words: str, rows: int) -> None:
    chosen, (beside,) = ladder.sides(rung(words))
    ours, banded = chosen.lowering.instance, beside.lowering.instance
    assert isinstance(ours, HopperInstance)
    assert isinstance(banded, HopperInstance)
    together = ours.tile.cluster * ours.tile.row_blocks
    of_ours, of_banded = f"GROUP = {16 // together},", f"GROUP = {rows // together},"
    text = banded.source().replace(banded.entry, ours.entry)
    assert of_banded in text
    assert text.replace(of_banded, of_ours) == ours.source()
    assert str(banded.tile) == str(ours.tile)


def test_a_kernel_without_bands_is_refused() -> None:
    _, beside = ladder.sides(rung("in place of mma.sync"))
    with pytest.raises(TypeError, match="has no bands of tiles"):
        ladder.banded(4, beside[0].lowering.instance)


def test_both_sides_and_the_library_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    on = install(monkeypatch)
    one = ladder.Rung("x", timed.case_of(timed.KINDS[0], (512, 512, 512)), ladder.OVERLAP)
    chosen, beside = ladder.sides(one)
    late = beside[0].lowering.instance.entry
    on.microseconds = lambda ran: {late: 12.0, "library": 9.0}.get(ran, 10.0)
    monkeypatch.setattr(
        ladder, "peers_of", lambda _: {candidates.PEER: lambda _: lambda _: on.queue("library")}
    )
    found = ladder.climbed(one, chosen, beside)
    assert found is not None
    assert (found.group, found.entry, found.microseconds) == (
        "ladder: x",
        chosen.lowering.instance.entry,
        10.0,
    )
    assert found.sha256 == source_sha256(chosen.lowering.instance)
    assert found.peers == {f"without: {beside[0].lowering.instance.variant}": 12.0, "torch": 9.0}
    assert found.ratio == 1.2


def test_on_a_device_without_the_family_there_is_no_ladder() -> None:
    assert ladder.rungs("sm_80") == ()


def test_only_the_choice_may_begin_early(monkeypatch: pytest.MonkeyPatch) -> None:
    on: TimedDriver = install(monkeypatch)
    one = ladder.Rung("x", timed.case_of(timed.KINDS[0], (512, 512, 512)), ladder.OVERLAP)
    chosen, beside = ladder.sides(one)
    monkeypatch.setattr(ladder, "peers_of", lambda _: {})
    ladder.climbed(one, chosen, beside)
    assert on.early[chosen.lowering.instance.entry]
    assert not on.early[beside[0].lowering.instance.entry]
