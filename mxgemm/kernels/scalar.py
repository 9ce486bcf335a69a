"""The scalar family: one fused multiply-add after the other, every element type, any strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.limits import SHARED_KIB, has_async_copies
from mxgemm.kernels.names import CXX, SIZES
from mxgemm.kernels.operands import OperandClass
from mxgemm.kernels.product import ProductClass

__all__ = ["ScalarInstance", "ScalarTile", "instances"]

_PARTS = (
    "types", "convert", "arguments", "tile_order", "shared_layout", "shared_access", "operand", "copy_async",
    "pad", "pipeline", "scalar_copy", "activations", "epilogue", "store", "scalar",
)  # fmt: skip

_LANES_M, _LANES_N = 4, 8


@dataclass(frozen=True, slots=True)
class ScalarTile:
    """Shape of a block's work.

    Attributes
    ----------
    m, n : int
        Entries of D.
    thread : int
        Rows, and columns, that a thread computes; a warp has 4 x 8 threads.
    depth : int
        Elements of a stage along K.
    stages : int
        Stages of the ring.
    blocks : int
        Blocks that one multiprocessor is meant to hold.
    buffers : int
        Steps whose fragments a thread holds: 2 to read a step ahead, 1 where other warps hide the latency.
    """

    m: int
    n: int
    thread: int
    depth: int
    stages: int
    blocks: int
    buffers: int = 2

    def __str__(self) -> str:
        ahead = "" if self.buffers == 2 else f"/{self.buffers} buffer"
        side = f"{self.thread}x{self.thread} a thread"
        return f"{self.m}x{self.n}x{self.depth}/{side}/{self.stages} stages{ahead}"


@dataclass(frozen=True)
class ScalarInstance(KernelInstance):
    """One kernel of the family.

    Attributes
    ----------
    tile : ScalarTile
    asynchronous : bool
        Whether the architecture has cp.async.
    """

    tile: ScalarTile
    asynchronous: bool

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
    def _sum_bytes(self) -> int:
        return max(SIZES[self.accumulator], 4)

    @property
    def shared_bytes(self) -> int:
        """The ring of stages, or the band of sums that the epilogue passes through, whichever is larger."""
        t = self.tile
        stage = t.depth * ((t.m + t.n) * self._sum_bytes + 32)
        band = _LANES_M * t.thread * (t.n + 8) * SIZES[self.accumulator]
        return max(stage * t.stages, band)

    def _is_async(self, operand: OperandClass) -> bool:
        # cp.async moves bits, so the element must be the sum's already.
        same_size = SIZES[operand.dtype] == self._sum_bytes
        return self.asynchronous and same_size and ("int" in operand.dtype) == ("int" in self.accumulator)

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        t = self.tile
        async_a, async_b = (str(self._is_async(x)).lower() for x in (self.a, self.b))
        return (
            f"using Accumulator = {CXX[self.accumulator]};",
            f"using A = {_operand(self.a)};",
            f"using B = {_operand(self.b)};",
            f"using Epilogue = ::{self.epilogue.cxx()};",
            f"static constexpr int BM = {t.m}, BN = {t.n}, DEPTH = {t.depth}, THREAD_TILE = {t.thread};",
            f"static constexpr int STAGES = {t.stages}, BUFFERS = {t.buffers};",
            f"static constexpr int BATCH_AXES = {self.batch_axes}, VECTOR = {self.epilogue.vector};",
            f"static constexpr bool A_ASYNC = {async_a}, B_ASYNC = {async_b};",
        )


def _operand(x: OperandClass) -> str:
    return f"Operand<{CXX[x.dtype]}, {CXX[x.dtype]}, {x.layout}, {SIZES[x.dtype]}>"


# Two blocks of 128 registers a thread hide each other's barriers, where float32 operands need no registers
# on their way.  Other sums and operands take a block's worth.
_LARGE = ScalarTile(128, 128, 8, 8, 4, 2)
_LARGE_ALONE = ScalarTile(128, 128, 8, 8, 4, 1)
_LARGE_64_BIT = ScalarTile(64, 64, 4, 8, 4, 2)
_MIDDLE = ScalarTile(64, 64, 4, 8, 4, 4)
_SMALL = ScalarTile(32, 32, 4, 8, 4, 4)


def instances(p: ProductClass) -> Iterator[ScalarInstance]:
    """Every instance that can compute this class of products, largest tile first."""
    asynchronous = has_async_copies(p.arch)
    if p.accumulator == "float64":
        large: tuple[ScalarTile, ...] = (_LARGE_ALONE, _LARGE_64_BIT)
    elif SIZES[p.accumulator] == 8:
        large = (_LARGE_64_BIT,)
    else:
        unconverted = p.a.dtype == p.b.dtype == p.epilogue.d == "float32"
        large = (_LARGE if unconverted and asynchronous else _LARGE_ALONE, _MIDDLE)
    for tile in (*large, _SMALL):
        found = ScalarInstance(p.a, p.b, p.accumulator, p.epilogue, p.batch_axes, tile, asynchronous)
        if found.shared_bytes <= SHARED_KIB[p.arch] * 1024:
            yield found
