"""HopperTile: a block's tile, its ring and its cluster; and the tiles on offer."""

from __future__ import annotations

from dataclasses import dataclass

from mxgemm.problem import GemmProblem

__all__ = ["PANEL", "ROW_BYTES", "HopperTile"]

ROW_BYTES = 128
"""Bytes along K of one stage, and of one row of the swizzled layout."""

PANEL = 64
"""Columns of a panel of an operand whose rows run along N."""


@dataclass(frozen=True, slots=True)
class HopperTile:
    """Shape of a block's work.

    Attributes
    ----------
    rows, columns : int
        Of D: 64 rows a consumer warpgroup, or as many blocks of 64 as ``row_blocks``.
    stages : int
        Of the ring, each 128 bytes deep along K.
    buffers : int
        Shared-memory buffers of 64 rows x 128 bytes for the stores of each consumer.
    cluster : int
        Blocks below each other that share columns of B.
    row_blocks : int
        Blocks of 64 rows that a consumer computes.
    """

    rows: int
    columns: int
    stages: int
    buffers: int = 2
    cluster: int = 1
    row_blocks: int = 1

    @property
    def consumers(self) -> int:
        """Consumer warpgroups."""
        return self.rows // (64 * self.row_blocks)

    @property
    def group(self) -> int:
        """Rows of tiles, clusters counting once, that go together so that L2 serves them."""
        return 16 // (self.cluster * self.row_blocks)

    def copied_columns(self, b_k_major: bool) -> int:
        """Columns of B that a stage brings in: panels of B along N are whole."""
        return self.columns if b_k_major else -(-self.columns // PANEL) * PANEL

    def stage_bytes(self, b_k_major: bool) -> int:
        """Shared memory of one stage."""
        return (self.rows + self.copied_columns(b_k_major)) * ROW_BYTES

    @property
    def store_bytes(self) -> int:
        """Shared memory of the stores' buffers."""
        return self.consumers * self.buffers * 64 * ROW_BYTES

    def count(self, p: GemmProblem) -> int:
        """Tiles of a problem, or clusters of them."""
        return -(-p.m // (self.rows * self.cluster)) * -(-p.n // self.columns) * p.products

    def __str__(self) -> str:
        cluster = f"/cluster of {self.cluster}" if self.cluster > 1 else ""
        return f"{self.rows}x{self.columns}/{self.stages} stages{cluster}"
