"""The counters of ncu: its table read, paired with products, and told; without ncu, in words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import counters
from tests.report.records import ENVIRONMENT

SAMPLE = (Path(__file__).parent / "data" / "ncu_raw.csv").read_text()
ARCH, OLD = "sm_90", "mxgemm_wgmma_de7e38600793"


def sample_of_today() -> str:
    """The sample with the kernels that run today; their names are hashes."""
    before, table = SAMPLE.split('"ID"')
    for case in counters.cases_of():
        table = table.replace(OLD, case.lowering(ARCH).instance.entry, 1)
    return f'{before}"ID"{table}'


def record() -> dict[str, Any]:
    rows = counters.paired(counters.parsed(sample_of_today()), counters.cases_of())
    return {
        "kind": "counters", "schema": 1, "environment": ENVIRONMENT.as_json(), "seconds": 12.5,
        "ncu": "Nsight Compute 2025.3", "rows": list(counters.with_kernels(rows, ARCH)),
    }  # fmt: skip


def test_every_counter_of_every_launch_is_read() -> None:
    found = counters.parsed(SAMPLE)
    assert len(found) == 6
    name, first = found[0]
    assert name == OLD
    assert first == pytest.approx(
        {
            "microseconds": 188.1e-6, "tensor_pipe_percent": 89.29, "clock_ghz": 1510214832.53,
            "read_megabytes": 146870016, "l2_hit_percent": 76.54, "stalled_wgmma": 1.0,
            "stalled_barrier": 8.29,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("1,234", "ns", 1.234e-6), ("6.01", "ms", 6.01e-3), ("2", "msecond", 2e-3),
        ("146.87", "Mbyte", 146.87e6), ("1.51", "Ghz", 1.51e9), ("1.51", "cycle/nsecond", 1.51e9),
        ("89.3", "%", 89.3), ("3", "", 3.0),
    ],
)  # fmt: skip
def test_units_come_in_every_size(value: str, unit: str, expected: float) -> None:
    assert counters.in_base_units(value, unit) == pytest.approx(expected)


def test_an_unknown_unit_is_no_figure() -> None:
    with pytest.raises(ValueError, match="'furlong'"):
        counters.in_base_units("1", "furlong")


def test_without_a_table_ncu_s_words_are_the_error() -> None:
    with pytest.raises(ValueError, match="ERR_NVGPUCTRPERM"):
        counters.parsed("==ERROR== ERR_NVGPUCTRPERM - no permission to access GPU Performance Counters\n")


def test_a_counter_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match=r"lts__t_sector_hit_rate\.pct"):
        counters.parsed(SAMPLE.replace("lts__t_sector_hit_rate.pct", "another"))


def test_a_product_of_another_number_of_launches_is_no_pair() -> None:
    launches = counters.parsed(SAMPLE)
    with pytest.raises(ValueError, match="one launch of ours and one of cuBLAS's"):
        counters.paired([launches[0], *launches], counters.cases_of())


def test_another_kernel_than_the_listed_one_is_refused() -> None:
    rows = counters.paired(counters.parsed(SAMPLE.replace("de7e38600793", "0")), counters.cases_of())
    with pytest.raises(ValueError, match="mxgemm_wgmma_0 ran"):
        list(counters.with_kernels(rows, ARCH))


def test_the_table_has_a_column_a_kernel_and_the_source_of_ours() -> None:
    found = record()
    text = counters.as_markdown(found)
    assert "| 4096x4096x4096, mxgemm | 4096x4096x4096, cuBLAS | 8192x8192x8192, mxgemm |" in text
    assert "| time | 188.1 us | 184.6 us | 1460.5 us | 1470.3 us | 6010.2 us | 5860.5 us |" in text
    assert "| clock | 1.51 GHz |" in text
    assert "| read from device memory | 147 MB |" in text
    assert "Measured on an A card, driver 580.1" in text
    assert "by `python -m benchmarks.counters`" in text
    assert all(row["sha256"][:12] in text and len(row["sha256"]) == 64 for row in found["rows"])


def test_the_command_writes_what_ncu_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "--version" in command:
            return subprocess.CompletedProcess(command, 0, "Version 2025.3.1.0 (build 1)", "")
        Path(command[command.index("--log-file") + 1]).write_text(sample_of_today())
        return subprocess.CompletedProcess(command, 0, "", "")

    class Here:
        arch = ARCH

    monkeypatch.setattr(counters.subprocess, "run", run)
    monkeypatch.setattr(counters, "find_ncu", lambda: "/ncu")
    monkeypatch.setattr(counters, "compile_first", lambda *_: None)
    monkeypatch.setattr(counters.device, "capabilities", Here)
    monkeypatch.setattr(counters, "read_environment", lambda: ENVIRONMENT)
    monkeypatch.setattr("sys.argv", ["counters", "--reports", str(tmp_path / "new")])
    assert counters.main() == 0
    assert "# Counters" in capsys.readouterr().out
    values = json.loads((tmp_path / "new" / "counters.json").read_text())
    assert values["ncu"] == "Nsight Compute 2025.3.1.0"
    assert values["rows"][2]["cuBLAS"]["microseconds"] == 5860.544
    assert (tmp_path / "new" / "counters.md").read_text() == counters.as_markdown(values)


def test_the_clock_is_left_alone_and_only_marked_launches_are_seen() -> None:
    command = counters.command("/ncu", Path("log"))
    text = " ".join(command)
    assert "--clock-control none --profile-from-start off --csv --page raw" in text
    assert command[command.index("--metrics") + 1].split(",") == [one.metric for one in counters.COUNTERS]
    assert text.endswith("-m benchmarks.counters --launches-only")


def test_without_ncu_nothing_is_written_and_it_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(counters, "INSTALLED", (f"{tmp_path}/cuda*/bin/ncu",))
    monkeypatch.setattr("sys.argv", ["counters", "--reports", str(tmp_path / "new")])
    assert counters.main() == 2
    assert "ncu is missing: neither on PATH nor at" in capsys.readouterr().out
    assert not (tmp_path / "new").exists()


def test_an_installed_ncu_is_found_off_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "cuda-13.0" / "bin" / "ncu"
    place.parent.mkdir(parents=True)
    place.touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(counters, "INSTALLED", (f"{tmp_path}/cuda*/bin/ncu",))
    assert counters.find_ncu() == str(place)
