"""Working through a problem in tiles, so that memory stays bounded whatever the shape and the batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds.doubled import Float64
from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem

__all__ = ["Array", "Operands", "OperandsLike", "Subject", "Tile", "tiles", "widened"]

Array = NDArray[Any]

OPERAND_ENTRIES = 1 << 19
RESULT_ENTRIES = 1 << 18


class OperandsLike(Protocol):
    """Arrays with op() and broadcasting applied: A (*batch, M, K), B (*batch, K, N), the others like D."""

    @property
    def a(self) -> Array:
        """Left operand."""

    @property
    def b(self) -> Array:
        """Right operand."""

    @property
    def c(self) -> Array | None:
        """Addend."""

    @property
    def bias(self) -> Array | None:
        """The epilogue's bias."""

    @property
    def scale_rows(self) -> Array | None:
        """One factor a row, broadcast."""

    @property
    def scale_cols(self) -> Array | None:
        """One factor a column, broadcast."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """The plain form of :class:`OperandsLike`."""

    a: Array
    b: Array
    c: Array | None = None
    bias: Array | None = None
    scale_rows: Array | None = None
    scale_cols: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What a result is held against: the problem, the arithmetic that ran, and the operands."""

    problem: GemmProblem
    configuration: Configuration
    arch: str
    operands: OperandsLike

    @property
    def kind(self) -> str:
        """The accumulator's type, in which the epilogue runs."""
        return self.configuration.accumulator


@dataclass(frozen=True, slots=True)
class Tile:
    """Entries of D: some matrices of the batch (flat numbers), some rows, some columns."""

    batch: tuple[int, ...]
    matrices: slice
    rows: slice
    cols: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """(matrices, rows, columns)."""
        g, i, j = (s.stop - s.start for s in (self.matrices, self.rows, self.cols))
        return g, i, j

    def _index(self, rows: slice, cols: slice) -> tuple[Any, ...]:
        flat = np.arange(self.matrices.start, self.matrices.stop)
        leading = np.unravel_index(flat, self.batch) if self.batch else (None,)
        return (*leading, rows, cols)

    @property
    def index(self) -> tuple[Any, ...]:
        """Index of the tile in D, as (matrices, rows, columns)."""
        return self._index(self.rows, self.cols)

    def of_a(self, a: Array) -> Array:
        """The rows of A that the tile needs, (matrices, rows, K)."""
        taken: Array = a[self._index(self.rows, slice(None))]
        return taken

    def of_b(self, b: Array) -> Array:
        """The columns of B that the tile needs, (matrices, K, columns)."""
        taken: Array = b[self._index(slice(None), self.cols)]
        return taken

    def of_d(self, x: Array | None) -> Array | None:
        """The tile's entries of an array like D."""
        return None if x is None else x[self.index]

    def position(self, entry: int) -> tuple[int, ...]:
        """Index in D of the tile's entry number ``entry`` (row-major)."""
        g, i, j = (int(x) for x in np.unravel_index(entry, self.shape))
        leading = np.unravel_index(self.matrices.start + g, self.batch) if self.batch else ()
        return (*(int(x) for x in leading), self.rows.start + i, self.cols.start + j)


def widened(x: Array) -> Float64:
    """Floating-point values of any element type as float64, exactly."""
    return np.asarray(x).astype(np.float64)


def _slices(extent: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, extent)) for start in range(0, extent, step)]


def tiles(problem: GemmProblem) -> Iterator[Tile]:
    """Cut D into tiles of bounded operands and results; none for an empty D."""
    if problem.is_empty:
        return
    deep = max(1, OPERAND_ENTRIES // max(problem.k, 1))
    cols = min(problem.n, deep, RESULT_ENTRIES)
    rows = min(problem.m, deep, max(1, RESULT_ENTRIES // cols))
    matrices = 1
    if rows == problem.m and cols == problem.n:
        matrices = max(1, min(deep // max(rows, cols), RESULT_ENTRIES // (rows * cols)))
    for batch_part in _slices(problem.products, matrices):
        for col_part in _slices(problem.n, cols):
            for row_part in _slices(problem.m, rows):
                yield Tile(problem.batch, batch_part, row_part, col_part)
