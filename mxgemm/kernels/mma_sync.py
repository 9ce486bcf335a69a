"""The mma.sync family: matrix units of sm_75 and later, one tile of D a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.limits import SHARED_KIB, has_async_copies
from mxgemm.kernels.names import CXX, SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, LEAST_ASYNC, OperandClass
from mxgemm.kernels.product import ProductClass

__all__ = ["MmaSyncInstance", "Tile", "instances", "instruction_for", "tiles_for"]

_PARTS = (
    "types", "convert", "arguments", "tile_order", "shared_layout", "shared_access", "operand",
    "copy_async", "copy_registers", "pad", "mma", "fragment", "chain", "pipeline", "operand_overflow",
    "activations", "epilogue", "store", "mma_sync",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tile:
    """Shape of a block's work.

    Attributes
    ----------
    warps_m, warps_n, warp_m, warp_n : int
        Warps of a block along M and N, and the rows and columns that each computes.
    depth_bytes : int
        Bytes of a stage's row along K, in the element that shared memory holds.
    stages : int
        Stages of the ring.
    blocks : int
        Blocks that one multiprocessor is meant to hold.
    buffers : int
        Steps whose fragments a warp holds: 2 to read a step ahead, 1 where other warps hide the latency.
    """

    warps_m: int
    warps_n: int
    warp_m: int
    warp_n: int
    depth_bytes: int
    stages: int
    blocks: int
    buffers: int = 2

    @property
    def m(self) -> int:
        """Rows of D."""
        return self.warps_m * self.warp_m

    @property
    def n(self) -> int:
        """Columns of D."""
        return self.warps_n * self.warp_n

    def __str__(self) -> str:
        warps = f"{self.warps_m}x{self.warps_n} warps"
        ahead = "" if self.buffers == 2 else f"/{self.buffers} buffer"
        return f"{self.m}x{self.n}x{self.depth_bytes}B/{warps}/{self.stages} stages{ahead}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A struct of mma.cuh: the format it is fed, its depth along K, and the types shared memory holds."""

    struct: str
    depth: int


def instruction_for(unit: str, arch: str, signs: tuple[bool, bool] = (True, True)) -> Instruction:
    """The instruction whose arithmetic is the row of ``unit`` on ``arch``."""
    before_ampere = arch in ("sm_70", "sm_75")
    if unit == "s8":
        a, b = (str(sign).lower() for sign in signs)
        return Instruction(f"MmaInt8{'Depth16' if before_ampere else ''}<{a}, {b}>", 32)
    if unit == "f64":
        return Instruction("MmaF64<4>", 4) if arch == "sm_90" else Instruction("MmaF64Rows8", 4)
    if unit == "f16":
        return Instruction("MmaF16Depth8" if before_ampere else "MmaF16", 16)
    return Instruction({"bf16": "MmaBf16", "tf32": "MmaTf32"}[unit], {"bf16": 16, "tf32": 8}[unit])


@dataclass(frozen=True)
class MmaSyncInstance(KernelInstance):
    """One kernel of the family.

    Attributes
    ----------
    instruction : Instruction
    shared_a, shared_b : str
        Element types that shared memory holds.
    tile : Tile
    chain : int
        Products along K after which the unit's sum goes to the master sum; 0 for one chain.
    asynchronous : bool
        Whether the architecture has cp.async.
    """

    instruction: Instruction
    shared_a: str
    shared_b: str
    tile: Tile
    chain: int
    asynchronous: bool

    @property
    def lowering(self) -> str:
        """The kernel family."""
        return "mma.sync"

    @property
    def variant(self) -> str:
        """Instruction and tile."""
        chain = f", chains of {self.chain}" if self.chain else ""
        return f"{self.instruction.struct} {self.tile}{chain}"

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.tile.warps_m * self.tile.warps_n

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
    def depth(self) -> int:
        """Elements of a stage along K."""
        return self.tile.depth_bytes // max(SIZES[self.shared_a], SIZES[self.shared_b])

    @property
    def rounds(self) -> bool:
        """Whether float32 operands are rounded to a narrower format."""
        return self.a.dtype == "float32" and self.accumulator == "float32"

    @property
    def has_flags(self) -> bool:
        """Rounded operands may overflow."""
        return self.rounds or super().has_flags

    def _stage_bytes(self, operand: OperandClass, shared: str, extent: int) -> int:
        size = SIZES[shared]
        outer, inner = (extent, self.depth) if operand.layout == "k_major" else (self.depth, extent)
        wide = size == 8 or (size == 4 and operand.layout == "mn_major")
        return outer * (inner * size + (32 if wide else 16))

    @property
    def shared_bytes(self) -> int:
        """The ring of stages, or the band of sums that the epilogue passes through, whichever is larger."""
        stage = self._stage_bytes(self.a, self.shared_a, self.tile.m)
        stage += self._stage_bytes(self.b, self.shared_b, self.tile.n)
        band = self.tile.warp_m * (self.tile.n + 8) * SIZES[self.accumulator]
        return max(stage * self.tile.stages, band)

    def _is_async(self, operand: OperandClass, shared: str) -> bool:
        return self.asynchronous and operand.dtype == shared and operand.alignment >= LEAST_ASYNC

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        t = self.tile
        chain_tiles = self.chain // self.depth
        async_a = str(self._is_async(self.a, self.shared_a)).lower()
        async_b = str(self._is_async(self.b, self.shared_b)).lower()
        return (
            f"using Math = {self.instruction.struct};",
            f"using A = {_operand(self.a, self.shared_a)};",
            f"using B = {_operand(self.b, self.shared_b)};",
            f"using Epilogue = ::{self.epilogue.cxx()};",
            f"static constexpr int WARPS_M = {t.warps_m}, WARPS_N = {t.warps_n};",
            f"static constexpr int WARP_M = {t.warp_m}, WARP_N = {t.warp_n};",
            f"static constexpr int DEPTH = {self.depth}, STAGES = {t.stages}, BUFFERS = {t.buffers};",
            f"static constexpr int CHAIN_TILES = {chain_tiles};",
            f"static constexpr int BATCH_AXES = {self.batch_axes}, VECTOR = {self.epilogue.vector};",
            f"static constexpr bool A_ASYNC = {async_a}, B_ASYNC = {async_b};",
            f"static constexpr bool ROUNDS = {str(self.rounds).lower()};",
        )


