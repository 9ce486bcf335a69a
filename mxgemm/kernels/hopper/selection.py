"""What the family computes, how it wants its operands, and which of its kernels can compute a product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mxgemm.configs import Configuration
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.model import arranging, through_registers
from mxgemm.kernels.hopper.tiles import ROW_BYTES, HopperTile
from mxgemm.kernels.instance import EpilogueClass, KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, layout_of, shared_alignment
from mxgemm.kernels.packing import PackedForm
from mxgemm.kernels.product import ProductClass
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["admits", "declines", "instances", "packs", "takes"]

_UNITS = ("f16", "bf16", "tf32", "f8", "s8")
_LARGEST = 2**31 - 1  # coordinates of the copy engine are 32-bit
_SHORT_CHAIN = 128

# Largest first; equal costs go to the first.  The last two are for results of few columns.
_NARROW = (HopperTile(64, 64, 10, 1), HopperTile(64, 32, 16, 1), HopperTile(64, 16, 20, 1))
_ONE_CHAIN = (
    HopperTile(128, 256, 4, cluster=2), HopperTile(128, 256, 4), HopperTile(128, 208, 4, 3),
    HopperTile(128, 192, 4, 3), HopperTile(128, 144, 4), HopperTile(128, 128, 6), HopperTile(64, 256, 5),
    HopperTile(64, 128, 8), *_NARROW,
)  # fmt: skip
# A master sum beside the unit's: 128x256 does not fit the registers.
_CHAINS = (
    HopperTile(128, 208, 4, 3), HopperTile(128, 192, 4, 3), HopperTile(128, 128, 6), HopperTile(64, 128, 8),
    *_NARROW,
)  # fmt: skip
# Chains side by side: products that do not fill the device with tiles.
_SIDE_BY_SIDE = (HopperTile(128, 128, 6), HopperTile(64, 128, 8), HopperTile(64, 64, 10, 1))
# Widest tile whose registers hold everything, tested by compiling each instance.
_WIDEST = {
    "one chain": 256, "C by element": 192, "short chains": 208, "short chains and work": 192,
    "long chains": 192, "chains and C": 128,
}  # fmt: skip
_PLAIN = ("identity", "relu", "clamp")
_SHARED_LIMIT = 227 * 1024


def admits(configuration: Configuration, arch: str, accumulator: str) -> bool:
    """Whether the family has the arithmetic: one unit product a pair of operands, on sm_90.

    Of the configurations that round operands only tf32: arranging rounds them without making them smaller.
    """
    single = configuration.terms == 1 and not configuration.moduli and configuration.limbs == 0
    native = accumulator == configuration.accumulator
    rounds = configuration.rounds_to not in (None, "tf32")
    return arch == "sm_90" and configuration.unit in _UNITS and single and native and not rounds


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
    """How an operand is copied first: what is rounded, lies off 16 bytes, or 8 bits wide and not along K."""
    found = layout_of(x, is_a)
    rounded, along_k = x.dtype == "float32", SIZES[x.dtype] != 2
    if found is None:
        return PackedForm(along_k=True, aligned=True, rounded=rounded)
    fits = shared_alignment(alignment, x.dtype, (found[1], *x.batch_strides)) == LARGEST_ALIGNMENT
    turned = along_k and found[0] != "k_major"
    if fits and not (rounded or turned) and _ascends(x, is_a):
        return None
    return PackedForm(along_k or found[0] == "k_major", aligned=True, rounded=rounded)


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
    chain = p.configuration.chain or 0
    short = chain == _SHORT_CHAIN
    stages = chain // depth if chain and (short or p.k > chain) else 0
    by_element = p.c_piece == 1 and p.reads_c
    d_piece = LARGEST_ALIGNMENT // SIZES[p.epilogue.d]
    epilogue = replace(p.epilogue, vector=d_piece if p.d_piece >= d_piece else 1)
    widest = _WIDEST[_limit(p, stages, by_element)]
    for tile in _CHAINS if stages else _ONE_CHAIN:
        found = HopperInstance(
            p.a, p.b, p.accumulator, epilogue, p.batch_axes, tile, stages, False, p.reads_c,
            p.reads_c and not by_element, p.multiprocessors,
        )  # fmt: skip
        if tile.columns <= widest and found.shared_bytes <= _SHARED_LIMIT:
            yield found
    if stages > 1 and not p.batch_axes:
        yield from (_side_by_side(p, tile, chain) for tile in _SIDE_BY_SIDE)


def _side_by_side(p: ProductClass, tile: HopperTile, chain: int) -> ChainSumInstance:
    """Chains in workspace, then their sum."""
    sums = EpilogueClass("identity", "float32", "float32", vector=4)
    product = HopperInstance(
        p.a, p.b, p.accumulator, sums, 1, tile, 0, True, False, False, p.multiprocessors
    )  # fmt: skip
    return ChainSumInstance(p.a, p.b, p.accumulator, replace(p.epilogue, vector=1), 0, product, chain)


def _limit(p: ProductClass, stages: int, by_element: bool) -> str:
    """What a tile's width is limited by."""
    if stages and p.reads_c:
        return "chains and C"
    if stages > 1:
        return "long chains"
    if stages:
        plain = p.epilogue.activation in _PLAIN and not p.epilogue.d.startswith("float8")
        return "short chains" if plain else "short chains and work"
    return "C by element" if by_element else "one chain"
