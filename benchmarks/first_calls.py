"""First calls in processes of their own, cold and from the disk cache.

The processes run as those of an installed package do: with its bytecode cached, which an installer writes
and a checkout may lack.  It goes to a temporary folder (PYTHONPYCACHEPREFIX), and two processes that are not
measured fill it: one compiles every module of mxgemm, as an installer does, the other multiplies once, for
the modules of others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import mxgemm

__all__ = ["first_calls"]

# What are first products of processes where nothing else runs; int8 arranges an operand.
ALONE = (("float16", "native", "1024"), ("int8", "exact", "1024"))


def first_calls() -> dict[str, dict[str, float]]:
    """Milliseconds by what is called, on empty folders ("cold") and then on what the processes left there.

    Raises
    ------
    RuntimeError
        With the end of its messages, when a process fails.
    """
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _run(["compileall", "-q", str(Path(mxgemm.__file__).parent)], root, "unmeasured")
        _run(["benchmarks.first_call", *ALONE[-1]], root, "unmeasured")
        for name in ("cold", "disk cache"):
            found[name] = {}
            for one in ALONE:
                found[name] |= _times(["benchmarks.first_call", *one], root, "-".join(one))
            found[name] |= _times(["benchmarks.first_call"], root, "every")
            print(f"first call {name}: {found[name]}", flush=True)
    return found


def environment(root: Path, cache: str) -> dict[str, str]:
    """The environment of a process that keeps bytecode, and kernels in ``cache``, under ``root``."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(root / "bytecode"), "MXGEMM_CACHE_DIR": str(root / cache)}


def _times(command: list[str], root: Path, cache: str) -> dict[str, float]:
    printed = _run(command, root, cache).splitlines()[-1]
    return {key: round(milliseconds, 1) for key, milliseconds in json.loads(printed).items()}


def _run(command: list[str], root: Path, cache: str) -> str:
    """What a module prints that runs in a process of its own."""
    run = subprocess.run(
        [sys.executable, "-m", *command],
        env=environment(root, cache),
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{(run.stderr or run.stdout)[-3000:]}")
    return run.stdout