def _operand(x: OperandClass, shared: str) -> str:
    return f"Operand<{CXX[x.dtype]}, {CXX[shared]}, {x.layout}, {x.alignment}>"


# Tiles by what limits them.  Warps of 64x64 need the fewest bytes of shared memory a product; a master sum
# or registers in flight leave room for 64x32 only, and copies in pieces of 4 bytes for short rows only.
# At equal cost the first runs.
_WIDE = (Tile(2, 4, 64, 64, 128, 3, 1), Tile(2, 4, 64, 64, 64, 3, 1))
_SQUARE = (Tile(2, 2, 64, 64, 128, 3, 2), Tile(2, 2, 64, 64, 64, 4, 2))
_HALF = (Tile(2, 2, 64, 32, 128, 4, 2),)
_PIECES_OF_8 = (Tile(2, 4, 64, 64, 128, 3, 1), Tile(2, 4, 64, 32, 64, 4, 1))
_PIECES_OF_4 = (Tile(2, 4, 64, 32, 64, 4, 1),)
_CHAINED = (Tile(2, 4, 64, 32, 128, 4, 1), Tile(2, 4, 64, 32, 64, 3, 1))
_THROUGH_REGISTERS = (Tile(2, 4, 64, 32, 128, 2, 1), Tile(2, 4, 64, 32, 64, 2, 1))
_SMALL = (Tile(2, 2, 32, 32, 128, 4, 2), Tile(2, 2, 32, 32, 64, 4, 3))
_SMALL_THROUGH_REGISTERS = _SMALL[1:]
_BEFORE_AMPERE = (Tile(2, 4, 64, 32, 64, 2, 1), Tile(2, 2, 32, 32, 64, 2, 3))
_F64_DEPTH = 16
_F64_HALF = (Tile(2, 2, 32, 64, 128, 4, 2), Tile(2, 2, 32, 32, 128, 4, 2))
# 16 warps hide each other's loads, which leaves registers for one step's fragments and for wide copies only.
_F64 = (Tile(4, 4, 32, 32, 128, 4, 1, buffers=1), *_F64_HALF)
_F64_PIECES = (Tile(2, 4, 64, 32, 128, 3, 1), *_F64_HALF)


def tiles_for(
    unit: str, arch: str, *, chained: bool, through_registers: bool, piece: int
) -> tuple[Tile, ...]:
    """Tiles on offer, largest first; ``piece`` is the operands' common alignment in bytes."""
    if unit == "f64":
        return _F64 if piece == LARGEST_ALIGNMENT else _F64_PIECES
    if arch == "sm_75":
        return _BEFORE_AMPERE
    if through_registers:
        # With master sums, only short rows leave registers for what is in flight.
        return (*_THROUGH_REGISTERS[chained:], *_SMALL_THROUGH_REGISTERS)
    if chained:
        return (*_CHAINED, *_SMALL) if piece == LARGEST_ALIGNMENT else (*_CHAINED[1:], *_SMALL)
    if piece < LARGEST_ALIGNMENT:
        return (*(_PIECES_OF_4 if piece == LEAST_ASYNC else _PIECES_OF_8), *_SMALL[1:])
    if unit == "tf32":
        # Tiles of 64 columns do not pay, and for sm_100 the compiler spills in warps of 64x64.
        return (*(_CHAINED if arch == "sm_100" else (*_WIDE, *_SQUARE)), *_SMALL)
    return (*_WIDE, *_SQUARE, *_HALF, *_SMALL)


def instances(p: ProductClass) -> Iterator[MmaSyncInstance]:
    """Every instance that can compute this class of products, largest tile first."""
    configuration, a, b = p.configuration, p.a, p.b
    unit = str(configuration.unit)
    signs = (not a.dtype.startswith("u"), not b.dtype.startswith("u"))
    converted = {"f16": "float16", "bf16": "bfloat16"}.get(configuration.rounds_to or "")
    chain = configuration.chain if configuration.chain and p.k > configuration.chain else 0
    slow = any(x.alignment < LEAST_ASYNC or converted for x in (a, b))
    piece = min(a.alignment, b.alignment)
    for tile in tiles_for(unit, p.arch, chained=bool(chain), through_registers=slow, piece=piece):
        depth_bytes = _F64_DEPTH * SIZES[a.dtype] if unit == "f64" else tile.depth_bytes
        found = MmaSyncInstance(
            a, b, p.accumulator, p.epilogue, p.batch_axes, instruction_for(unit, p.arch, signs),
            converted or a.dtype, converted or b.dtype, replace(tile, depth_bytes=depth_bytes),
            chain, has_async_copies(p.arch),
        )  # fmt: skip
        if found.shared_bytes <= SHARED_KIB[p.arch] * 1024:
            yield found
