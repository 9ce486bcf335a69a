"""Which kernels of the family can compute a product, and what each would cost.

The model is a few figures fitted to measurements on an NVIDIA H200 (reports/h200/selection.md).  Three clocks
run at once, and the slowest tells the time: the schedule (blocks take tiles in waves; a tile is its stages,
each limited by the units, by products that wait for each other, or by what a multiprocessor takes in, and its
epilogue), power (long products run at the clock that the board's watts allow, which are spent on multiplying
and on moving operands: wide tiles move less), and device memory.  Clocks that are nearly alike hinder each
other, so times add up as a norm of high order.
"""

from __future__ import annotations

from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.tiles import ROW_BYTES, HopperTile
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["arranging", "cost", "through_registers"]

_FIXED_US = 1.92  # launch, first fill of the ring, last store
_FOLLOWING_US = 1.89  # a further launch on the same stream
# Floating-point operations of a multiprocessor a microsecond, by bytes of an element: at the highest clock,
# and at the clock that the board's power would allow all multiprocessors if moving operands took none of it.
_UNIT_FLOPS_PER_US = {1: 15e6, 2: 8.12e6, 4: 4.47e6}
_POWER_FLOPS_PER_US = {1: 22.5e6, 2: 10.1e6, 4: 6.11e6}
# Of the power of multiplying, for a tile of one column, for which A is read again, and a cluster of one row.
_MOVING_POWER = (35.2, 2.61)
_PART_OF_PANEL = (1.43, 1.48, 0.518)  # what unused columns of a panel cost of used ones, by consumers
_LATENCY_US = {1: 0.153, 2: 0.0954, 4: 0.112}  # a stage's products, each after the other, of few columns
_FRAGMENTS_US = 0.0565  # a stage of A that goes through registers
_DRAIN_US = 0.0714  # a stage of short chains: sums are added while the other half multiplies
_INGEST_BYTES_PER_US = 128e3  # a multiprocessor; half of it where rows start off a line of L2
_ZEROS = 0.987  # what rows past an edge cost of rows that are read
_STAGE_US = 0.00225  # barriers of a stage
_STAGE_NORM = 3.48  # of the stage's three limits
_EPILOGUE_US = (0.319, 0.602 / (128 * 256))  # a tile, and an entry of it
_TURNED_US = 0.0196  # a tile of D along M
_LAST_US = 2.39 / (128 * 256)  # an entry of a block's last tile, which nothing hides
_CLUSTER_US = 1.14  # starts later
_MEMORY_BYTES_PER_US, _MEMORY_LATENCY_US = 5.02e6, 1.19
_MEMORY_NORM = 1.77  # of bandwidth, which is reached only with many bytes in flight, and latency
_COPY_BYTES_PER_US = 2.56e6  # read and written by the kernels that arrange operands
_NORM = 2.5  # how sharply the slowest clock rules

# mma.sync, which takes operands as they lie: microseconds a product along K for each wave of 128x128 tiles,
# by bytes of an element.
_THROUGH_REGISTERS_US = {1: 0.007, 2: 0.028, 4: 0.0214}


