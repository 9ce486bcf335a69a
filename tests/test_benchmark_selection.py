"""Today's choices among times that were measured earlier."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks import selection
from mxgemm import kernels
from mxgemm.report import Case, Environment
from mxgemm.report.cases import Layout, Product

CASE = Case(Product("float16", "float16", "native", 512, 512, 512), Layout())
NOW = datetime(2026, 5, 6, 7, 8, 9, tzinfo=UTC)


def asked() -> dict[str, Any]:
    return selection.lowered(CASE, "sm_90", 132)


def offered() -> list[str]:
    return [one.lowering.instance.entry for one in kernels.candidates(**asked())]


def model() -> str:
    return kernels.lower(**asked()).instance.entry


def measured(entry: str, microseconds: float) -> dict[str, Any]:
    return {
        "entry": entry, "lowering": "wgmma", "variant": f"tile of {entry}", "predicted": 77.0,
        "microseconds": microseconds, "bursts": 9, "workspace_bytes": 0,
    }  # fmt: skip


def record(**microseconds: float) -> dict[str, Any]:
    """One product whose candidates took these times, the fastest of them chosen."""
    found = sorted((measured(*one) for one in microseconds.items()), key=lambda one: one["microseconds"])
    about = Environment(
        "NVIDIA H200", "sm_90", 132, "580", "13.0", "13.0", "0.1.0", "14", "2.11", "1.2", "13.3", "2.5",
        "2026-03-04T05:06:07+00:00",
    )  # fmt: skip
    row = {"case": CASE.as_json(), "chosen": found[0]["entry"], "cuBLAS": 20.0, "candidates": found}
    head = {"schema": selection.SCHEMA, "environment": asdict(about), "seconds": 1.0}
    return {**head, "left_out": [], "rows": [row]}


def every(microseconds: float) -> dict[str, float]:
    return dict.fromkeys(offered(), microseconds)


def again(**microseconds: float) -> dict[str, Any]:
    return selection.record_again(record(**microseconds), NOW)


def test_the_choice_is_the_models_and_regret_is_of_the_measured_times() -> None:
    other = next(entry for entry in offered() if entry != model())
    found = again(**every(12.0) | {model(): 10.0, other: 8.0})
    (row,) = found["rows"]
    assert row["chosen"] == model()
    assert row["candidates"][0]["entry"] == other
    assert selection.regret(row) == 10.0 / 8.0


def test_predictions_are_todays() -> None:
    (row,) = again(**every(12.0))["rows"]
    expected = {one.lowering.instance.entry: one.predicted for one in kernels.candidates(**asked())}
    for one in row["candidates"]:
        wanted = expected[one["entry"]]
        assert one["predicted"] == (None if wanted is None else round(wanted, 3))


def test_what_is_no_longer_offered_counts_no_more_and_comes_back_when_it_is() -> None:
    (row,) = (found := again(**every(12.0), no_longer=1.0))["rows"]
    assert selection.regret(row) == 1.0
    assert [one["entry"] for one in row["dropped"]] == ["no_longer"]
    row["dropped"].append(row["candidates"].pop())
    (later,) = selection.record_again(found, NOW)["rows"]
    assert {one["entry"] for one in later["candidates"]} == set(offered())
    assert [one["entry"] for one in later["dropped"]] == ["no_longer"]


def test_reading_again_changes_nothing_more() -> None:
    found = again(**every(12.0), no_longer=1.0)
    assert selection.record_again(found, NOW) == found


def test_the_heading_says_when_and_how_many() -> None:
    times = every(12.0)
    del times[next(entry for entry in times if entry != model())]
    text = selection.as_markdown(again(**times, no_longer=1.0, nor_this=2.0)).splitlines()[2]
    assert "Times were measured on 2026-03-04" in text
    assert "those of the model of 2026-05-06T07:08:09+00:00" in text
    assert "2 candidates that were measured are no longer offered" in text
    assert "1 that are offered were not measured" in text
    assert "0 products are left out" in text


def test_a_product_whose_choice_was_not_measured_has_no_regret() -> None:
    times = every(12.0)
    del times[model()]
    found = again(**times)
    assert selection.judged(found["rows"]) == []
    both = {**found, "rows": [*found["rows"], *again(**every(12.0))["rows"]]}
    text = selection.as_markdown(both)
    assert "1 products are left out because their choice was not measured" in text
    assert "| all | 1 |" in text


def test_a_record_as_it_was_measured_says_nothing_of_another_day() -> None:
    assert "Times were measured" not in selection.as_markdown(record(**every(12.0)))


def test_the_command_writes_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "selection.json"
    path.write_text(json.dumps(record(**every(12.0) | {model(): 15.0})))
    monkeypatch.setattr("sys.argv", ["selection", "--again", str(path)])
    assert selection.main() == 0
    assert "regret of 1 of 1 products: geometric mean 1.2500, worst 1.250" in capsys.readouterr().out
    assert json.loads(path.read_text())["rows"][0]["chosen"] == model()
    assert (tmp_path / "selection.md").read_text().startswith("# Selection\n\nEvery candidate of 1 products")


def test_half_a_record_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["selection", "--again", str(tmp_path / "x"), "--filter", "int8"])
    with pytest.raises(SystemExit):
        selection.main()


def test_the_choice_and_the_best_are_held_against_the_library() -> None:
    other = next(entry for entry in offered() if entry != model())
    found = again(**every(25.0) | {model(): 16.0, other: 10.0})
    assert selection.ratios(found["rows"][0]) == (1.25, 2.0)
    text = selection.as_markdown(found)
    assert "| float16 native | 1 | 1.250 | 1.25 | 512x512x512 | 2.000 | 2.00 | 512x512x512 |" in text
    assert "| 1.600 | 20.0 | 1.25 | 2.00 |" in text
    assert "took turns with them" in text


def test_a_product_that_the_library_lacks_has_no_ratio() -> None:
    found = record(**every(12.0))
    found["rows"][0]["cuBLAS"] = None
    assert selection.ratios(found["rows"][0]) is None
    assert "| 1.000 |  |  |  |" in selection.as_markdown(found)


def test_times_of_the_library_that_were_queued_late_are_not_shown() -> None:
    text = selection.as_markdown({**record(**every(12.0)), "schema": 1})
    assert "cuBLAS" not in text
    assert "| 1.000 |" in text
