"""The disk cache saves compilations between processes and never costs more than one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxgemm import device
from mxgemm.device import compiler, disk_cache, kernel
from mxgemm.errors import UnsupportedError

pytest.importorskip("cuda.core")

SOURCE = 'extern "C" __global__ void k(int* x) { x[0] = 1; }'


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A fresh cache folder, and nothing remembered in memory."""
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("MXGEMM_CACHE_SIZE", raising=False)
    disk_cache._open.cache_clear()
    disk_cache._versions.clear()
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Entries that NVRTC compiled."""
    seen: list[str] = []
    original = compiler.compile_cubin

    def counted(
        source: str, entry: str, arch: str, options: compiler.CompileOptions | None = None
    ) -> compiler.CompiledCubin:
        seen.append(entry)
        return original(source, entry, arch, options)

    monkeypatch.setattr(compiler, "compile_cubin", counted)
    return seen


def fresh_cubin(source: str = SOURCE, **keywords: object) -> device.CompiledCubin:
    """As a new process would get it."""
    kernel._cubins = kernel._Once()
    return device.cubin(source, "k", "sm_80", **keywords)  # type: ignore[arg-type]


def test_a_second_process_does_not_compile(folder: Path, compilations: list[str]) -> None:
    first = fresh_cubin()
    second = fresh_cubin()
    assert second == first
    assert compilations == ["k"]
    assert any(folder.rglob("*"))


@pytest.mark.usefixtures("folder")
def test_processes_share_the_folder() -> None:
    code = f"from mxgemm import device; device.cubin({SOURCE!r}, 'k', 'sm_80')"
    log = "import logging; logging.basicConfig(level='INFO'); "
    runs = [
        subprocess.run([sys.executable, "-c", log + code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert "compiling k" in runs[0].stderr
    assert "compiling k" not in runs[1].stderr


@pytest.mark.usefixtures("folder")
def test_a_hit_does_not_load_cuda_core() -> None:
    """It holds only while cuda.core keeps its entries where it does."""
    fresh_cubin()
    code = f"""
import sys
from mxgemm.device import compiler, disk_cache
digest = disk_cache.key({SOURCE!r}, "k", "sm_80", compiler.EXACT)
found = disk_cache.load(disk_cache.location(), digest, "k", "sm_80")
assert found is not None
assert "cuda.core" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_entries_that_lie_elsewhere_are_asked_of_cuda_core(folder: Path, compilations: list[str]) -> None:
    fresh_cubin()
    cache = disk_cache._open(disk_cache.location())
    digest = disk_cache.key(SOURCE, "k", "sm_80", compiler.EXACT)
    elsewhere = {name: bytes(cache[name]) for name in (digest, f"{digest}.json")}
    for path in (one for one in folder.rglob("*") if one.is_file()):
        path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_cache, "_open", lambda _at: elsewhere)
        fresh_cubin()
    assert compilations == ["k"]


def test_what_was_read_last_stays_longest(folder: Path) -> None:
    fresh_cubin()
    entries = [path for path in (folder / "entries").rglob("*") if path.is_file() and path.stat().st_size]
    for path in entries:
        os.utime(path, ns=(10**9, 2 * 10**9))
    fresh_cubin()
    assert all(path.stat().st_atime_ns > 10**18 for path in entries)
    assert all(path.stat().st_mtime_ns == 2 * 10**9 for path in entries)


def test_zero_turns_it_off(folder: Path, compilations: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", "0")
    monkeypatch.chdir(folder.parent)
    fresh_cubin()
    fresh_cubin()
    assert compilations == ["k", "k"]
    assert list(folder.parent.iterdir()) == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "changed",
    [
        {"source": SOURCE + " "},
        {"options": device.CompileOptions(fma=True)},
        {"options": device.CompileOptions(max_registers=32)},
    ],
)
def test_what_decides_the_code_decides_the_entry(compilations: list[str], changed: dict[str, object]) -> None:
    fresh_cubin()
    fresh_cubin(**changed)
    assert compilations == ["k", "k"]


