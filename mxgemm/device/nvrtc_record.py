"""The version of NVRTC without loading it: remembered beside the kernels on disk.

It is part of every kernel's key, and loading the library takes longer than reading a kernel.  A record holds
for one library file (path, size, time of change) and one state of what decides that this file is found: the
environment's variables, the folders that packages are installed to, the linker's cache.  Anything else than
a record that fits is no record: the library is asked.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import site
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["keep", "recall"]

_KIND = "mxgemm nvrtc 1"
_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")
_LINKER = "/etc/ld.so.cache"
Version = tuple[int, int]


def recall(folder: str) -> Version | None:
    """The version that an import of NVRTC would give now; None where only the library itself can tell."""
    try:
        values: Any = json.loads(_path(folder).read_text(encoding="utf-8"))
        path, version = str(values["library"][0]), values["version"]
        fits = (
            values["kind"] == _KIND
            and values["searched"] == _searched()
            and values["library"] == _facts(path)
        )
        major, minor = version
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    if not fits or major.__class__ is not int or minor.__class__ is not int:
        return None
    return _version_if_loaded(path) or (major, minor)


def keep(folder: str, version: Version) -> None:
    """Remember the version of the library that is loaded; where it cannot be found or written, nothing."""
    with suppress(ImportError, OSError, RuntimeError):
        from cuda.pathfinder import load_nvidia_dynamic_lib

        library = load_nvidia_dynamic_lib("nvrtc").abs_path
        if library is None:
            return
        values = {
            "kind": _KIND,
            "library": _facts(library),
            "searched": _searched(),
            "version": list(version),
        }
        path = _path(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.stem}.{os.urandom(8).hex()}.tmp")
        whole.write_text(json.dumps(values), encoding="utf-8")
        whole.replace(path)


def _path(folder: str) -> Path:
    """One file for each interpreter and setting of the variables."""
    parts = [_KIND, sys.prefix, *(os.environ.get(name, "") for name in _VARIABLES)]
    return Path(folder) / "nvrtc" / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}.json"


def _facts(path: str) -> list[Any]:
    found = Path(path).stat()
    return [path, found.st_size, found.st_mtime_ns]


def _searched() -> list[list[Any]]:
    """The places whose change may mean that another library is found."""
    found = []
    for place in (*site.getsitepackages(), site.getusersitepackages(), _LINKER):
        with suppress(OSError):
            found.append([place, Path(place).stat().st_mtime_ns])
    return found


def _version_if_loaded(path: str) -> Version | None:
    """What the library of this name says that the process has loaded already, if it has: that one is used."""
    mode = getattr(os, "RTLD_NOLOAD", None)
    if mode is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        ask = ctypes.CDLL(Path(path).name, mode=mode | os.RTLD_LAZY).nvrtcVersion
    except (OSError, AttributeError):
        return None
    return None if ask(ctypes.byref(major), ctypes.byref(minor)) else (major.value, minor.value)
