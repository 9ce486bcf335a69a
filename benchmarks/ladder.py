"""What each idea brings: the model's choice, and what it would be without the idea, in turn with cuBLAS.

A rung takes one idea away: from the candidates those that have it, of which the model then takes the
cheapest; or from the choice itself, whose launches or order of tiles are put back.  Only what can still be
chosen is taken away, so that the library keeps no code for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

from benchmarks.candidates import PEER, lowered_here, peers_of
from mxgemm import kernels
from mxgemm.autotune_measure import measure
from mxgemm.kernels import Candidate
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.tiles import HopperTile
from mxgemm.kernels.instance import KernelInstance
from mxgemm.report import Case, Measurement, source_sha256
from mxgemm.report.cases import Order
from mxgemm.report.timed import SQUARE, Shape, case_of, kinds

GROUP = "ladder"
SECONDS = 0.1  # of bursts a rung, about

Without = Callable[[Sequence[Candidate], Candidate], Sequence[Candidate]]
"""From all candidates and the model's choice to what is measured beside it; the fastest of them counts."""


@dataclass(frozen=True)
class Rung:
    """One idea on one product.

    Attributes
    ----------
    idea : str
    case : Case
    without : callable
    """

    idea: str
    case: Case
    without: Without


@dataclass(frozen=True, slots=True)
class BandedTile(HopperTile):
    """A tile whose bands are so many rows of tiles high."""

    band: int = 16

    @property
    def group(self) -> int:
        """Rows of tiles, clusters counting once, that go together."""
        return self.band // (self.cluster * self.row_blocks)


def left_without(has: Callable[[Candidate], bool]) -> Without:
    """What the model would take of the candidates without an idea; all, where it predicts no times."""

    def without(candidates: Sequence[Candidate], _chosen: Candidate) -> Sequence[Candidate]:
        left = [one for one in candidates if not has(one)]
        predicted = {one.predicted: one for one in reversed(left) if one.predicted is not None}
        return [predicted[min(predicted)]] if predicted else left

    return without


def put_back(change: Callable[[KernelInstance], KernelInstance]) -> Without:
    """The choice itself with one thing as it was."""

    def without(_candidates: Sequence[Candidate], chosen: Candidate) -> Sequence[Candidate]:
        changed = change(chosen.lowering.instance)
        return [Candidate(replace(chosen.lowering, instance=changed), None)]

    return without


def launched_after(instance: KernelInstance) -> KernelInstance:
    """The same code, launched when its predecessor has ended."""
    kind = type("LaunchedAfter", (type(instance),), {"programmatic": False})
    known = {one.name: getattr(instance, one.name) for one in fields(instance) if one.init}
    changed: KernelInstance = kind(**known)
    return changed


def banded(band: int, instance: KernelInstance) -> KernelInstance:
    """The same kernel with bands of so many rows of tiles."""
    if not isinstance(instance, HopperInstance):
        raise TypeError(f"{instance} has no bands of tiles: choose a product that runs as one wgmma kernel")
    known = {one.name: getattr(instance.tile, one.name) for one in fields(HopperTile)}
    return replace(instance, tile=BandedTile(**known, band=band))


def tile_of(one: Candidate) -> HopperTile | None:
    """The tile of the family's own kernel; None of another's."""
    instance = one.lowering.instance
    instance = instance.sums_by if isinstance(instance, ChainSumInstance) else instance
    return instance.tile if isinstance(instance, HopperInstance) else None


def _tiles(has: Callable[[HopperTile], bool]) -> Without:
    return left_without(lambda one: (tile := tile_of(one)) is not None and has(tile))


def _is_a_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


WGMMA = left_without(lambda one: one.lowering.instance.lowering == "wgmma")
TURNED = left_without(lambda one: one.lowering.form.transposed)
AS_IT_STANDS = left_without(lambda one: not one.lowering.form.transposed)
SIDE_BY_SIDE = left_without(
    lambda one: isinstance(one.lowering.instance, ChainSumInstance | ClusterSumInstance)
)
LARGE = _tiles(lambda tile: tile.rows * tile.columns > 128 * 128)
CLUSTERS = _tiles(lambda tile: tile.cluster > 1)
THREE = _tiles(lambda tile: tile.consumers > 2)
TWO_BLOCKS = _tiles(lambda tile: tile.row_blocks > 1)
NARROW = _tiles(lambda tile: tile.columns < 64)
WIDTHS = _tiles(lambda tile: not _is_a_power_of_two(tile.columns))
LOW = _tiles(lambda tile: tile.rows == 128 and tile.columns == 64)
OVERLAP = put_back(launched_after)
BANDS_OF_4, BANDS_OF_32 = (put_back(partial(banded, band)) for band in (4, 32))