def cost(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Predicted microseconds of a problem in canonical form."""
    if isinstance(instance, ChainSumInstance):
        return _side_by_side(instance, p, multiprocessors)
    if not isinstance(instance, HopperInstance):
        return float("inf")
    if p.is_empty:
        return 0.0
    clocks = (
        _schedule(instance, p, multiprocessors),
        _power(instance, p, multiprocessors),
        _memory(instance, p),
    )
    fixed = _FIXED_US + (_CLUSTER_US if instance.tile.cluster > 1 else 0)
    return fixed + _slowest(_NORM, *clocks)


def _schedule(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds of the block that has most to do, at the highest clock."""
    tile = instance.tile
    entries = tile.rows * tile.columns
    epilogue = _EPILOGUE_US[0] + _EPILOGUE_US[1] * entries + _TURNED_US * instance.d_turned
    each = -(-p.k // instance.depth) * _stage(instance, p) + epilogue
    return _waves(instance, p, multiprocessors) * each + _LAST_US * entries


def _stage(instance: HopperInstance, p: GemmProblem) -> float:
    """Microseconds of one stage of the ring."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    units = 2 * tile.rows * _columns(instance) * instance.depth / _UNIT_FLOPS_PER_US[size]
    units += _FRAGMENTS_US * instance.a_registers + _DRAIN_US * (instance.chain == 1 and not instance.narrow)
    columns = _read(tile.copied_columns(instance.b_k_major), p.n) * _lines(p.b, False) / tile.cluster
    taken = (_read(tile.rows, p.m) * _lines(p.a, True) + columns) * ROW_BYTES / _INGEST_BYTES_PER_US
    return _STAGE_US + _slowest(_STAGE_NORM, units, taken, _LATENCY_US[size])


def _columns(instance: HopperInstance) -> float:
    """Columns of a tile as the units and the copy engine see it: panels of B along N are whole."""
    tile = instance.tile
    unused = tile.copied_columns(instance.b_k_major) - tile.columns
    return tile.columns + _PART_OF_PANEL[tile.consumers - 1] * unused


def _read(box: int, extent: int) -> float:
    """Rows of a box, those past the edge as far as they cost."""
    return min(box, extent) + _ZEROS * max(box - extent, 0)


def _slowest(norm: float, *clocks: float) -> float:
    return float(sum(x**norm for x in clocks) ** (1 / norm))


def _power(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds at the clock that the board's power allows."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    padded = 2.0 * tile.count(p) * tile.cluster * tile.rows * tile.columns * p.k
    of_a, of_b = _MOVING_POWER
    moving = of_a / tile.columns + of_b * _columns(instance) / tile.columns / (tile.rows * tile.cluster)
    return padded * (1 + moving) / (_POWER_FLOPS_PER_US[size] * multiprocessors)


def _memory(instance: HopperInstance, p: GemmProblem) -> float:
    """Microseconds of device memory: operands once, D, C; few bytes in flight leave it idle."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    depth = p.k * (p.products if instance.split else 1)
    moved = (p.m + p.n) * depth * size * (1 if instance.split else p.products)
    moved += p.m * p.n * p.products * SIZES[p.d.dtype] * (2 if p.reads_c else 1)
    in_flight = instance.grid(p)[0] * tile.stages * (min(tile.rows, p.m) + min(tile.columns, p.n)) * ROW_BYTES
    return _slowest(_MEMORY_NORM, moved / _MEMORY_BYTES_PER_US, moved * _MEMORY_LATENCY_US / in_flight)


def _lines(x: Matrix, is_a: bool) -> int:
    """Lines of L2 that 128 bytes of an operand's row lie in: two where rows start off a line."""
    found = layout_of(x, is_a)
    strides = (*((found[1],) if found else ()), *x.batch_strides)
    return 1 if all(stride * SIZES[x.dtype] % ROW_BYTES == 0 for stride in strides) else 2


def _side_by_side(instance: ChainSumInstance, p: GemmProblem, multiprocessors: int) -> float:
    """The parts as a batch, then their sum; for products whose tiles alone leave multiprocessors idle."""
    if HopperTile(128, 128, 1).count(p) >= multiprocessors:
        return float("inf")
    first, parts = instance.feeds_on(p)
    moved = 2 * parts.products * p.m * p.n * SIZES[instance.accumulator]
    return cost(first, parts, multiprocessors) + _FOLLOWING_US + moved / _MEMORY_BYTES_PER_US


def _waves(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> int:
    """Tiles that the busiest block computes one after the other."""
    return -(-instance.tile.count(p) // max(multiprocessors // instance.tile.cluster, 1))


def arranging(copied: int, launches: int) -> float:
    """Predicted microseconds of ``launches`` copies of ``copied`` bytes in all into workspace."""
    return launches * _FOLLOWING_US + 2 * copied / _COPY_BYTES_PER_US


def through_registers(p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds that the mma.sync family would take, which arranges nothing."""
    tiles = -(-HopperTile(128, 128, 1).count(p) // multiprocessors)
    return _FIXED_US + tiles * p.k * _THROUGH_REGISTERS_US[SIZES[p.a.dtype]]
