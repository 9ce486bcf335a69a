"""Machine code kept on disk between processes; a broken or missing folder only costs recompilation."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from mxgemm.device import compiler, driver, nvrtc_record
from mxgemm.errors import UnsupportedError

__all__ = ["DEFAULT_SIZE", "Location", "compiled_now", "key", "load", "location", "store"]

_log = logging.getLogger("mxgemm.device")

DEFAULT_SIZE = 512 << 20  # bytes; a kernel takes 10 to 100 KiB
_SCHEMA = "1"  # part of every key: raise it when the meaning of an entry changes

Location = tuple[str, int]


def location() -> Location | None:
    """Folder and size in bytes that the environment asks for; None when ``MXGEMM_CACHE_DIR=0``.

    Raises
    ------
    UnsupportedError
        For a ``MXGEMM_CACHE_SIZE`` that is no positive number of bytes.
    """
    folder = os.environ.get("MXGEMM_CACHE_DIR")
    if folder == "0":
        return None
    size = os.environ.get("MXGEMM_CACHE_SIZE", str(DEFAULT_SIZE))
    if not size.isascii() or not size.isdigit() or int(size) == 0:
        raise UnsupportedError(
            f"MXGEMM_CACHE_SIZE={size!r} is not supported; give a positive number of bytes, or "
            "MXGEMM_CACHE_DIR=0 to turn the disk cache off"
        )
    try:
        return folder or str(_default_folder()), int(size)
    except RuntimeError as error:  # a user without a home directory
        _log.warning("kernels are not kept on disk: %s (MXGEMM_CACHE_DIR chooses a folder)", error)
        return None


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mxgemm"


def key(source: str, entry: str, arch: str, options: compiler.CompileOptions) -> str:
    """Everything that decides the machine code, as one hexadecimal digest."""
    parts = (_SCHEMA, repr(_version(location())), entry, arch, repr(options), source)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_versions: dict[str, tuple[int, int]] = {}  # of NVRTC, by the folder that remembers it


def _version(at: Location | None) -> tuple[int, int]:
    """NVRTC's version, from the folder where it is remembered there: loading the library takes longer."""
    if at is None:
        return compiler.nvrtc_version()
    if at[0] not in _versions:
        found = nvrtc_record.recall(at[0])
        if found is None:
            found = compiler.nvrtc_version()
            nvrtc_record.keep(at[0], found)
        _versions[at[0]] = found
    return _versions[at[0]]


def compiled_now(at: Location | None) -> None:
    """Correct what is remembered of NVRTC by the library that has just compiled: later keys name that one."""
    found = compiler.nvrtc_version()
    if at is not None and _versions.get(at[0]) != found:
        nvrtc_record.keep(at[0], found)
        _versions[at[0]] = found


@lru_cache(maxsize=4)
def _open(at: Location) -> Any:
    """The cache in a folder, or None with one log line when it cannot be opened."""
    driver.core()
    from cuda.core.utils import FileStreamProgramCache

    try:
        return FileStreamProgramCache(at[0], max_size_bytes=at[1])
    except OSError as error:
        _log.warning("kernels are not kept on disk: %s (MXGEMM_CACHE_DIR chooses another folder)", error)
        return None


def _read(at: Location, name: str) -> bytes:
    """One entry, as FileStreamProgramCache gives it.

    Its file is read where that class keeps it, because importing cuda.core takes longer than all else of a
    hit; whatever is not there is asked of the class itself.
    """
    digest = hashlib.sha256(name.encode()).hexdigest()
    path = Path(at[0]) / "entries" / digest[:2] / digest[2:]
    try:
        data = path.read_bytes()
    except OSError:
        cache = _open(at)
        if cache is None:
            raise
        return bytes(cache[name])
    with suppress(OSError):  # the entries that were read last stay longest
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
    return data


def load(at: Location | None, digest: str, entry: str, arch: str) -> compiler.CompiledCubin | None:
    """The stored machine code; None when it is missing, damaged or unreadable."""
    if at is None:
        return None
    try:
        code, facts = _read(at, digest), json.loads(_read(at, f"{digest}.json"))
    except (LookupError, OSError, ValueError):
        return None
    if not isinstance(facts, dict) or facts.get("sha256") != hashlib.sha256(code).hexdigest():
        _log.warning("a kernel on disk is damaged and is compiled again: %s", digest)
        return None
    log = str(facts.get("log"))
    resources = compiler.parse_resources(log, entry)
    return None if resources is None else compiler.CompiledCubin(code, entry, arch, log, resources)


def store(at: Location | None, digest: str, cubin: compiler.CompiledCubin) -> None:
    """Keep machine code; a folder that cannot be written costs one log line."""
    cache = None if at is None else _open(at)
    if cache is None:
        return
    facts = {"sha256": hashlib.sha256(cubin.code).hexdigest(), "log": cubin.log}
    try:
        cache[digest] = cubin.code
        cache[f"{digest}.json"] = json.dumps(facts).encode()
    except OSError as error:
        _log.warning("%s is not kept on disk: %s", cubin.entry, error)