_CUBE, _LARGEST = (8192, 8192, 8192), (16384, 16384, 8192)
_ROW, _DEEP = (1, 4096, 4096), (256, 256, 65536)
_COLUMNS: tuple[Order, Order] = ("column", "column")
_IDEAS: tuple[tuple[str, Without, tuple[tuple[str, Shape, tuple[Order, ...]], ...]], ...] = (
    ("wgmma, in place of mma.sync", WGMMA, (("f16", SQUARE, ()),)),
    ("rows off 16 bytes arranged for wgmma, in place of mma.sync", WGMMA, (("f16", (4097, 4097, 4097), ()),)),
    ("tiles larger than 128x128", LARGE, (("f16", _LARGEST, ()),)),
    ("clusters of two", CLUSTERS, (("f16", SQUARE, ()), ("f16", (1920, 1080, 720), ("column", "row")))),
    ("bands of 16 rows of tiles, in place of 4", BANDS_OF_4, (("f16", _CUBE, ()),)),
    ("bands of 16 rows of tiles, in place of 32", BANDS_OF_32, (("f16", _CUBE, ()),)),
    ("three consumers", THREE, (("f16", (896, 4864, 896), ()), ("f16", (4097, 4097, 4097), ()))),
    ("two blocks of rows a consumer", TWO_BLOCKS,
     (("f16", (24576, 256, 2048), _COLUMNS), ("bf16", (12288, 512, 3072), ()))),
    ("few rows as the transpose", TURNED, (("f16", _ROW, ()),)),
    ("tiles narrower than 64 columns", NARROW, (("f16", (16, 8192, 8192), ()), ("fp8", _ROW, ()))),
    ("launches that begin while their predecessor ends", OVERLAP,
     (("f16", (512, 512, 512), ()), ("f16", (1024, 1024, 1024), ()), ("f16", _ROW, ()))),
    ("widths that are no power of two", WIDTHS, (("fp8", SQUARE, ()), ("tf32", (5000,) * 3, _COLUMNS))),
    ("the transpose as a candidate", TURNED, (("bf16", (3072, 768, 2304), ()),)),
    ("the same, few rows as they stand", AS_IT_STANDS, (("f16", (32, 11008, 4096), _COLUMNS),)),
    ("tiles of 128x64", LOW, (("tf32", (64, 28672, 8192), ()),)),
    ("parts of K side by side", SIDE_BY_SIDE, (("f16", _DEEP, ()), ("fp8", _DEEP, ()), ("int8", _DEEP, ()))),
)  # fmt: skip


def rungs(arch: str) -> tuple[Rung, ...]:
    """Every rung whose kind has a kernel of this family on ``arch``."""
    if arch != "sm_90":
        return ()
    known = {kind.name: kind for kind in kinds(arch)}
    return tuple(
        Rung(idea, case_of(known[kind], shape, *orders), without)
        for idea, without, cases in _IDEAS
        for kind, shape, orders in cases
    )


def sides(rung: Rung) -> tuple[Candidate, tuple[Candidate, ...]]:
    """The model's choice, and what is measured beside it: nothing where the choice is without the idea."""
    asked = lowered_here(rung.case)
    candidates, entry = kernels.candidates(**asked), kernels.lower(**asked).instance.entry
    chosen = next(one for one in candidates if one.lowering.instance.entry == entry)
    beside = rung.without(candidates, chosen)
    return chosen, tuple(one for one in beside if one.lowering.instance.entry != entry)


def climbed(rung: Rung, chosen: Candidate, beside: Sequence[Candidate]) -> Measurement | None:
    """Times of both sides and of the library; None where the model does not choose the idea here."""
    if not beside:
        print(f"{GROUP:10} left out: {rung.idea} is not chosen for {rung.case}", flush=True)
        return None
    kernel = chosen.lowering.instance
    times = measure(
        rung.case.problem, (chosen, *beside), 0,
        alignment=rung.case.alignment, seconds=SECONDS, always=kernel.entry, peers=peers_of(rung.case),
    )  # fmt: skip
    found = {name: round(timing.microseconds, 3) for name, timing in times.items()}
    best = min((one.lowering.instance for one in beside), key=lambda one: found[one.entry])
    peers = {f"without: {best.variant}": found[best.entry]}
    if PEER in found:
        peers["torch"] = found[PEER]
    one = Measurement(
        f"{GROUP}: {rung.idea}", rung.case, kernel.entry, source_sha256(kernel), str(kernel), "burst",
        found[kernel.entry], peers,
    )  # fmt: skip
    print(f"{GROUP:10} gain {one.ratio:5.2f}  {rung.idea}: {rung.case}", flush=True)
    return one
