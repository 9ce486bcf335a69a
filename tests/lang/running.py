"""Running kernels from source text, on a chosen backend, and comparing bits."""

from __future__ import annotations

import itertools
import linecache
import math
from typing import Any

import numpy as np

from mxgemm import cuda
from mxgemm.lang.interpreter_backend import InterpreterBackend
from mxgemm.lang.runtime import use

_numbers = itertools.count()


def function(source: str, name: str = "kernel") -> Any:
    """The function that ``source`` defines, its text known to inspect."""
    filename = f"<kernel {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"cuda": cuda, "math": math, "np": np}
    exec(compile(source, filename, "exec"), namespace)  # noqa: S102  # the text is this test's own
    return namespace[name]


def interpret(kernel: Any, grid: Any, block: Any, *arguments: Any, shared: int = 0) -> None:
    """Launch on the interpreter, whatever this machine has."""
    with use(InterpreterBackend()):
        kernel[grid, block, 0, shared](*arguments)


def difference(name: str, left: Any, right: Any) -> str | None:
    """Where two arrays differ in bits, any NaN equal to any NaN; None where they do not."""
    a, b = np.asarray(left), np.asarray(right)
    raw = f"u{a.dtype.itemsize}"
    different = a.view(raw) != b.view(raw)
    if a.dtype.kind not in "iub":
        different &= ~(np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64)))
    if not different.any():
        return None
    at = tuple(int(x) for x in np.argwhere(different)[0])
    return f"{name}{list(at)}: {a[at]!r} and {b[at]!r}; {int(different.sum())} of {a.size} differ"
