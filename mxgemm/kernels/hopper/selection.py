"""What the family computes, how it wants its operands, and which of its kernels can compute a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mxgemm.configs import Configuration
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.model import arranging, through_registers
from mxgemm.kernels.hopper.tiles import PANEL, ROW_BYTES, HopperTile
from mxgemm.kernels.instance import EpilogueClass, KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, PackedForm, layout_of, shared_alignment
from mxgemm.kernels.product import ProductClass
from mxgemm.problem import GemmProblem, Matrix

if TYPE_CHECKING:
    from mxgemm.kernels.hopper.chain_sum import ChainSumInstance

__all__ = ["declines", "instances", "packs", "takes"]

_AnyHopper = TypeVar("_AnyHopper", bound=HopperInstance)
_LARGEST = 2**31 - 1  # coordinates of the copy engine are 32-bit
_SHORT_CHAIN = 128
_EXACT_PARTS = (8192, 2048)  # products along K where the sum is exact and may be cut anywhere
_LEAST_EXACT_PART = 1024  # in a cluster, where giving each other sums takes 2 us

# Tiles on offer: heights are 64 a consumer, so that widths, and the choice of orientation, are what fills the
# last wave.  The narrow ones are for results of few columns.
_NARROW = (
    HopperTile(64, 64, 10, 1), HopperTile(64, 48, 15, 1), HopperTile(64, 32, 16, 1),
    HopperTile(64, 16, 16, 1),
)  # fmt: skip
_MIDDLE = (
    HopperTile(192, 112, 5, 1), HopperTile(192, 96, 5, 1, cluster=2), HopperTile(192, 96, 5, 1),
    HopperTile(128, 160, 5), HopperTile(128, 112, 6),
    HopperTile(128, 96, 6), HopperTile(128, 80, 7), HopperTile(128, 64, 8, 1), HopperTile(64, 160, 7),
    HopperTile(64, 96, 10), HopperTile(64, 80, 11),
)  # fmt: skip
# Largest first; equal costs go to the first.
_ONE_CHAIN = (
    HopperTile(256, 192, 3, 3, row_blocks=2), HopperTile(192, 192, 4, 1, cluster=2),
    HopperTile(192, 192, 4, 1), HopperTile(192, 176, 4, 1),
    HopperTile(128, 256, 4, cluster=2), HopperTile(128, 256, 4), HopperTile(192, 160, 4, 1),
    HopperTile(128, 224, 4, 3), HopperTile(128, 208, 4, 3), HopperTile(128, 192, 4, 3, cluster=2),
    HopperTile(128, 192, 4, 3), HopperTile(192, 128, 5, 1), HopperTile(128, 144, 5, cluster=2),
    HopperTile(128, 144, 5), HopperTile(128, 128, 6, cluster=2), HopperTile(128, 128, 6),
    HopperTile(64, 256, 5), HopperTile(64, 192, 6, cluster=2), HopperTile(64, 192, 6), HopperTile(64, 128, 8),
    *_MIDDLE, *_NARROW,
)  # fmt: skip
# A master sum beside the unit's: 128x256 does not fit the registers.
_CHAINS = (
    HopperTile(128, 208, 4, 3), HopperTile(128, 192, 4, 3, cluster=2), HopperTile(128, 192, 4, 3),
    HopperTile(192, 128, 5, 1), HopperTile(128, 176, 5), HopperTile(128, 144, 5), HopperTile(128, 128, 6),
    HopperTile(64, 128, 8), *_MIDDLE, *_NARROW,
)  # fmt: skip
# Parts of K side by side: products that do not fill the device with tiles.
_SIDE_BY_SIDE = (HopperTile(128, 128, 6), HopperTile(64, 128, 8), HopperTile(64, 64, 10, 1))
_IN_CLUSTER = (HopperTile(64, 96, 10), HopperTile(64, 64, 10), HopperTile(64, 32, 16))
# Widest tile whose registers hold everything, tested by compiling each instance.
_WIDEST = {
    "one chain": 256, "C in pairs": 144, "C by element": 128, "C and bias by element": 64,
    "short chains": 208, "short chains and work": 192, "long chains": 192, "chains and C": 128,
    "long chains from registers": 144, "sections": 144, "sections and work": 128,
}  # fmt: skip
_WIDE_FRAGMENTS = 128  # columns beside which three consumers hold fragments of A
_LEAST_OF_THREE = 128  # columns from which three consumers pay with short chains
_PLAIN = ("identity", "relu", "clamp")
_SHARED_LIMIT = 227 * 1024
_LEAST_STAGES = 3  # two cost 30 %, three at most 1 % of the speed of four
_BLOCKS_OF_CLUSTER = 8  # at most, on any device


def _is_float8(p: GemmProblem) -> bool:
    return p.a.dtype.startswith("float8")


def takes(p: GemmProblem, _configuration: Configuration) -> bool:
    """Whether the family computes a problem in canonical form; another one has the rest.

    Products of 8-bit floats have no other family: what does not suit here is arranged, and launches are
    repeated over further batch axes.
    """
    if not p.reads_operands or SIZES[p.d.dtype] > 4 or p.d.dtype in ("int16", "uint16"):
        return False
    if max(p.m, p.n, p.k, p.products) > _LARGEST or HopperTile(64, 16, 1).count(p) > _LARGEST:
        return False
    return _is_float8(p) or (len(p.batch) <= 1 and all(map(_ascends, (p.a, p.b), (True, False))))


def _ascends(x: Matrix, is_a: bool) -> bool:
    """Whether rows and matrices lie one after the other in memory; true where arranging will see to it."""
    found = layout_of(x, is_a)
    extent = 1 if found is None else (x.rows if (found[0] == "k_major") == is_a else x.cols)
    outer = 1 if found is None or extent <= 1 else found[1]
    return outer > 0 and all(stride >= 0 for stride in x.batch_strides)


def packs(x: Matrix, is_a: bool, _problem: GemmProblem, alignment: int) -> PackedForm | None:
    """How an operand is copied first: what lies off 16 bytes, or as the unit cannot read it.

    16-bit operands are read along any axis, and so is A of tf32, through registers; all others along K.
    """
    found = layout_of(x, is_a)
    if found is None:
        return PackedForm(along_k=True, aligned=True)
    any_axis = SIZES[x.dtype] == 2 or (is_a and x.dtype == "float32")
    along_k = found[0] == "k_major"
    fits = shared_alignment(alignment, x.dtype, (found[1], *x.batch_strides)) == LARGEST_ALIGNMENT
    if fits and (along_k or any_axis) and _ascends(x, is_a):
        return None
    return PackedForm(along_k or not any_axis, aligned=True)


def declines(
    p: GemmProblem, copies: Sequence[int], predicted: float, multiprocessors: int, may_allocate: bool
) -> str | None:
    """Why another family should compute a problem whose operands would be arranged first; None to keep it.

    Parameters
    ----------
    copies : sequence of int
        Bytes of each copy that the family wants.
    predicted : float
        Microseconds of the product itself.
    may_allocate : bool
        Whether there can be workspace.
    """
    if not copies or _is_float8(p):
        return None
    if not may_allocate:
        return f"wgmma would need {sum(copies)} bytes of workspace, which there is not"
    total, other = predicted + arranging(sum(copies), len(copies)), through_registers(p, multiprocessors)
    if total <= other:
        return None
    return f"wgmma after arranging operands: {total:.1f} us predicted, without it {other:.1f} us"


def instances(p: ProductClass) -> Iterator[KernelInstance]:
    """Every instance that can compute this class of products, largest tile first."""
    depth = ROW_BYTES // SIZES[p.a.dtype]
    chain, section = p.configuration.chain or 0, p.configuration.section or p.k
    short = chain == _SHORT_CHAIN
    stages = chain // depth if chain and (short or p.k > chain) else 0
    sections = section // depth if p.k > section else 0
    by_element = p.c_piece == 1 and p.reads_c
    d_piece = LARGEST_ALIGNMENT // SIZES[p.epilogue.d]
    registers = p.a.dtype == "float32" and p.a.layout != "k_major"
    bulk = p.d_piece >= d_piece and not (p.d_turned and _turns_by_element(p.epilogue.d, registers))
    epilogue = p.epilogue._replace(vector=d_piece if bulk else 1)
    plain = p.epilogue.activation in _PLAIN and not (
        p.epilogue.bias or p.epilogue.scale_rows or p.epilogue.scale_cols
    )
    stages_c = p.reads_c and bulk and p.epilogue.c == p.epilogue.d and p.c_piece >= d_piece
    for tile in _CHAINS if stages else _ONE_CHAIN:
        if p.b.layout != "k_major" and tile.columns < PANEL:
            continue  # most of a panel of B along N would be copied for nothing
        if tile.consumers > 2 and (p.reads_c or not plain):
            continue  # three consumers leave the epilogue few registers, and no warp that fetches its terms
        if tile.row_blocks > 1 and (p.reads_c or registers or not plain):
            continue  # nor do two blocks of sums, whose terms would be counted tile by tile
        if tile.cluster > 1 and registers:
            continue  # blocks whose consumers load A themselves lose 4 % by waiting for each other
        if tile.consumers > 2 and registers and (stages or tile.columns > _WIDE_FRAGMENTS):
            continue  # nor do they leave enough for fragments of A
        if short and tile.consumers > 2 and (sections or tile.columns < _LEAST_OF_THREE):
            continue  # nor for a total beside a master sum; narrow ones were never the fastest
        if short and tile.cluster > 1:
            continue  # blocks that drain the pipe at every other stage lose by waiting for each other
        wanted = HopperInstance(
            p.a, p.b, p.accumulator, epilogue, p.batch_axes, tile, stages, False, p.reads_c,
            p.reads_c and not (by_element or p.d_turned), d_turned=p.d_turned, section=sections,
            bias_along=p.bias_along, multiprocessors=p.multiprocessors,
        )  # fmt: skip
        found = (_with_staged_c(wanted) if stages_c else None) or _fitting(wanted)
        if found is not None and tile.columns <= _WIDEST[_limit(p, found)]:
            yield found
    if not p.batch_axes:
        yield from (_side_by_side(p, tile, part) for part in _parts(p) for tile in _SIDE_BY_SIDE)
        yield from _in_cluster(p)


def _turns_by_element(d: str, registers: bool) -> bool:
    """Whether a D along its rows is stored by element: bytes, and what matrix instructions would mix up.

    They take rows in their natural order, which A from registers does not keep.
    """
    return SIZES[d] == 1 or (SIZES[d] == 2 and registers)


def _fitting(x: _AnyHopper) -> _AnyHopper | None:
    """The instance with as many stages, three at least, as the shared memory holds; None for fewer."""
    while x.shared_bytes > _SHARED_LIMIT and x.tile.stages > _LEAST_STAGES:
        x = replace(x, tile=replace(x.tile, stages=x.tile.stages - 1))
    return x if x.shared_bytes <= _SHARED_LIMIT else None


def _with_staged_c(x: HopperInstance) -> HopperInstance | None:
    """The instance with a buffer for each chunk of C, or for each two where C is held; None without room."""
    staged = replace(x, c_pairs=False, c_bulk=True)
    chunks = -(-x.tile.columns * SIZES[x.epilogue.d] // ROW_BYTES)
    at_once = -(-chunks // 2) if staged.c_held else chunks
    return _fitting(replace(staged, tile=replace(x.tile, buffers=max(at_once, x.tile.buffers))))


def _parts(p: ProductClass) -> tuple[int, ...]:
    """Products along K of the parts whose sums are added to the total as they stand."""
    part = p.configuration.part
    lengths = _EXACT_PARTS if p.configuration.is_integer else (part,) if part else ()
    return tuple(length for length in lengths if p.k > length)


def _side_by_side(p: ProductClass, tile: HopperTile, part: int) -> ChainSumInstance:
    """Sums of the parts in workspace, then their sum."""
    from mxgemm.kernels.hopper.chain_sum import ChainSumInstance  # few products are cut into parts

    sums = EpilogueClass("identity", p.accumulator, p.accumulator, vector=4)
    chain = int(p.configuration.chain == _SHORT_CHAIN)  # a part is one chain of all its stages, or short ones
    product = HopperInstance(
        p.a, p.b, p.accumulator, sums, 1, tile, chain, True, False, False, multiprocessors=p.multiprocessors
    )  # fmt: skip
    return ChainSumInstance(p.a, p.b, p.accumulator, p.epilogue._replace(vector=1), 0, product, part)


def _in_cluster(p: ProductClass) -> Iterator[HopperInstance]:
    """The parts in blocks of a cluster, which give each other their sums."""
    part = p.configuration.part or 0
    if p.configuration.is_integer:
        part = _LEAST_EXACT_PART
        while part * _BLOCKS_OF_CLUSTER < p.k:
            part *= 2
    count = -(-p.k // part) if part else 1
    if not 1 < count <= _BLOCKS_OF_CLUSTER:
        return
    from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance, exchange_bytes  # for few products

    for tile in _IN_CLUSTER:
        if p.b.layout != "k_major" and tile.columns < PANEL:
            continue
        buffers = -(-exchange_bytes(tile.rows, tile.columns, count) // (tile.consumers * 64 * ROW_BYTES))
        found = _fitting(ClusterSumInstance(
            p.a, p.b, p.accumulator, p.epilogue._replace(vector=1), 0, replace(tile, buffers=buffers),
            int(p.configuration.chain == _SHORT_CHAIN), False, p.reads_c, False, d_turned=p.d_turned,
            bias_along=p.bias_along, multiprocessors=p.multiprocessors, part=part, count=count,
        ))  # fmt: skip
        if found is not None:
            yield found


def _limit(p: ProductClass, x: HopperInstance) -> str:
    """What a tile's width is limited by."""
    from_memory = p.reads_c and not x.c_bulk
    if from_memory and p.epilogue.bias and p.bias_along == "entries":
        return "C and bias by element"
    if x.chain and from_memory:
        return "chains and C"
    if x.chain > 1:
        return "long chains from registers" if x.a_registers else "long chains"
    if x.chain:
        plain = p.epilogue.activation in _PLAIN and not p.epilogue.d.startswith("float8")
        return ("sections" if x.section else "short chains") + ("" if plain else " and work")
    if from_memory:
        return "C in pairs" if x.c_pairs else "C by element"
    return "one chain"
