"""The scalar family: one fused multiply-add after the other, every element type, any strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import CXX, SIZES
from mxgemm.kernels.operands import OperandClass
from mxgemm.kernels.product import ProductClass

__all__ = ["ScalarInstance", "ScalarTile", "instances"]

_PARTS = (
    "types", "convert", "arguments", "tile_order", "shared_layout", "operand", "activations", "epilogue",
    "store", "scalar",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScalarTile:
    """Shape of a block's work: M×N entries, ``thread``×``thread`` of them a thread, ``depth`` along K."""

    m: int
    n: int
    thread: int
    depth: int
    unroll: int
    blocks: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.depth}"


@dataclass(frozen=True)
class ScalarInstance(KernelInstance):
    """One kernel of the family."""

    tile: ScalarTile

    @property
    def lowering(self) -> str:
        """The kernel family."""
        return "scalar"

    @property
    def variant(self) -> str:
        """The tile."""
        return str(self.tile)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile.m * self.tile.n // self.tile.thread**2

    @property
    def blocks(self) -> int:
        """Blocks that one multiprocessor is meant to hold."""
        return self.tile.blocks

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of D that a block computes."""
        return self.tile.m, self.tile.n

    @property
    def parts(self) -> tuple[str, ...]:
        """Building blocks, in order."""
        return _PARTS

    @property
    def takes_inner_strides(self) -> bool:
        """Any strides."""
        return True

    @property
    def shared_bytes(self) -> int:
        """Two stages of both operands, or the band of sums that the epilogue passes through."""
        t, size = self.tile, SIZES[self.accumulator]
        stages = 2 * t.depth * (t.m + t.n + 8) * max(size, 4)
        return max(stages, 4 * t.thread * (t.n + 8) * size)

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        t = self.tile
        return (
            f"using Accumulator = {CXX[self.accumulator]};",
            f"using A = {_operand(self.a)};",
            f"using B = {_operand(self.b)};",
            f"using Epilogue = ::{self.epilogue.cxx()};",
            f"static constexpr int BM = {t.m}, BN = {t.n}, DEPTH = {t.depth}, THREAD_TILE = {t.thread};",
            f"static constexpr int UNROLL = {t.unroll}, BATCH_AXES = {self.batch_axes};",
            f"static constexpr int VECTOR = {self.epilogue.vector};",
        )


def _operand(x: OperandClass) -> str:
    return f"Operand<{CXX[x.dtype]}, {CXX[x.dtype]}, {x.layout}, {SIZES[x.dtype]}>"


_LARGE = ScalarTile(128, 128, 8, 16, 4, 1)
_LARGE_64_BIT = ScalarTile(64, 64, 4, 16, 4, 2)
_SMALL = ScalarTile(32, 32, 4, 16, 4, 4)


def instances(p: ProductClass) -> Iterator[ScalarInstance]:
    """Every instance that can compute this class of products, largest tile first."""
    for tile in (_LARGE if SIZES[p.accumulator] <= 4 else _LARGE_64_BIT, _SMALL):
        yield ScalarInstance(p.a, p.b, p.accumulator, p.epilogue, p.batch_axes, tile)
