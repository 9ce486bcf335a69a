"""``mxgemm kernels``: what it lists, what it compiles, and the status that it ends with."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mxgemm import cli
from mxgemm.report import listed
from mxgemm.report.cases import Case, Product
from tests.report import records
from tests.report.records import ARCH

CASE = Case(Product("float16", "float16", "native", 512, 512, 512))

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on the evidence in ``tmp_path``; status, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(["kernels", "--arch", ARCH, "--reports", str(tmp_path), *arguments])
        except SystemExit as ending:
            status = int(str(ending.code))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def test_every_kernel_is_listed_and_counted(kernels: Run) -> None:
    status, out, _ = kernels()
    assert status == 0
    for one in listed(ARCH):
        assert str(one.kernel) in out
    assert f"{len(listed(ARCH))} kernels on {ARCH}" in out
    assert f"correctness: {len(listed(ARCH))} missing" in out


def test_json_has_every_kernel_with_its_hash_and_evidence(kernels: Run, tmp_path: Path) -> None:
    records.correctness().save(tmp_path / "correctness.json")
    records.performance(CASE).save(tmp_path / "performance.json")
    status, out, _ = kernels("--json")
    values = json.loads(out)
    assert status == 0
    assert [one["entry"] for one in values["kernels"]] == [one.entry for one in listed(ARCH)]
    assert {one["correctness"] for one in values["kernels"]} == {"fresh"}
    assert [one["performance"] for one in values["kernels"]].count("fresh") == 1
    assert values["outdated_measurements"] == []
    assert all(len(one["sha256"]) == 64 and one["configurations"] for one in values["kernels"])


def test_check_holds_for_fresh_evidence(kernels: Run, tmp_path: Path) -> None:
    records.correctness().save(tmp_path / "correctness.json")
    records.performance(CASE).save(tmp_path / "performance.json")
    assert kernels("--check")[0] == 0


def test_check_fails_for_missing_evidence(kernels: Run) -> None:
    assert kernels("--check")[0] == 1


def test_check_fails_for_one_stale_kernel(kernels: Run, tmp_path: Path) -> None:
    entry = listed(ARCH)[5].entry
    changed = records.with_count(records.correctness(), entry, sha256="0" * 64)
    changed.save(tmp_path / "correctness.json")
    status, out, _ = kernels("--check")
    assert status == 1
    assert "1 stale" in out


def test_check_fails_for_one_failed_kernel(kernels: Run, tmp_path: Path) -> None:
    entry = listed(ARCH)[5].entry
    changed = records.with_count(records.correctness(), entry, mismatches=2)
    changed.save(tmp_path / "correctness.json")
    assert kernels("--check")[0] == 1


def test_check_fails_for_times_of_another_kernel(kernels: Run, tmp_path: Path) -> None:
    records.correctness().save(tmp_path / "correctness.json")
    record = records.performance(CASE)
    old = replace(record.measurements[0], entry="mxgemm_of_yesterday")
    replace(record, measurements=(old,)).save(tmp_path / "performance.json")
    status, out, _ = kernels("--check")
    assert status == 1
    assert f"timed with another kernel or source: {CASE}" in out


def test_the_help_says_that_missing_counts_as_stale(kernels: Run) -> None:
    status, out, _ = kernels("--help")
    assert status == 0
    assert "missing counts as stale" in " ".join(out.split())


def test_what_is_not_known_is_refused(kernels: Run, tmp_path: Path) -> None:
    status, _, err = kernels("--arch", "sm_42")
    assert status == 2
    assert "sm_90" in err
    (tmp_path / "performance.json").write_text("{}")
    assert kernels()[0] == 2


def test_a_filter_leaves_kernels_out(kernels: Run) -> None:
    _, out, _ = kernels("--filter", "pack", "--json")
    names = {one["family"] for one in json.loads(out)["kernels"]}
    assert names == {"pack"}


@pytest.mark.parametrize("what", ["--check", "--compile"])
def test_a_filter_that_no_kernel_passes_is_refused(kernels: Run, what: str) -> None:
    status, _, err = kernels("--filter", "no such kernel", what)
    assert status == 2
    assert "'no such kernel'" in err


def test_checking_and_compiling_are_two_commands(kernels: Run) -> None:
    assert kernels("--check", "--compile")[0] == 2


def test_mismatches_on_record_are_shown_even_without_a_kernel(kernels: Run, tmp_path: Path) -> None:
    replace(records.correctness(), failures=("flags of 0x37x29",)).save(tmp_path / "correctness.json")
    assert "differed when measured: flags of 0x37x29" in kernels()[1]
    assert json.loads(kernels("--json")[1])["failures"] == ["flags of 0x37x29"]


def test_compiling_prints_resources_of_every_kernel(kernels: Run) -> None:
    pytest.importorskip("cuda.core", reason="kernels are compiled through cuda-core")
    chosen = ("--compile", "--filter", "pack 2-byte", "--processes", "2")
    status, out, _ = kernels(*chosen)
    assert status == 0
    assert "3 kernels compiled for sm_75, 0 with spills" in out
    status, out, _ = kernels(*chosen, "--json")
    facts = json.loads(out)["kernels"]
    assert status == 0
    assert len(facts) == 3
    assert all(fact["registers"] > 0 and fact["spilled_bytes"] == 0 for fact in facts)
