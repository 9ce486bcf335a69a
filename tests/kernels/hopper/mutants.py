"""The wgmma family with one fault in a handover, and the delays that make each fault show for sure.

``python -m tests.kernels.hopper.mutants N`` runs mutant N on the device.  A block has two tiles, of 64 x 64
where a mutant names no other, and each store buffer is used at most twice a tile, so that no fault makes
the counts of a barrier run away.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from mxgemm.device import driver
from mxgemm.kernels import KernelInstance, Lowering, candidates
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.report.cases import Case, Layout, Product
from tests.kernels.gpu_trials import Edit, OnDevice, Trial

ARCH = "sm_90"
TILE = (64, 64)
RUNS = 5
SOUND, CAUGHT = "without the fault nothing is wrong", "the fault was caught"

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class HopperMutant:
    """Texts of the building blocks, what replaces them, and the case that meets the fault.

    Attributes
    ----------
    fault : str
    case : Case
    edits : tuple of (str, str)
        The fault.
    late : tuple of (str, str)
        Delays, which are no fault.
    tile : tuple of int
        Rows and columns.
    fill : tuple of (str, float)
        Arrays that have one value everywhere.
    follows : bool
        Whether A is the result of the launch before, which is the late one.
    cluster : int
        Blocks of a cluster, of which there is one.
    """

    fault: str
    case: Case
    edits: Edits
    late: Edits = ()
    tile: tuple[int, int] = TILE
    fill: tuple[tuple[str, float], ...] = ()
    follows: bool = False
    cluster: int = 1

    def __str__(self) -> str:
        return self.fault

    def trial(self) -> Trial:
        """The case with values."""
        trial = Trial(self.case, "normal")
        for name, value in self.fill:
            trial.arrays[name].view[...] = value
        return trial

    def lowering(self, trial: Trial) -> Lowering:
        """The one to the tile, as the operands lie."""
        p = trial.case.product
        found = candidates(trial.problem, p.configuration, ARCH, alignment=trial.case.alignment)
        ways = (one.lowering for one in found if one.lowering.instance.lowering == "wgmma")
        return next(
            one for one in ways if self.is_for(one.instance) and not (one.form.transposed or one.packings)
        )

    def is_for(self, instance: KernelInstance) -> bool:
        """Whether an instance has the mutant's tile."""
        clusters = instance.cluster if isinstance(instance, HopperInstance) else 1
        return instance.tile_shape == self.tile and clusters == self.cluster

    def delayed(self, source: str) -> str:
        """The source with its delays."""
        return edited(source, self.late)

    def __call__(self, source: str) -> str:
        """The source with the fault, and with the delays where they are in the same kernel."""
        return edited(source if self.follows else self.delayed(source), self.edits)


def edited(source: str, edits: Edits) -> str:
    for text, instead in edits:
        assert source.count(text) == 1, f"the building blocks say {source.count(text)} times {text!r}"
        source = source.replace(text, instead)
    return source


def product(m: int, n: int, **more: object) -> Product:
    return replace(Product("float16", "float16", "native", m, n, 64), **more)  # type: ignore[arg-type]


ALONG_K = Layout(b="column")
TWO_BELOW = Case(product(128, 64), ALONG_K)
TWO_TALL = Case(product(512, 192), ALONG_K)
FOUR_BELOW = Case(product(256, 192), ALONG_K)
TWO_BESIDE = Case(product(64, 128, bias="columns", activation="relu"), ALONG_K)
BY_ELEMENT = Case(product(64, 127), ALONG_K)
WITH_C = Case(product(128, 64, c_dtype="float16", alpha=1.25, beta=-0.75), ALONG_K)
CANCELLING_C = Case(product(128, 64, c_dtype="float16", alpha=-0.3, beta=0.3), ALONG_K)
WIDE_C = replace(WITH_C, product=replace(WITH_C.product, c_dtype="float32", out_dtype="float32"))
NARROW_C = Case(product(64, 160, c_dtype="float32", out_dtype="float32", alpha=1.25, beta=-0.75), ALONG_K)
E4M3 = "float8_e4m3fn"
THREE_PARTS = Case(product(60, 50, k=20000, out_dtype="float32"), ALONG_K)
EIGHT_BITS = Case(Product(E4M3, E4M3, "native", 100, 96, 64, out_dtype=E4M3, bias="columns"), ALONG_K)

