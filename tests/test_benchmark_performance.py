"""The command times what it is asked for and writes it; measurements are made up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from benchmarks import candidates, ladder, performance
from mxgemm.report import Case, CopyTime, Measurement, PerformanceRecord
from mxgemm.report.timed import LARGE_COPY
from tests.report.records import ENVIRONMENT

ARCH = "sm_90"


def made_up(group: str, mode: str, case: Case, **_: object) -> Measurement:
    return Measurement(group, case, "entry", "0" * 64, "wgmma of today: A, B", mode, 10.0, {"torch": 9.0})


def climbed(rung: ladder.Rung, chosen: Any, beside: Any) -> Measurement:
    assert beside
    assert chosen.lowering.instance == rung.case.lowering(ARCH).instance
    return made_up(f"ladder: {rung.idea}", "burst", rung.case)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Entries of the kernels that are compiled before anything is measured."""
    found: list[str] = []

    def compile_kernels(kernels: Any) -> None:
        found.extend(one.entry for one in kernels)

    def copy_times(sizes: tuple[int, ...]) -> tuple[CopyTime, ...]:
        return tuple(CopyTime(size, size / 4e6) for size in sizes)

    here = SimpleNamespace(arch=ARCH, multiprocessors=132)
    monkeypatch.setattr(performance.device, "capabilities", lambda *_: here)
    monkeypatch.setattr(performance, "grant_everything", lambda: None)
    monkeypatch.setattr(performance, "compile_kernels", compile_kernels)
    monkeypatch.setattr(performance, "read_environment", lambda: ENVIRONMENT)
    monkeypatch.setattr(performance.ladder, "climbed", climbed)
    measure = SimpleNamespace(compared=made_up, copy_times=copy_times)
    monkeypatch.setitem(sys.modules, "benchmarks.measure", measure)
    monkeypatch.setattr("benchmarks.measure", measure, raising=False)
    return found


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str) -> tuple[PerformanceRecord, str]:
    monkeypatch.setattr("sys.argv", ["performance", *words, "--reports", str(folder)])
    assert performance.main() == 0
    record = PerformanceRecord.load(folder / "performance.json")
    assert record is not None
    return record, (folder / "performance.md").read_text()


def test_parts_are_measured_and_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: list[str]
) -> None:
    record, text = run(monkeypatch, tmp_path, "--only", "table", "copies", "ladder", "--quick")
    assert {one.group.partition(":")[0] for one in record.measurements} == {"table", "ladder"}
    assert record.copies[-1].nbytes == LARGE_COPY
    assert "## Ladder" in text
    assert "## Few rows" in text
    beside = {
        one.lowering.instance.entry for rung in ladder.rungs(ARCH)[::4] for one in ladder.sides(rung)[1]
    }
    assert beside <= set(compiled)


def test_the_ladder_alone_has_every_rung_of_a_filter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: list[str]
) -> None:
    record, _ = run(monkeypatch, tmp_path, "--only", "ladder", "--filter", "8192x8192x8192")
    wanted = [one for one in ladder.rungs(ARCH) if "8192x8192x8192" in str(one.case)]
    assert [one.case for one in record.measurements] == [one.case for one in wanted]
    assert len(wanted) >= 2
    assert record.copies == ()
    assert len(compiled) == 2 * len(wanted)


@pytest.mark.usefixtures("compiled")
def test_a_rung_that_cannot_be_made_fails_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(_: ladder.Rung) -> Any:
        raise TypeError("no bands")

    monkeypatch.setattr(performance.ladder, "sides", refused)
    argv = ["performance", "--only", "ladder", "copies", "--quick", "--reports", str(tmp_path)]
    monkeypatch.setattr("sys.argv", argv)
    assert performance.main() == 1
    record = PerformanceRecord.load(tmp_path / "performance.json")
    assert record is not None
    assert record.measurements == ()
    assert record.copies


def test_kernels_are_compiled_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[tuple[str, str]] = []

    class Pool:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, _work: object, _source: str, entry: str, arch: str) -> Any:
            jobs.append((entry, arch))
            return SimpleNamespace(result=lambda: 0.0)

    monkeypatch.setattr(candidates, "pool", Pool)
    monkeypatch.setattr(candidates.device, "capabilities", lambda *_: SimpleNamespace(arch=ARCH))
    rung = ladder.rungs(ARCH)[0]
    kernels = rung.case.lowering(ARCH).kernels
    assert candidates.compile_kernels([*kernels, *kernels]) == len(kernels)
    assert jobs == [(one.entry, "sm_90a") for one in kernels]
