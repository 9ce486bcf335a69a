"""What each kernel of the family would cost.

The model is a few figures fitted to the times of every candidate of 96 products on an NVIDIA H200, most of
them in reports/h200/selection.md.  Three clocks run at once, and the slowest tells the time: the schedule
(blocks take tiles in waves; a tile is its stages, each limited by the units, by products that wait for each
other, by what a multiprocessor takes in, or by the ring, whose stages come back a round trip later, and its
epilogue; rows past an edge are read in one place by all), power (long products run at the clock that the
board's watts allow, which are spent on multiplying and on moving operands: wide tiles move less), and device
memory.  Clocks that are nearly alike hinder each other, so times add up as a norm.  Parts of K in the blocks
of a cluster are priced as a batch, or by what L2 gives them, and what they then give each other.
"""

from __future__ import annotations

from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.tiles import PANEL, ROW_BYTES, HopperTile
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["arranging", "cost", "through_registers"]

_FIXED_US = 1.53  # launch, first fill of the ring, last store
_FOLLOWING_US = 2.85  # a further launch on the same stream
# Floating-point operations of a multiprocessor a microsecond, by bytes of an element: at the highest clock,
# and at the clock that the board's power would allow all multiprocessors if moving operands took none of it.
_UNIT_FLOPS_PER_US = {1: 16.2e6, 2: 8.33e6, 4: 4.25e6}
_POWER_FLOPS_PER_US = {1: 25.8e6, 2: 11.4e6, 4: 9.0e6}
# Of the power of multiplying, for a tile of one column, for which A is read again, and a cluster of one row.
_MOVING_POWER = (4.71, 1.9)
_PART_OF_PANEL = 0.821  # what an unused column of a panel costs of a used one
_LATENCY_US = 0.0982  # a stage of one consumer and few columns: its products, each after the other
# A stage of short chains: sums are added while the other half multiplies; three consumers take half more.
_DRAIN_US = 0.0451
_INGEST_BYTES_PER_US = 160e3  # a multiprocessor; half of it where rows start off a line of L2
_ROUND_TRIP_US = (0.316, 0.709)  # until a stage is full again: alone, and more where all blocks ask
_ZEROS_BYTES_PER_US = 6.07e6  # past an edge, for all multiprocessors together
_STAGE_US = (0.00547, 0.0381, 0.047)  # barriers of a stage, by consumers
_CLUSTER_STAGE_US = 0.0138  # and what blocks of a cluster wait for each other
_STAGE_NORM = 3.16  # of the stage's four limits
# Of a tile's epilogue, for 256 columns, which consumers take side by side: by consumers for bytes, more for
# each further byte of an entry, words whose halves are neighbours the other way, entries stored one by one.
_COLUMNS_US = (0.448, 1.1, 0.233)
_FURTHER_BYTE_US, _ACROSS_US, _BY_ELEMENT_US = 0.434, 0.273, 5.45
_FURTHER_BLOCK = 1.9  # times as much more for a second block of rows: no products hide its words
_ONE_BUFFER_US = 0.357  # a chunk of D that waits until the last one has left the only buffer
_LAST_US = 2.65  # 256 columns of a block's last tile, which nothing hides
_MEMORY_BYTES_PER_US, _MEMORY_LATENCY_US = 4.87e6, 0.192
# Bytes of L2 beyond which waves read operands again, and what that costs of reading device memory in order.
_L2_BYTES, _AGAIN = 58.3e6, 3.6
_EXCHANGE_US = 1.86  # blocks of a cluster give each other their sums, and make D of them
# Clusters of 1, 2, … blocks that run at once on 132 multiprocessors, whose groups are uneven.  Those that add
# parts of K read different ones, so that no request to L2 serves two blocks.
_CLUSTERS, _CLUSTERS_OF = (132, 66, 39, 30, 22, 17, 15, 15), 132
_L2_BYTES_PER_US = 6.32e6  # what L2 gives them, and as much again divided by a cluster's blocks
_COPY_BYTES_PER_US = 2.61e6  # read and written by the kernels that arrange operands
_WIDEST = 256  # columns of the widest tile
_NORM = 3.43  # how sharply the slowest clock rules

# mma.sync, which takes operands as they lie: microseconds a product along K for each wave of 128x128 tiles,
# by bytes of an element.
_THROUGH_REGISTERS_US = {1: 0.007, 2: 0.028, 4: 0.0214}