SLEEP = " for (const long long begin = clock64(); clock64() - begin < 1000000;) __nanosleep(1000);"  # 0.5 ms
LONG = SLEEP.replace("000;", "00000;", 1)  # 50 ms, in which the host queues another launch
C_READY = "            at.handover.wait_c(count, chunk);"
C_TAKEN = "if (last) continue;\n            async_proxy_fence();    // the copy engine writes here next\n"
TAIL_READ = "warpgroup_barrier(group);"
C_TELLS = "if (at.thread % 32 == 0) barrier_arrive(at.handover.staged(chunk));"
C_EXPECTED = "barrier_expect(barrier, 64 * Chunks<I>::bytes(chunk));"
EXACT = "return MAY_FUSE && fabsf(p.beta) <= 1 && rintf(p.beta / UNIT) * UNIT == p.beta;"
TERMS_READ = "at.terms.wait(count);"
TERMS_FREE = "barrier_wait(empty(), (count & 1) ^ 1);"
TERMS_FETCHED = "barrier_arrive(full());"
BUFFER_FREE = "if constexpr (I::BULK_STORE) at.handover.wait_ready(before, chunk);"
STAGED = "handover.wait_staged(count, chunk);"
COMMITTED = "store_commit();\n"
WRITTEN = "sum.run(consumer, blocks, Meanwhile<I>{store, sum, finished});"
STORED = "const TilePlace tile = tiles.take(rank);\n            if constexpr (I::STAGES_C) {"
NEXT = "const TilePlace next = Tiles(tiles).take(rank); "
ROWS_PAST = "if (row >= p.m || col >= p.n) sums[sum] = past_edge();"
COLUMNS_PAST = "if (row >= p.m || col + 1 >= p.n) sums[sum + 1] = past_edge();"
PREDECESSOR = "wait_for_predecessor();\n    if constexpr (I::CLUSTER == 1) __syncthreads();"
INITIALISED = "        init_barriers<I>(base);"
MET = "else cluster_wait();"
DRAINED = "if constexpr (I::CLUSTER > 1) drain();"
TOLD = "if (thread < CLUSTER) barrier_arrive_remote(empty + 8 * finished, u32(thread));"
OF_BLOCK = "block * A::BLOCK"
FROM_BLOCK = "{tile.row + 64 * block, tile.col, tile.product}"
SECOND = f"if (cluster_rank() == 1) {{{SLEEP} }}"
GIVEN = "if (exchange.thread < 32 && elected()) exchange.give();"
COME = "barrier_wait(Exchange::arrived(base), 0);"
NEXT_PART = "const u32 sums_of_part = q == part ? base + part * SHARE_BYTES : inbox(base) + q * SHARE_BYTES;"
OTHER_PART = "const int t = I::PARTS - 1 - q; " + NEXT_PART.replace("q ==", "t ==").replace("q *", "t *")
FIRST_STAGE = "const int first = part * I::PART_STAGES"

