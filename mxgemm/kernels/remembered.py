"""Measured choices, remembered by the process and, beside the compiled kernels, on disk.

A file holds one choice.  It is written whole and replaced whole, so that processes may write at once; one
that is damaged, that belongs to something else, or that was measured with other kernels costs a log line.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from mxgemm.device import disk_cache
from mxgemm.kernels.tuned import Choice, kernels_sha256

__all__ = ["Key", "find", "folder", "forget", "keep", "version"]

_log = logging.getLogger("mxgemm.autotune")

_KIND, _SCHEMA = "mxgemm autotune", 1
_LONGEST = 1e15  # microseconds: what is longer, infinite or no number, nobody measured


class Key(NamedTuple):
    """What a choice belongs to.

    Attributes
    ----------
    device : str
        The device's name.
    multiprocessors : int
    signature : str
        As :func:`mxgemm.kernels.tuned.signature` gives it.
    """

    device: str
    multiprocessors: int
    signature: str

    @property
    def digest(self) -> str:
        """Name of the key's file, without its ending."""
        parts = (_KIND, str(_SCHEMA), self.device, str(self.multiprocessors), self.signature)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_lock = threading.Lock()
_known: dict[Key, Choice | None] = {}
_versions = itertools.count(1)
_version = 0


def version() -> int:
    """Another number whenever :func:`find` may answer otherwise than before."""
    return _version


def _changed() -> None:
    """Count a change of what this process remembers; under the lock."""
    global _version  # noqa: PLW0603  # one number, read without a lock
    _version = next(_versions)


def forget() -> None:
    """Drop what this process remembers; files stay."""
    with _lock:
        _known.clear()
        _changed()


def folder() -> Path | None:
    """Where choices are kept on disk, there or not; None when ``MXGEMM_CACHE_DIR`` turns the disk off.

    Raises
    ------
    UnsupportedError
        As :func:`mxgemm.device.disk_cache.location`.
    """
    at = disk_cache.location()
    return None if at is None else Path(at[0]) / "autotune"


def find(key: Key) -> Choice | None:
    """The choice that this process, or an earlier one, measured; None where there is none.

    A file is read once a process.
    """
    with _lock:
        if key in _known:
            return _known[key]
    text = _text_of(key)
    if text is None:
        return None
    choice, reason = _parsed(text, key)
    with _lock:
        if key not in _known:
            _known[key] = choice
            if choice is None:
                _log.warning("%s is not used, because it %s; mxgemm.autotune replaces it", _path(key), reason)
        return _known[key]


def keep(key: Key, choice: Choice, times: Mapping[str, float]) -> str:
    """Remember a choice from now on, here and on disk; says where, or why not on disk, in words.

    Parameters
    ----------
    times : mapping of str to float
        Microseconds of every candidate by its entry, kept for people.
    """
    with _lock:
        _known[key] = choice
        _changed()
    path = _path(key)
    if path is None:
        return "in this process only (MXGEMM_CACHE_DIR=0)"
    values = {
        "kind": _KIND, "schema": _SCHEMA, "device": key.device, "multiprocessors": key.multiprocessors,
        "signature": key.signature, "kernels_sha256": kernels_sha256(), "choice": choice._asdict(),
        "microseconds": dict(times),
    }  # fmt: skip
    try:
        _write(path, json.dumps(values, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        _log.warning("a measured choice is not kept on disk: %s", error)
        return f"in this process only ({error})"
    return str(path)


def _write(path: Path, text: str) -> None:
    """Write a file whole: nobody sees a part of it, and of two writers the last one stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # As readable as the user's files are: tempfile's would be closed to the others who share the folder.
    whole = path.with_name(f".{path.stem}.{os.urandom(8).hex()}.tmp")
    try:
        with whole.open("x", encoding="utf-8") as file:
            file.write(text)
        whole.replace(path)
    except BaseException:
        with suppress(OSError):
            whole.unlink()
        raise


def _path(key: Key) -> Path | None:
    """The file of a key, there or not."""
    at = folder()
    return None if at is None else at / f"{key.digest}.json"


def _text_of(key: Key) -> str | None:
    """What the key's file holds, damaged or not; None where there is no file or nothing can be read."""
    path = _path(key)
    try:
        return None if path is None else path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _log.warning("a measured choice cannot be read and is not used: %s", error)
        return None


def _parsed(text: str, key: Key) -> tuple[Choice | None, str]:
    """The choice in a file's text, or why there is none for this key and these kernels."""
    try:
        values = json.loads(text)
    except ValueError:
        return None, "is no JSON"
    except RecursionError:
        return None, "is nested too deeply"
    if not isinstance(values, dict) or (values.get("kind"), values.get("schema")) != (_KIND, _SCHEMA):
        return None, f"is no {_KIND} file of schema {_SCHEMA}"
    named = Key(values.get("device", ""), values.get("multiprocessors", 0), values.get("signature", ""))
    if named != key:
        return None, "belongs to another device or product"
    if values.get("kernels_sha256") != kernels_sha256():
        return None, "was measured with other kernels"
    choice = _choice_of(values.get("choice"))
    return choice, "" if choice else "holds no choice"


def _choice_of(values: Any) -> Choice | None:
    """A choice from JSON values; None unless every field is there and of its type."""
    if not isinstance(values, dict) or set(values) != set(Choice._fields):
        return None
    for name, kind in get_type_hints(Choice).items():
        value = values[name]
        if value.__class__ is not kind and (kind, value.__class__) != (float, int):
            return None
        if kind is float and not 0 <= value < _LONGEST:
            return None
    return Choice(**values)
