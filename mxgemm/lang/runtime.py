"""Which backend runs kernels in this thread: a GPU, or the interpreter, said once."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mxgemm import device
from mxgemm.errors import PerformanceAdvice, UnsupportedError
from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.interpreter_backend import InterpreterBackend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mxgemm.lang.backend import Backend

__all__ = ["current", "forced_interpreter", "select", "use"]


class _State:
    """Backends of this process, and the one each thread chose."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.backends: dict[int, Backend] = {}
        self.interpreter: Backend | None = None
        self.default: Backend | None = None
        self.chosen = threading.local()


_state = _State()


def forced_interpreter() -> bool:
    """Whether ``MXGEMM_INTERPRETER=1`` asks for the interpreter."""
    value = os.environ.get("MXGEMM_INTERPRETER", "")
    if value not in ("", "0", "1"):
        raise UnsupportedError(f"MXGEMM_INTERPRETER={value!r}; it is 1 (interpret), 0 or unset")
    return value == "1"


def current() -> Backend:
    """The backend of this thread; the first call decides, and says so when there is no GPU."""
    chosen: Backend | None = getattr(_state.chosen, "backend", None)
    if chosen is not None:
        return chosen
    if _state.default is None:
        with _state.lock:
            if _state.default is None:
                _state.default = _decide()
    return _state.default


def _decide() -> Backend:
    if forced_interpreter():
        return InterpreterBackend()
    if device.available():
        return _gpu(0)
    warnings.warn(
        "no CUDA device can be used here, so mxgemm.cuda runs kernels on its reference interpreter: the same "
        "results, more slowly (MXGEMM_INTERPRETER=1 asks for that and silences this)",
        PerformanceAdvice,
        stacklevel=4,
    )
    return InterpreterBackend()


def _gpu(ordinal: int) -> Backend:
    if ordinal not in _state.backends:
        _state.backends[ordinal] = CudaBackend(ordinal)
    return _state.backends[ordinal]


def select(ordinal: int) -> None:
    """Make a device this thread's own; the interpreter is device 0 where there is no GPU.

    Raises
    ------
    UnsupportedError
        When there is no such device.
    """
    if isinstance(current(), InterpreterBackend):
        if ordinal != 0:
            raise UnsupportedError(f"device {ordinal}: the interpreter is device 0, the only one here")
        return
    if not 0 <= ordinal < device.count():
        raise UnsupportedError(f"there is no CUDA device {ordinal}; this machine has {device.count()}")
    _state.chosen.backend = _gpu(ordinal)


@contextmanager
def use(backend: Backend) -> Iterator[Backend]:
    """Run this thread's kernels on ``backend`` within the block."""
    before = getattr(_state.chosen, "backend", None)
    _state.chosen.backend = backend
    try:
        yield backend
    finally:
        _state.chosen.backend = before
