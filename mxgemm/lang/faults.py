"""What the interpreter reports: faults of a running kernel, with file, line, block and thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxgemm.errors import MxgemmError

if TYPE_CHECKING:
    from mxgemm.lang.place import Place

__all__ = [
    "DivergentBarrierError",
    "DivisionByZeroError",
    "KernelFaultError",
    "OutOfBoundsError",
    "RaceError",
    "UninitialisedReadError",
]

Position = tuple[int, int, int]


class KernelFaultError(MxgemmError, RuntimeError):
    """A kernel did something undefined; the interpreter stopped at the first such statement.

    Attributes
    ----------
    filename, lineno : str, int
        The source line.
    block, thread : tuple of three ints
        blockIdx and threadIdx as (x, y, z) of the first lane concerned.
    """

    def __init__(self, message: str, place: Place, block: Position, thread: Position) -> None:
        super().__init__(
            f"{place.filename}:{place.line}: {message} (block {block}, thread {thread})\n{place.caret()}"
        )
        self.filename = place.filename
        self.lineno = place.line
        self.block = block
        self.thread = thread


class OutOfBoundsError(KernelFaultError, IndexError):
    """An index outside its array."""


class RaceError(KernelFaultError):
    """Two threads of a block touch one shared element without a barrier between, one of them writing."""


class DivergentBarrierError(KernelFaultError):
    """A barrier or warp operation that not every thread it waits for reaches."""


class UninitialisedReadError(KernelFaultError):
    """A read of a variable or of a shared or local element that was never written."""


class DivisionByZeroError(KernelFaultError, ZeroDivisionError):
    """An integer division by zero."""
