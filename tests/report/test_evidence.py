"""Records: kept as they are, and fresh only for the source that was measured."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mxgemm.errors import UnsupportedError
from mxgemm.report import CopyTime, CorrectnessRecord, PerformanceRecord, listed, rows
from mxgemm.report.cases import Case, Product
from mxgemm.report.listing import outdated
from tests.report import records
from tests.report.records import ARCH

CASE = Case(Product("float16", "float16", "native", 512, 512, 512))


def status_of(tmp_path: Path, entry: str) -> tuple[str, str]:
    """Correctness and performance of one kernel, as the listing says."""
    (row,) = (row for row in rows(ARCH, tmp_path) if row.listed.entry == entry)
    return row.correctness, row.performance


def test_records_survive_the_file(tmp_path: Path) -> None:
    correctness, performance = records.correctness(), records.performance(CASE)
    correctness.save(tmp_path / "deep" / "correctness.json")
    performance.save(tmp_path / "deep" / "performance.json")
    assert CorrectnessRecord.load(tmp_path / "deep" / "correctness.json") == correctness
    assert PerformanceRecord.load(tmp_path / "deep" / "performance.json") == performance


def test_copies_survive_the_file_and_older_files_have_none(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    record = replace(records.performance(CASE), copies=(CopyTime(2 << 30, 500.0), CopyTime(1 << 20, 1.0)))
    record.save(path)
    assert PerformanceRecord.load(path) == record
    values = json.loads(path.read_text())
    assert values["copies"][0]["rate"] == pytest.approx((2 << 30) / 500e-6 / 1e9)
    del values["copies"]
    path.write_text(json.dumps(values))
    assert PerformanceRecord.load(path) == replace(record, copies=())


def test_without_records_everything_is_missing(tmp_path: Path) -> None:
    assert {(row.correctness, row.performance) for row in rows(ARCH, tmp_path)} == {("missing", "missing")}
    assert not any(row.holds for row in rows(ARCH, tmp_path))


def test_evidence_of_the_source_of_today_is_fresh(tmp_path: Path) -> None:
    records.correctness().save(tmp_path / "correctness.json")
    assert all(row.holds for row in rows(ARCH, tmp_path))


@pytest.mark.parametrize(
    ("changed", "expected"), [({"sha256": "0" * 64}, "stale"), ({"mismatches": 1}, "failed")]
)
def test_another_source_is_stale_and_a_mismatch_failed(
    tmp_path: Path, changed: dict[str, object], expected: str
) -> None:
    entry = listed(ARCH)[3].entry
    records.with_count(records.correctness(), entry, **changed).save(tmp_path / "correctness.json")
    assert status_of(tmp_path, entry) == (expected, "missing")
    assert sum(not row.holds for row in rows(ARCH, tmp_path)) == 1


def test_a_kernel_that_the_record_lacks_is_missing(tmp_path: Path) -> None:
    record, entry = records.correctness(), listed(ARCH)[3].entry
    kept = {name: one for name, one in record.kernels.items() if name != entry}
    replace(record, kernels=kept).save(tmp_path / "correctness.json")
    assert status_of(tmp_path, entry)[0] == "missing"


def test_a_record_of_another_architecture_is_no_evidence(tmp_path: Path) -> None:
    record = records.correctness()
    replace(record, environment=replace(record.environment, arch="sm_80")).save(tmp_path / "correctness.json")
    assert {row.correctness for row in rows(ARCH, tmp_path)} == {"missing"}


def test_times_of_another_source_or_kernel_are_outdated(tmp_path: Path) -> None:
    record = records.performance(CASE)
    record.save(tmp_path / "performance.json")
    assert outdated(ARCH, tmp_path) == ()
    for changed in ({"sha256": "0" * 64}, {"entry": "mxgemm_of_yesterday"}):
        one = replace(record.measurements[0], **changed)
        replace(record, measurements=(one,)).save(tmp_path / "performance.json")
        assert outdated(ARCH, tmp_path) == (one,)


def test_a_measurement_states_speed_and_ratio() -> None:
    one = records.measurement(CASE)
    assert one.teraflops == pytest.approx(2 * 512**3 / 10e-6 / 1e12)
    assert one.ratio == pytest.approx(0.8)
    assert replace(one, peers={}).ratio is None


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"kind": "performance", "schema": 1}', '{"kind": "correctness"}']
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "correctness.json").write_text(text)
    with pytest.raises(UnsupportedError, match="measure it again"):
        rows(ARCH, tmp_path)


def test_the_file_has_what_a_reader_asks_for(tmp_path: Path) -> None:
    records.correctness().save(tmp_path / "correctness.json")
    values = json.loads((tmp_path / "correctness.json").read_text())
    assert {"device", "driver", "cuda", "nvrtc", "cupy", "torch", "cuda_core", "mxgemm", "time"} <= set(
        values["environment"]
    )
    assert all(len(one["sha256"]) == 64 for one in values["kernels"])