MUTANTS = (
    HopperMutant(
        "C is read before it has come", WITH_C, ((C_READY, ""),), ((C_EXPECTED, SLEEP + C_EXPECTED),)
    ),
    HopperMutant(
        "a chunk of C is loaded over one still to be read", WIDE_C,
        ((C_TAKEN, "continue;\n"), (C_READY, f"{C_READY} if (!last) {{ {C_TELLS} }}")),
        ((C_READY, C_READY + SLEEP),),
    ),
    HopperMutant(
        "D replaces a narrower chunk of C that another warp has still to read", NARROW_C,
        ((TAIL_READ, ""),), ((C_READY, f"{C_READY} if (last && at.thread / 32 == 2) {{{SLEEP} }}"),),
        tile=(64, 80),
    ),
    HopperMutant(
        "beta C is added unrounded where it is not exact", CANCELLING_C, ((EXACT, "return MAY_FUSE;"),),
        fill=(("a", 1.0), ("b", 1.0009765625), ("c", 64.0625)),
    ),
    HopperMutant(
        "terms are read before they have come", TWO_BESIDE,
        ((TERMS_READ, ""),), ((TERMS_FREE, TERMS_FREE + SLEEP),),
    ),
    HopperMutant(
        "terms are fetched over those still to be read", TWO_BESIDE,
        ((TERMS_FREE, ""), (TERMS_FETCHED, TERMS_FREE + TERMS_FETCHED)), ((TERMS_READ, TERMS_READ + SLEEP),),
    ),
    HopperMutant(
        "words are written over those still to be stored", TWO_BELOW,
        ((BUFFER_FREE, ""),), ((STAGED, STAGED + SLEEP),),
    ),
    HopperMutant(
        "words are stored before they are written", TWO_BELOW,
        ((STAGED, ""), (COMMITTED, COMMITTED + STAGED)),
    ),
    HopperMutant(
        "words are written to the next tile's place", BY_ELEMENT,
        ((WRITTEN, NEXT + WRITTEN.replace("finished", "next")),),
    ),
    HopperMutant(
        "buffers are stored to the next tile's place", TWO_BELOW,
        ((STORED, STORED.replace("tiles.take(rank)", "(tiles.take(rank), Tiles(tiles).take(rank))")),),
    ),
    HopperMutant(
        "entries past the edge report overflow", EIGHT_BITS, ((ROWS_PAST, ""), (COLUMNS_PAST, "")),
        fill=(("a", -1.0), ("b", 5.0), ("bias", 500.0)),
    ),
    HopperMutant(
        "operands are read before the predecessor has written them", TWO_BELOW,
        ((PREDECESSOR, PREDECESSOR.partition(";\n")[2]),),
        ((PREDECESSOR, PREDECESSOR.replace(";\n", f";{LONG}\n", 1)),), follows=True,
    ),
    HopperMutant(
        "a block copies into another one's memory before its barriers are there", FOUR_BELOW,
        ((MET, "else __syncthreads();"),), ((INITIALISED, f"{SECOND}\n{INITIALISED}"),),
        tile=(64, 192), cluster=2,
    ),
    HopperMutant(
        "a consumer's second block of rows multiplies the first one's", TWO_TALL,
        ((OF_BLOCK, OF_BLOCK.replace("block", "0")),), tile=(256, 192),
    ),
    HopperMutant(
        "a consumer's second block of rows is stored over the first one", TWO_TALL,
        ((FROM_BLOCK, FROM_BLOCK.replace("64 * block", "0")),), tile=(256, 192),
    ),
    HopperMutant(
        "a block ends before another one has told it that a stage is empty", FOUR_BELOW,
        ((DRAINED, ""),), ((TOLD, f"if (thread < CLUSTER) {{ {SECOND} {TOLD.partition(') ')[2]} }}"),),
        tile=(64, 192), cluster=2,
    ),
    HopperMutant(
        "sums of another block are added before they have come", THREE_PARTS,
        ((COME, ""),), ((GIVEN, f"{SECOND}\n{GIVEN}"),), cluster=3,
    ),
    HopperMutant(
        "parts are added in another order", THREE_PARTS,
        ((NEXT_PART, OTHER_PART),), cluster=3,
    ),
    HopperMutant(
        "a part begins a stage late", THREE_PARTS, ((FIRST_STAGE, f"{FIRST_STAGE} + (part != 0)"),), cluster=3
    ),
)  # fmt: skip


def alone(mutant: HopperMutant) -> Callable[[Edit], list[str]]:
    """What is wrong with the mutant's case when its source is edited."""
    trial = mutant.trial()
    found, expected = mutant.lowering(trial), trial.predicted(ARCH)
    return lambda edit: trial.faults(*trial.run(found, edit, blocks=mutant.cluster), expected)


def behind_another(mutant: HopperMutant) -> Callable[[Edit], list[str]]:
    """The same where A is the result of a launch just before, which takes long and leaves room beside it."""
    first, second = mutant.trial(), Trial(mutant.case, "uniform")
    second.arrays["a"].view[...] = first.predicted(ARCH).array
    expected = second.predicted(ARCH)
    with driver.on_device(0):
        stream = int(driver.call("cuStreamCreate", 1))

    def faults(edit: Edit) -> list[str]:
        before, after = (OnDevice(one, mutant.lowering(one), stream) for one in (first, second))
        after.launch(edit, blocks=1)  # loads the kernel, which must not wait later on
        before.launch(mutant.delayed, blocks=1)
        before, after = (OnDevice(one, mutant.lowering(one), stream) for one in (first, second))
        after.pointers["a"] = before.pointers["d"]
        before.launch(mutant.delayed, blocks=1)
        after.launch(edit, blocks=1)
        return second.faults(*after.result(), expected)

    return faults


def main() -> int:
    mutant = MUTANTS[int(sys.argv[1])]
    faults = behind_another(mutant) if mutant.follows else alone(mutant)
    for sound in (str, str if mutant.follows else mutant.delayed):
        found = faults(sound)
        if found:
            print(f"wrong without the fault: {found}")
            return 1
    print(SOUND, flush=True)
    for _ in range(RUNS):
        try:
            found = faults(mutant)
        except driver.DriverError as error:  # a block that ended before its copies may fault
            found = [str(error)]
        if found:
            print(f"{CAUGHT}: {found}")
            return 0
    print(f"not caught in {RUNS} runs")
    return 1


if __name__ == "__main__":
    sys.exit(main())