def cost(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Predicted microseconds of a problem in canonical form."""
    if not isinstance(instance, HopperInstance):
        return _side_by_side(instance, p, multiprocessors)
    if p.is_empty:
        return 0.0
    parts = instance.as_batch(p)
    if parts is not None:
        return _in_clusters(instance, p, parts, multiprocessors)
    clocks = (
        _schedule(instance, p, multiprocessors),
        _power(instance, p, multiprocessors),
        _memory(instance, p),
    )
    return _FIXED_US + _slowest(_NORM, *clocks)


def _schedule(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds of the block that has most to do, at the highest clock."""
    stages = -(-p.k // instance.depth)
    each = stages * _stage(instance, p, multiprocessors) + _epilogue(instance, p)
    last = _LAST_US * instance.tile.columns / _WIDEST + stages * _zeros(instance, p)
    return _waves(instance, p, multiprocessors) * each + last


def _epilogue(instance: HopperInstance, p: GemmProblem) -> float:
    """Microseconds of a tile after its last product."""
    tile, size = instance.tile, SIZES[p.d.dtype]
    rate = _COLUMNS_US[tile.consumers - 1] + _FURTHER_BYTE_US * (size - 1)
    across = instance.d_turned != (size == 4) and not instance.a_registers
    rate += _ACROSS_US * across + _BY_ELEMENT_US * (not instance.bulk_store)
    rate *= 1 + _FURTHER_BLOCK * (tile.row_blocks - 1)
    chunks = -(-tile.columns * size // ROW_BYTES)
    return rate * tile.columns / _WIDEST + _ONE_BUFFER_US * (tile.buffers == 1) * chunks


def _stage(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Microseconds of one stage of the ring."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    units = 2 * tile.rows * _columns(instance) * instance.depth / _UNIT_FLOPS_PER_US[size]
    units += _DRAIN_US * max(tile.consumers / 2, 1) * (instance.chain == 1 and not instance.narrow)
    columns = tile.copied_columns(instance.b_k_major) * _lines(p.b, False) / tile.cluster
    taken = (tile.rows * _lines(p.a, True) + columns) * ROW_BYTES / _INGEST_BYTES_PER_US
    alone, crowded = _ROUND_TRIP_US
    ring = (alone + crowded * instance.grid(p)[0] / multiprocessors) / tile.stages
    latency = _LATENCY_US * (tile.consumers == 1 and tile.columns <= PANEL)
    limits = (units, taken, latency, ring)
    waiting = _STAGE_US[tile.consumers - 1] + _CLUSTER_STAGE_US * (tile.cluster > 1)
    return waiting + _slowest(_STAGE_NORM, *limits)


def _zeros(instance: HopperInstance, p: GemmProblem) -> float:
    """Microseconds a stage, over all tiles, of what lies past the edges, which L2 serves from one place."""
    tile = instance.tile
    down, across = -(-p.m // (tile.rows * tile.cluster)) * tile.cluster, -(-p.n // tile.columns)
    unused = (tile.copied_columns(instance.b_k_major) - tile.columns) * (across - 1)  # of panels, no zeros
    columns = max(tile.copied_columns(instance.b_k_major) * across - p.n - unused, 0)
    rows = across * (tile.rows * down - p.m) + down * columns / tile.cluster
    return rows * p.products * ROW_BYTES / _ZEROS_BYTES_PER_US


def _columns(instance: HopperInstance) -> float:
    """Columns of a tile as the units and the copy engine see it: panels of B along N are whole."""
    tile = instance.tile
    unused = tile.copied_columns(instance.b_k_major) - tile.columns
    return tile.columns + _PART_OF_PANEL * unused


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
    """Microseconds of device memory: operands, D, C; few bytes in flight leave it idle."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    depth = p.k * (p.products if instance.split else 1)
    moved = (p.m + p.n) * depth * size * (1 if instance.split else p.products)
    moved += p.m * p.n * p.products * SIZES[p.d.dtype] * (2 if p.reads_c else 1)
    again = _AGAIN * _read_again(instance, p) if p.products == 1 else 0
    blocks = instance.grid(p)[0]
    in_flight = blocks * tile.stages * (min(tile.rows, p.m) + min(tile.columns, p.n)) * ROW_BYTES
    return (moved + again) * (1 / _MEMORY_BYTES_PER_US + _MEMORY_LATENCY_US / in_flight)


def _read_again(instance: HopperInstance, p: GemmProblem) -> float:
    """Bytes of operands that each wave of tiles reads anew, as far as L2 does not hold them."""
    tile, size = instance.tile, SIZES[instance.a.dtype]
    together = instance.grid(p)[0] // tile.cluster
    high = min(-(-p.m // (tile.rows * tile.cluster)), tile.group)
    wide = -(-min(together, tile.count(p)) // high)
    rows, columns = min(high * tile.rows * tile.cluster, p.m), min(wide * tile.columns, p.n)
    once, waves = (p.m + p.n) * p.k * size, max(tile.count(p) / together, 1)
    return max(waves * (rows + columns) * p.k * size - once, 0) * once / (once + _L2_BYTES)


def _lines(x: Matrix, is_a: bool) -> int:
    """Lines of L2 that 128 bytes of an operand's row lie in: two where rows start off a line."""
    found = layout_of(x, is_a)
    strides = (*((found[1],) if found else ()), *x.batch_strides)
    return 1 if all(stride * SIZES[x.dtype] % ROW_BYTES == 0 for stride in strides) else 2


def _side_by_side(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """The parts as a batch, then their sum; for products whose tiles alone leave multiprocessors idle."""
    found = instance.feeds_on(p)
    if found is None or HopperTile(128, 128, 1).count(p) >= multiprocessors:
        return float("inf")
    first, parts = found
    moved = 2 * parts.products * p.m * p.n * SIZES[instance.accumulator]
    return cost(first, parts, multiprocessors) + _FOLLOWING_US + moved / _MEMORY_BYTES_PER_US


def _in_clusters(
    instance: HopperInstance, p: GemmProblem, parts: tuple[HopperInstance, GemmProblem], multiprocessors: int
) -> float:
    """The parts as a batch, then what the blocks give each other; infinite where clusters wait for others."""
    tile = instance.tile
    if tile.count(p) > _CLUSTERS[instance.cluster - 1] * multiprocessors // _CLUSTERS_OF:
        return float("inf")
    read = tile.count(p) * (tile.rows + tile.copied_columns(instance.b_k_major)) * p.k * SIZES[p.a.dtype]
    rate = _L2_BYTES_PER_US * (1 + 1 / instance.cluster)
    return max(cost(*parts, multiprocessors), read / rate) + _EXCHANGE_US


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
