"""NVRTC's version is remembered for one library file found in one way, and never trusted beyond that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mxgemm.device import compiler, disk_cache, nvrtc_record

pytest.importorskip("cuda.pathfinder")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library of which (13, 5) is remembered in ``tmp_path``, found in a folder of packages there."""
    import cuda.pathfinder

    packages = tmp_path / "packages"
    packages.mkdir()
    found = packages / "libnvrtc-of-a-test.so.13"
    found.write_bytes(b"library")
    monkeypatch.setattr(nvrtc_record.site, "getsitepackages", lambda: [str(packages)])
    monkeypatch.setattr(
        cuda.pathfinder, "load_nvidia_dynamic_lib", lambda _name: SimpleNamespace(abs_path=str(found))
    )
    nvrtc_record.keep(str(tmp_path), (13, 5))
    return found


def record_of(folder: Path) -> Path:
    (found,) = (folder / "nvrtc").iterdir()
    return found


@pytest.mark.usefixtures("library")
def test_what_was_kept_is_recalled(tmp_path: Path) -> None:
    assert nvrtc_record.recall(str(tmp_path)) == (13, 5)
    assert nvrtc_record.recall(str(tmp_path / "elsewhere")) is None


def test_another_library_is_asked_itself(library: Path, tmp_path: Path) -> None:
    before = library.stat()
    library.write_bytes(b"library that is longer")
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert nvrtc_record.recall(str(tmp_path)) is None
    library.write_bytes(b"another")
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert nvrtc_record.recall(str(tmp_path)) is None
    library.write_bytes(b"library")
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert nvrtc_record.recall(str(tmp_path)) == (13, 5)
    library.unlink()
    assert nvrtc_record.recall(str(tmp_path)) is None


def test_a_package_that_was_installed_since_may_bring_another_library(library: Path, tmp_path: Path) -> None:
    (library.parent / "nvidia_cuda_nvrtc-99.dist-info").mkdir()
    os.utime(library.parent, ns=(0, 10**18))
    assert nvrtc_record.recall(str(tmp_path)) is None


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("variable", ["LD_LIBRARY_PATH", "PYTHONPATH"])
def test_another_search_path_may_find_another_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "/somewhere/else")
    assert nvrtc_record.recall(str(tmp_path)) is None


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    "change",
    [
        lambda _values: None, lambda _values: [], lambda _values: {},
        lambda values: {**values, "version": "13.5"}, lambda values: {**values, "version": [13]},
        lambda values: {**values, "version": [13, 5.0]}, lambda values: {**values, "kind": "other"},
        lambda values: {**values, "library": 7}, lambda values: {**values, "library": []},
    ],
)  # fmt: skip
def test_a_damaged_record_is_none(tmp_path: Path, change: Any) -> None:
    path = record_of(tmp_path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert nvrtc_record.recall(str(tmp_path)) is None
    path.write_bytes(b"\xff{")
    assert nvrtc_record.recall(str(tmp_path)) is None


@pytest.mark.usefixtures("library")
def test_a_library_that_is_loaded_already_speaks_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc_record, "_version_if_loaded", lambda _path: (12, 9))
    assert nvrtc_record.recall(str(tmp_path)) == (12, 9)


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    nvrtc_record.keep(str(tmp_path / "file"), (13, 5))
    assert nvrtc_record.recall(str(tmp_path / "file")) is None


def test_a_key_is_made_without_loading_nvrtc(tmp_path: Path) -> None:
    code = """
import sys
from mxgemm.device import compiler, disk_cache
print(disk_cache.key("", "k", "sm_80", compiler.EXACT), "cuda.bindings.nvrtc" in sys.modules)
"""
    environment = {**os.environ, "MXGEMM_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert [one[1] for one in told] == ["True", "False"]
    assert told[0][0] == told[1][0]


def test_the_library_that_compiles_corrects_the_record(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library.exists()
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_versions", {})
    of_the_record = disk_cache.key("", "k", "sm_80", compiler.EXACT)
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: (13, 6))
    disk_cache.compiled_now(disk_cache.location())
    assert disk_cache.key("", "k", "sm_80", compiler.EXACT) != of_the_record
    assert nvrtc_record.recall(str(tmp_path)) == (13, 6)
