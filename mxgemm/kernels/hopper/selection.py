"""Which kernels of the family can compute a product, and what each would cost.

The model is three figures measured on an NVIDIA H200 (docs/performance.md): what the matrix units of one
multiprocessor do, what one multiprocessor takes in, and what device memory gives.  A tile's time is its
stages, each limited by the slower of units and copies, and its epilogue; blocks take tiles in waves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mxgemm.configs import Configuration
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.tiles import ROW_BYTES, HopperTile
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, OperandClass, layout_of
from mxgemm.kernels.product import ProductClass
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["admits", "cost", "instances", "packs", "takes"]

_UNITS = ("f16", "bf16", "f8", "s8")
_LARGEST = 2**31 - 1  # coordinates of the copy engine are 32-bit
_SHORT_CHAIN = 128

# Largest first; equal costs go to the first.
_ONE_CHAIN = (
    HopperTile(128, 256, 4, cluster=2), HopperTile(128, 256, 4), HopperTile(128, 208, 4, 3),
    HopperTile(128, 192, 4, 3), HopperTile(128, 128, 6), HopperTile(64, 256, 5), HopperTile(64, 128, 8),
    HopperTile(64, 64, 10, 1),
)  # fmt: skip
# A master sum beside the unit's: 128x256 does not fit the registers.
_CHAINS = (
    HopperTile(128, 208, 4, 3), HopperTile(128, 192, 4, 3), HopperTile(128, 128, 6), HopperTile(64, 128, 8),
    HopperTile(64, 64, 10, 1),
)  # fmt: skip
_THROUGH_REGISTERS = (
    HopperTile(128, 256, 4, 1), HopperTile(128, 208, 4, 1), HopperTile(128, 192, 4, 1),
    HopperTile(128, 128, 6, 1), HopperTile(64, 64, 10, 1),
)  # fmt: skip
# Widest tile whose registers hold everything, tested by compiling each instance.
_WIDEST = {
    "one chain": 256, "C by element": 192, "short chains": 208, "short chains and work": 192,
    "long chains": 192, "chains and C": 128, "chains through registers": 128,
}  # fmt: skip
_PLAIN = ("identity", "relu", "clamp")
_SHARED_LIMIT = 227 * 1024

_FIXED_US = 4.5  # launch, first fill of the ring, last store
_UNIT_FLOPS_PER_US = {1: 12.34e6, 2: 6.17e6, 4: 3.08e6}  # a multiprocessor, by bytes of an element
_INGEST_BYTES_PER_US = 110e3  # a multiprocessor
_MEMORY_BYTES_PER_US = 3.9e6
_EPILOGUE_US = (0.4, 1.1 / (128 * 256))  # a tile, and an entry of it
_SHARED_BYTES_PER_US = 240e3  # a multiprocessor's path to shared memory and L1
_CLUSTER_US, _CLUSTER_STAGE = 0.8, 0.99  # starts later, reads B once
_DRAINED = 1.1  # sums of short chains are added while the other half multiplies
_OVERLAP = 0.15  # of the smaller of computation and memory traffic that does not hide


def admits(configuration: Configuration, arch: str, accumulator: str) -> bool:
    """Whether the family has the arithmetic: one unit product a pair of operands, on sm_90."""
    single = configuration.terms == 1 and not configuration.moduli and configuration.limbs == 0
    rounds = configuration.rounds_to is not None
    native = accumulator == configuration.accumulator
    return arch == "sm_90" and configuration.unit in _UNITS and single and native and not rounds


def _is_float8(p: GemmProblem) -> bool:
    return p.a.dtype.startswith("float8")


def takes(p: GemmProblem, _configuration: Configuration) -> bool:
    """Whether the family computes a problem in canonical form; another one has the rest.

    Products of 8-bit floats have no other family: what does not suit here is packed, and launches are
    repeated over further batch axes.
    """
    if not p.reads_operands or SIZES[p.d.dtype] > 4 or p.d.dtype in ("int16", "uint16"):
        return False
    if max(p.m, p.n, p.k, p.products) > _LARGEST or HopperTile(64, 64, 1).count(p) > _LARGEST:
        return False
    return _is_float8(p) or (len(p.batch) <= 1 and all(map(_ascends, (p.a, p.b), (True, False))))


def _ascends(x: Matrix, is_a: bool) -> bool:
    """Whether rows and matrices lie one after the other in memory; true where packing will see to it."""
    found = layout_of(x, is_a)
    extent = 1 if found is None else (x.rows if (found[0] == "k_major") == is_a else x.cols)
    outer = 1 if found is None or extent <= 1 else found[1]
    return outer > 0 and all(stride >= 0 for stride in x.batch_strides)


def packs(x: Matrix, is_a: bool, p: GemmProblem) -> bool:
    """Whether an operand is copied first; ``True`` for 8-bit floats also brings it along K."""
    found = layout_of(x, is_a)
    if found is None:
        return True
    return _is_float8(p) and (found[0] != "k_major" or not _ascends(x, is_a))


def instances(p: ProductClass) -> Iterator[HopperInstance]:
    """Every instance that can compute this class of products, largest tile first."""
    layouts = (p.a.layout, p.b.layout)
    if SIZES[p.a.dtype] != 2 and layouts != ("k_major", "k_major"):
        return
    bulk = min(p.a.alignment, p.b.alignment) == LARGEST_ALIGNMENT
    depth = ROW_BYTES // SIZES[p.a.dtype]
    chain = p.configuration.chain or 0
    short = chain == _SHORT_CHAIN
    stages = chain // depth if chain and (short or p.k > chain) else 0
    by_element = p.c_piece == 1 and p.reads_c
    d_piece = LARGEST_ALIGNMENT // SIZES[p.epilogue.d]
    epilogue = replace(p.epilogue, vector=d_piece if p.d_piece >= d_piece else 1)
    a, b = (_operand(x, bulk) for x in (p.a, p.b))
    widest = _WIDEST[_limit(p, bulk, stages, by_element)]
    for tile in _THROUGH_REGISTERS if not bulk else _CHAINS if stages else _ONE_CHAIN:
        found = HopperInstance(
            a, b, p.accumulator, epilogue, p.batch_axes, tile, stages, bulk, False, p.reads_c,
            p.reads_c and not by_element, p.multiprocessors,
        )  # fmt: skip
        if tile.columns <= widest and found.shared_bytes <= _SHARED_LIMIT:
            yield found


def _limit(p: ProductClass, bulk: bool, stages: int, by_element: bool) -> str:
    """What a tile's width is limited by."""
    if stages and not bulk:
        return "chains through registers"
    if stages and p.reads_c:
        return "chains and C"
    if stages > 1:
        return "long chains"
    if stages:
        plain = p.epilogue.activation in _PLAIN and not p.epilogue.d.startswith("float8")
        return "short chains" if plain else "short chains and work"
    return "C by element" if by_element else "one chain"


