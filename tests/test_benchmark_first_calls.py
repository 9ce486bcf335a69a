"""Processes whose first calls are timed run as an installed package's do."""

from pathlib import Path

import pytest

from benchmarks import first_calls


def test_a_process_reads_the_bytecode_that_an_earlier_one_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "small.py").write_text(
        "import mxgemm.lazy\nprint(mxgemm.lazy.__cached__)\n", encoding="utf-8"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    cached = Path(first_calls._run(["small"], tmp_path, "kernels").strip())
    assert cached.is_relative_to(tmp_path / "bytecode")
    assert cached.is_file()


def test_kernels_are_kept_where_only_the_next_process_of_that_name_finds_them(tmp_path: Path) -> None:
    folders = [first_calls.environment(tmp_path, name)["MXGEMM_CACHE_DIR"] for name in ("one", "other")]
    assert folders == [str(tmp_path / "one"), str(tmp_path / "other")]


def test_a_process_that_fails_tells_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="No module named no_such_module"):
        first_calls._run(["no_such_module"], tmp_path, "kernels")
