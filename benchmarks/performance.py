"""Speed on a GPU, interleaved with cuBLAS through torch and CuPy in one run.

``python -m benchmarks.performance`` runs all of it (about 95 seconds) and writes
reports/h200/performance.json and performance.md.  ``--only table host`` runs parts and ``--quick`` a few
shapes of each; those write only where ``--reports`` says so.

Operands are random and rotate among sets that do not fit the cache, which is also flushed before bursts.
Bursts are eight calls with pauses between.  Sustained runs keep the device busy: turns of a tenth of a
second without pauses, in alternating order, the first half of each untimed.  Times are medians on the
device, from CUDA graphs; the host's cost is measured apart.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks import ladder
from benchmarks.candidates import compile_kernels
from benchmarks.first_calls import first_calls
from benchmarks.operands import grant_everything
from benchmarks.tables import as_markdown
from mxgemm import device
from mxgemm.errors import MxgemmError
from mxgemm.kernels import Candidate
from mxgemm.report import Case, PerformanceRecord, read_environment, timed
from mxgemm.report.evidence import PERFORMANCE_FILE

PARTS = (
    "table", "sustained", "transposed", "further", "copies", "ladder", "epilogue", "cupy", "host", "first",
)  # fmt: skip
FOLDER = Path("reports/h200")
T = TypeVar("T")


def compile_first(cases: Iterable[Case], arch: str, beside: Iterable[Candidate] = ()) -> None:
    """Compile what the cases run, and candidates beside them."""
    lowerings = (*(case.lowering(arch) for case in cases), *(one.lowering for one in beside))
    compile_kernels(kernel for one in lowerings for kernel in one.kernels)


def guarded(what: str, work: Callable[[], T], failed: list[str]) -> T | None:
    """``work()``, or None with a line where it fails: the rest is measured all the same."""
    try:
        return work()
    except (MxgemmError, RuntimeError, TypeError, ValueError) as error:
        failed.append(what)
        print(f"FAILED {what}: {type(error).__name__}: {str(error)[:600]}", flush=True)
        return None


def timed_cases(arch: str, only: tuple[str, ...], *, quick: bool) -> list[tuple[str, str, Case]]:
    """Group, mode and case of everything that is compared with torch."""
    rows = list(timed.table(arch, timed.QUICK if quick else timed.TABLE))
    steady = [
        case
        for kind, case in rows
        if kind.sustained_everywhere or (case.product.m, case.product.n, case.product.k) in timed.SUSTAINED
    ]
    groups = {
        "table": [("table", "burst", case) for _, case in rows],
        "sustained": [("table", "sustained", case) for case in steady[:: 4 if quick else 1]],
        "transposed": [("transposed", "burst", case) for _, case in timed.transposed(arch)],
        "further": [
            ("further", "burst", case) for _, case in timed.further(arch, 8 if quick else len(timed.FURTHER))
        ],
    }
    return [one for name, group in groups.items() if name in only for one in group]


def copied(arch: str, *, quick: bool) -> tuple[int, ...]:
    """Bytes of the copies that are timed: as many as each product of few rows moves, then a large one."""
    cases = (case for _, _, case in timed_cases(arch, ("table", "further"), quick=quick))
    few = {case.product.nbytes for case in cases if case.product.m <= timed.FEW_ROWS}
    return (*sorted(few), timed.LARGE_COPY)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--quick", action="store_true", help="a few shapes of each part, shorter")
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases whose words contain TEXT")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help=f"where to write (default: {FOLDER})")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this time")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    start, only, arch = time.perf_counter(), tuple(options.only), device.capabilities().arch
    grant_everything()
    cases = [one for one in timed_cases(arch, only, quick=options.quick) if options.filter in str(one[2])]
    # CuPy multiplies float32 without tf32.
    squares = [
        case for kind, case in timed.table(arch, (timed.SQUARE,)) if kind.name in ("f16", "f64", "f32 scalar")
    ]
    extra = [case for _, case in timed.epilogues(arch)] if "epilogue" in only else []
    rungs = [one for one in ladder.rungs(arch) if "ladder" in only and options.filter in str(one.case)]
    rungs = rungs[:: 4 if options.quick else 1]
    failed: list[str] = []
    sides = {rung: guarded(rung.idea, partial(ladder.sides, rung), failed) for rung in rungs}
    beside = [one for both in sides.values() if both for one in (both[0], *both[1])]
    compile_first([*(case for _, _, case in cases), *extra], arch, beside)
    print(f"compiled after {time.perf_counter() - start:.1f} s", flush=True)
    from benchmarks import measure  # torch comes with it, which the compiling processes can do without

    host = ("host" in only and guarded("host", measure.host_costs, failed)) or {}
    found = []
    for group, mode, case in cases[:1]:  # not kept: it finds the device's clocks low
        guarded(str(case), partial(measure.compared, group, mode, case, quick=options.quick), failed)
    for group, mode, case in cases:
        if time.perf_counter() - start > options.seconds:
            failed.append(f"left out: {case}")
            continue
        one = partial(measure.compared, group, mode, case, quick=options.quick)
        found.append(guarded(str(case), one, failed))
    sizes = copied(arch, quick=options.quick) if "copies" in only else ()
    copies = guarded("copies", lambda: measure.copy_times(sizes), failed) or ()
    for rung, both in sides.items():
        if both:
            climb = partial(ladder.climbed, rung, *both)
            found.append(guarded(f"{rung.idea}: {rung.case}", climb, failed))
    if "cupy" in only:
        found += [guarded(f"cupy {case}", partial(measure.through_cupy, case), failed) for case in squares]
    if "epilogue" in only:
        found += guarded("epilogues", lambda: measure.epilogue_costs(arch), failed) or []
    first = ("first" in only and guarded("first calls", first_calls, failed)) or {}
    seconds = round(time.perf_counter() - start, 1)
    every = tuple(one for one in found if one)
    record = PerformanceRecord(read_environment(), every, host, first, seconds, copies)
    print(f"{len(record.measurements)} measurements in {seconds} s, {len(failed)} failed: {failed}")
    complete = only == PARTS and not options.quick and not options.filter
    if complete or options.reports:
        folder = options.reports or FOLDER
        record.save(folder / PERFORMANCE_FILE)
        (folder / "performance.md").write_text(as_markdown(record), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