def _operand(x: OperandClass, bulk: bool) -> OperandClass:
    """The copy engine's alignment, or none in particular."""
    return replace(x, alignment=LARGEST_ALIGNMENT if bulk else SIZES[x.dtype])


def cost(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Predicted microseconds of a problem in canonical form."""
    if not isinstance(instance, HopperInstance):
        return float("inf")
    tile, size = instance.tile, SIZES[instance.a.dtype]
    columns = tile.columns if instance.b_k_major else -(-tile.columns // 64) * 64
    units = 2 * tile.rows * tile.columns * instance.depth / _UNIT_FLOPS_PER_US[size]
    taken = (min(tile.rows, p.m) + min(columns, p.n) / tile.cluster) * ROW_BYTES / _INGEST_BYTES_PER_US
    stage = max(units * (_DRAINED if instance.chain == 1 else 1.0), taken)
    if not instance.bulk_load:
        stage = max(stage, _register_copies(tile))
    if tile.cluster > 1:
        stage *= _CLUSTER_STAGE
    a_tile = -(-p.k // instance.depth) * stage + _EPILOGUE_US[0] + _EPILOGUE_US[1] * tile.rows * tile.columns
    computing = waves(instance, p, multiprocessors) * a_tile
    entries = p.m * p.n * p.products * SIZES[p.d.dtype]
    moved = (p.m + p.n) * p.k * size * p.products + entries * (2 if p.reads_c else 1)
    moving = moved / _MEMORY_BYTES_PER_US
    fixed = _FIXED_US + (_CLUSTER_US if tile.cluster > 1 else 0)
    return fixed + max(computing, moving) + _OVERLAP * min(computing, moving)


def _register_copies(tile: HopperTile) -> float:
    """Microseconds of a stage on the path that granules, read twice, stores and wgmma's reads share."""
    copied = 3 * (tile.rows + tile.columns)
    multiplied = tile.consumers * (64 + tile.columns)
    return (copied + multiplied) * ROW_BYTES / _SHARED_BYTES_PER_US


def waves(instance: HopperInstance, p: GemmProblem, multiprocessors: int) -> int:
    """Tiles that the busiest block computes one after the other."""
    return -(-instance.tile.count(p) // max(multiprocessors // instance.tile.cluster, 1))
