"""Which kernels of the family can compute a product, and what each would cost.

The model is a few figures measured on an NVIDIA H200 (docs/performance.md): what the matrix units of one
multiprocessor do, what one multiprocessor takes in, and what device memory gives.  A tile's time is its
stages, each limited by the slower of units and copies, and its epilogue; blocks take tiles in waves.
"""

from __future__ import annotations

from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.tiles import ROW_BYTES, HopperTile
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["arranging", "cost", "through_registers", "waves"]

_FIXED_US = 4.5  # launch, first fill of the ring, last store
_FOLLOWING_US = 2.0  # a further launch on the same stream
_UNIT_FLOPS_PER_US = {1: 12.34e6, 2: 6.17e6, 4: 3.08e6}  # a multiprocessor, by bytes of an element
_INGEST_BYTES_PER_US = 110e3  # a multiprocessor; half of it where rows start off a line of L2
_MEMORY_BYTES_PER_US, _MEMORY_LATENCY_US = 3.9e6, 1.8
_COPY_BYTES_PER_US = 3.3e6  # read and written by the kernels that arrange operands
_EPILOGUE_US = (0.4, 1.1 / (128 * 256))  # a tile, and an entry of it
_CLUSTER_US, _CLUSTER_STAGE = 0.8, {1: 0.985, 2: 1.0, 4: 1.0}  # starts later, reads B once
_DRAIN_US = 0.05  # a stage of short chains: sums are added while the other half multiplies
_OVERLAP = 0.15  # of the smaller of computation and memory traffic that does not hide

# mma.sync, which takes operands as they lie: microseconds a product along K for each wave of 128x128 tiles,
# by bytes of an element.
_THROUGH_REGISTERS_US = {1: 0.007, 2: 0.022, 4: 0.022}


def cost(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Predicted microseconds of a problem in canonical form."""
    if isinstance(instance, ChainSumInstance):
        return _side_by_side(instance, p, multiprocessors)
    if not isinstance(instance, HopperInstance):
        return float("inf")
    if p.is_empty:
        return 0.0
    tile, size = instance.tile, SIZES[instance.a.dtype]
    a_tile = -(-p.k // instance.depth) * _stage(instance, p)
    a_tile += _EPILOGUE_US[0] + _EPILOGUE_US[1] * tile.rows * tile.columns
    computing = waves(instance, p, multiprocessors) * a_tile
    depth = p.k * (p.products if instance.split else 1)
    entries = p.m * p.n * p.products * SIZES[p.d.dtype]
    moved = (p.m + p.n) * depth * size * (1 if instance.split else p.products)
    moved += entries * (2 if p.reads_c else 1)
    in_flight = instance.grid(p)[0] * tile.stages * (min(tile.rows, p.m) + min(tile.columns, p.n)) * ROW_BYTES
    moving = moved / min(_MEMORY_BYTES_PER_US, in_flight / _MEMORY_LATENCY_US)
    fixed = _FIXED_US + (_CLUSTER_US if tile.cluster > 1 else 0)
    return fixed + max(computing, moving) + _OVERLAP * min(computing, moving)


def _stage(instance: HopperInstance, p: GemmProblem) -> float:
    """Microseconds of one stage of the ring."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    columns = tile.columns if instance.b_k_major else -(-tile.columns // 64) * 64
    units = 2 * tile.rows * tile.columns * instance.depth / _UNIT_FLOPS_PER_US[size]
    rows = min(tile.rows, p.m) * _lines(p.a, True) + min(columns, p.n) * _lines(p.b, False) / tile.cluster
    taken = rows * ROW_BYTES / _INGEST_BYTES_PER_US
    stage = max(units + (_DRAIN_US if instance.chain == 1 else 0.0), taken)
    return stage * (_CLUSTER_STAGE[size] if tile.cluster > 1 else 1.0)


def _lines(x: Matrix, is_a: bool) -> int:
    """Lines of L2 that 128 bytes of an operand's row lie in: two where rows start off a line."""
    found = layout_of(x, is_a)
    strides = (*((found[1],) if found else ()), *x.batch_strides)
    return 1 if all(stride * SIZES[x.dtype] % ROW_BYTES == 0 for stride in strides) else 2


def _side_by_side(instance: ChainSumInstance, p: GemmProblem, multiprocessors: int) -> float:
    """The chains as a batch, then their sum; for products whose tiles alone leave multiprocessors idle."""
    if HopperTile(128, 128, 1).count(p) >= multiprocessors:
        return float("inf")
    first, chains = instance.feeds_on(p)
    moved = 2 * chains.products * p.m * p.n * SIZES["float32"]
    return cost(first, chains, multiprocessors) + _FOLLOWING_US + moved / _MEMORY_BYTES_PER_US


def waves(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> int:
    """Tiles that the busiest block computes one after the other."""
    return -(-instance.tile.count(p) // max(multiprocessors // instance.tile.cluster, 1))


def arranging(copied: int, launches: int) -> float:
    """Predicted microseconds of ``launches`` copies of ``copied`` bytes in all into workspace."""
    return launches * _FOLLOWING_US + 2 * copied / _COPY_BYTES_PER_US


def through_registers(p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds that the mma.sync family would take, which arranges nothing."""
    tiles = -(-HopperTile(128, 128, 1).count(p) // multiprocessors)
    return _FIXED_US + tiles * p.k * _THROUGH_REGISTERS_US[SIZES[p.a.dtype]]