@pytest.mark.usefixtures("folder")
def test_the_key_holds_source_entry_architecture_options_and_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = device.CompileOptions()
    keys = {
        disk_cache.key(SOURCE, "k", "sm_80", plain),
        disk_cache.key(SOURCE + "//", "k", "sm_80", plain),
        disk_cache.key(SOURCE, "j", "sm_80", plain),
        disk_cache.key(SOURCE, "k", "sm_86", plain),
        disk_cache.key(SOURCE, "k", "sm_80", device.CompileOptions(fastmath=True)),
    }
    monkeypatch.setattr(compiler, "nvrtc_version", lambda: (99, 1))
    disk_cache.compiled_now(disk_cache.location())
    keys.add(disk_cache.key(SOURCE, "k", "sm_80", plain))
    assert len(keys) == 6


def test_a_folder_that_cannot_be_made_only_costs_compilation(
    folder: Path, compilations: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file is in the way")
    fresh_cubin()
    fresh_cubin()
    assert compilations == ["k", "k"]
    assert sum("not kept on disk" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.usefixtures("folder")
def test_a_folder_that_cannot_be_written_still_reads(
    compilations: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh_cubin()

    def read_only(*_: object, **__: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr("tempfile.mkstemp", read_only)
    fresh_cubin()
    assert compilations == ["k"]
    fresh_cubin(SOURCE + " ")
    assert compilations == ["k", "k"]
    assert "k is not kept on disk: read-only file system" in caplog.text


def test_a_folder_that_vanishes_only_costs_compilation(folder: Path, compilations: list[str]) -> None:
    fresh_cubin()
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    fresh_cubin()
    assert compilations == ["k", "k"]


@pytest.mark.parametrize("damage", [b"", b"\x7fELF but not really", b"{}"])
def test_damaged_entries_are_compiled_again_and_repaired(
    folder: Path, compilations: list[str], damage: bytes
) -> None:
    good = fresh_cubin()
    for path in folder.rglob("entries/**/*"):
        if path.is_file():
            path.write_bytes(damage)
    assert fresh_cubin().code == good.code
    assert fresh_cubin().code == good.code
    assert compilations == ["k", "k"]


def test_a_single_other_byte_of_machine_code_is_noticed(
    folder: Path, compilations: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    good = fresh_cubin()
    (entry,) = (
        path for path in folder.rglob("entries/**/*") if path.is_file() and good.code in path.read_bytes()
    )
    code = bytearray(entry.read_bytes())
    code[len(code) // 2] ^= 1
    entry.write_bytes(code)
    assert fresh_cubin().code == good.code
    assert compilations == ["k", "k"]
    assert "damaged and is compiled again" in caplog.text
    assert entry.read_bytes() == good.code


def test_the_size_cap_evicts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_SIZE", "20000")
    for number in range(8):
        fresh_cubin(SOURCE + f"// {number}")
    kept = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert 0 < kept <= 20000


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("size", ["", "0", "-1", "1G", "many", "1.5"])
def test_a_size_that_is_no_number_of_bytes_is_refused(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_SIZE", size)
    with pytest.raises(UnsupportedError, match="MXGEMM_CACHE_SIZE"):
        disk_cache.location()


def test_the_default_folder_follows_the_desktop_convention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MXGEMM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.location() == (os.fspath(tmp_path / "mxgemm"), disk_cache.DEFAULT_SIZE)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert disk_cache.location() == (os.fspath(tmp_path / ".cache" / "mxgemm"), disk_cache.DEFAULT_SIZE)


def test_a_user_without_a_home_has_no_disk_cache(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("MXGEMM_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert disk_cache.location() is None
    assert "MXGEMM_CACHE_DIR chooses a folder" in caplog.text


def test_a_warning_is_logged_and_nothing_is_printed(
    folder: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("a file is in the way")
    with caplog.at_level(logging.WARNING, "mxgemm.device"):
        fresh_cubin()
    assert capfd.readouterr() == ("", "")
