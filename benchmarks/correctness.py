"""Every kernel on a GPU against the CPU run of the same Plan, bit for bit.

``python -m benchmarks.correctness`` runs all of it and writes reports/h200/correctness.json; ``--only
cover sizes`` runs parts, ``--filter TEXT`` the cases whose words contain TEXT, both without writing.

A result depends on the product and its operands alone, so one CPU run serves every layout.  The CPU runs
and the compilations go to processes; this one drives the device.  Outputs are poisoned, all arrays lie
between guard bands, inputs must come out unchanged, and each call is repeated, warmed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

import mxgemm as mx
from benchmarks.arrays import Placed, place_all
from benchmarks.grid import GROUPS, Run, planned
from benchmarks.operands import Values, grant_everything, keywords, one_thread_each, operands, reference
from mxgemm import device
from mxgemm.kernels import KernelInstance, PackInstance
from mxgemm.report import CorrectnessRecord, KernelCount, read_environment, source_sha256
from mxgemm.report.compilation import fill_cache, pool
from mxgemm.report.equality import differing, tolerance
from mxgemm.report.evidence import CORRECTNESS_FILE

FAILURES_KEPT = 40
LOST = ("ILLEGAL", "LAUNCH_FAILED", "MISALIGNED", "illegal memory")
HEAVY = 30_000_000  # products from which on a CPU run is started first and awaited last


# The kernels that ran, and what is wrong.
Verdict = tuple[set[KernelInstance | PackInstance], str]


@dataclass
class Tally:
    """What has been compared so far."""

    cases: Counter[KernelInstance | PackInstance] = field(default_factory=Counter)
    mismatches: Counter[KernelInstance | PackInstance] = field(default_factory=Counter)
    configurations: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    failures: list[str] = field(default_factory=list)
    left_out: int = 0

    def add(self, run: Run, kernels: set[KernelInstance | PackInstance], entries: int, fault: str) -> None:
        counts = self.configurations[run.values.product.configuration.name]
        counts.update(cases=1, entries=entries, mismatches=bool(fault))
        counts[run.group] += 1
        self.cases.update(kernels)
        if fault:
            self.mismatches.update(kernels)
            if len(self.failures) < FAILURES_KEPT:
                self.failures.append(f"{run.group}: {run.case}, {run.values.kind}: {fault}")
                print("FAIL", self.failures[-1], flush=True)

    @property
    def done(self) -> int:
        return sum(counts["cases"] for counts in self.configurations.values())

    def record(self, seconds: float) -> CorrectnessRecord:
        kernels = [
            KernelCount(k.entry, str(k), source_sha256(k), count, self.mismatches[k])
            for k, count in self.cases.items()
        ]
        configurations = {name: dict(counts) for name, counts in self.configurations.items()}
        return CorrectnessRecord(
            read_environment(), {one.entry: one for one in kernels}, configurations, round(seconds, 1),
            tuple(self.failures), self.left_out,
        )  # fmt: skip


class Work:
    """Compilations and CPU runs in other processes, the long ones first."""

    def __init__(self, workers: ProcessPoolExecutor, runs: list[Run], arch: str) -> None:
        self.arch = arch
        self._kernels: dict[str, Future[float]] = {}
        self._references: dict[Values, Future[Any]] = {}
        for values in {run.values: None for run in runs if run.values.product.work >= HEAVY}:
            self._references[values] = workers.submit(reference, values)
        for run in runs:
            for kernel in run.case.lowering(arch).kernels:
                if kernel.entry not in self._kernels:
                    job = (kernel.source(), kernel.entry, device.compile_arch(arch))
                    self._kernels[kernel.entry] = workers.submit(fill_cache, *job)
            if run.values not in self._references:
                self._references[run.values] = workers.submit(reference, run.values)

    def await_kernels(self, kernels: tuple[KernelInstance | PackInstance, ...]) -> None:
        for kernel in kernels:
            self._kernels[kernel.entry].result()

    def reference(self, values: Values) -> tuple[Any, tuple[str, ...], dict[str, Any]]:
        """D, flags and operands."""
        d, flags, sent = self._references.pop(values).result()
        return d, flags, sent or operands(values)


def _call(run: Run, placed: dict[str, Placed]) -> dict[str, Any]:
    flip = run.layout.transposed
    passed = {name: one.caller(transposed=flip and name in ("a", "b")) for name, one in placed.items()}
    arrays = {"a": passed["a"], "b": passed["b"], "c": passed.get("c"), "out": passed["d"]}
    return {**arrays, "transpose_a": flip, "transpose_b": flip, **keywords(run.values.product, passed)}


def _compare(run: Run, d: Placed, expected: Any) -> str:
    """What is wrong with D's memory, in words; empty when nothing is."""
    p, back = run.values.product, d.download()
    steps, kind = d.seen.strides, d.seen.dtype
    found = np.ndarray(d.seen.shape, kind, back, d.first, steps)
    words, outside = f"u{kind.itemsize}", d.raw.copy()
    np.ndarray(d.seen.shape, words, outside, d.first, steps)[...] = found.view(words)
    fault = ""
    if run.values.is_sampled:
        rows, cols = run.values.chosen()
        unwritten = np.count_nonzero(found.view(words) == np.iinfo(words).max)
        if unwritten and p.precision != "exact":
            fault += f" {unwritten} entries hold the poison;"
        found = found[..., rows[:, None], cols]
    allowed = tolerance(p.activation, p.configuration.accumulator, p.result_dtype)
    bad = differing(np.ascontiguousarray(found), expected, allowed)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        rows, cols = (len(np.unique(np.argwhere(bad)[:, axis])) for axis in (-2, -1))
        fault += (
            f" {np.count_nonzero(bad)} of {bad.size} entries in {rows} rows and {cols} columns,"
            f" first {at}: {found[at]!r} for {expected[at]!r};"
        )
    if not np.array_equal(outside, back):
        fault += f" wrote {np.count_nonzero(outside != back)} bytes outside D;"
    return fault


def _repeat(d: Placed, call: dict[str, Any]) -> str:
    """The same call twice more, through ``gemm`` and then warmed; it must write the same bytes."""
    import torch

    first = d.memory.clone()
    for time_ in ("second", "third"):
        d.poison_again()
        mx.gemm(**call)
        if not torch.equal(first, d.memory):
            return f" the {time_} call gave other bytes;"
    return ""


def _one(run: Run, arrays: dict[str, Any], expected: Any, flags: tuple[str, ...]) -> tuple[Any, str]:
    """Run one case; the kernel that ran, and what is wrong."""
    placed = place_all(arrays, run.case)
    call = _call(run, placed)
    r = mx.gemm_outcome(**call)
    fault = "" if r.array is call["out"] else " the result is not out=;"
    fault += _compare(run, placed["d"], expected)
    if not run.values.is_sampled and set(r.outcome.flags) != set(flags):
        fault += f" flags {r.outcome.flags} for {flags};"
    fault += _repeat(placed["d"], call)
    for name, one in placed.items():
        if name != "d" and not np.array_equal(one.download(), one.raw):
            fault += f" {name} was changed;"
    return r.outcome.plan.kernel, fault


def _judged(work: Work, run: Run, arrays: dict[str, Any], expected: Any, flags: tuple[str, ...]) -> Verdict:
    """Run one case; a failure of any kind is its fault, and the run goes on."""
    predicted = run.case.lowering(work.arch).kernels
    try:
        work.await_kernels(predicted)
        kernel, fault = _one(run, arrays, expected, flags)
    except Exception as error:  # noqa: BLE001 — one failing case must not hide the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        fault = f" {type(error).__name__}: {str(error)[:300]} ({where.name}:{where.lineno})"
        return set(predicted), fault
    if run.case.problem.is_empty:
        return set(), fault
    # Without a product the operands may have no memory, whose alignment is nobody's to predict.
    if kernel != predicted[-1] and run.case.problem.reads_operands:
        fault += f" ran {kernel}, and the listing says {predicted[-1]};"
    return {*predicted[:-1], kernel}, fault


def _in_groups(runs: list[Run]) -> Iterator[tuple[Values, list[Run]]]:
    """Runs on the same operands together, the heavy ones last."""
    light = [run for run in runs if run.values.product.work < HEAVY]
    heavy = [run for run in runs if run.values.product.work >= HEAVY]
    for values, same in groupby([*light, *heavy], key=lambda run: run.values):
        yield values, list(same)


def compare_all(runs: list[Run], arch: str, processes: int | None, limit: float) -> Tally:
    """Compare every run that begins within ``limit`` seconds; a lost device ends it."""
    tally, start = Tally(), time.perf_counter()
    shown = start
    with pool(processes) as workers:
        work = Work(workers, runs, arch)
        print(f"{len(runs)} cases handed out after {time.perf_counter() - start:.1f} s", flush=True)
        for values, same in _in_groups(runs):
            if time.perf_counter() - start > limit:
                workers.shutdown(wait=False, cancel_futures=True)
                tally.left_out += len(same)
                continue
            try:
                expected, flags, arrays = work.reference(values)
            except Exception as error:  # noqa: BLE001 — as for a case
                for run in same:
                    tally.add(run, set(), 0, f" no CPU run: {type(error).__name__}: {str(error)[:300]}")
                continue
            for run in same:
                ran, fault = _judged(work, run, arrays, expected, flags)
                tally.add(run, ran, expected.size, fault)
                if any(word in fault for word in LOST):
                    print("the device is lost: stopping", flush=True)
                    workers.shutdown(cancel_futures=True)
                    return tally
            if time.perf_counter() - shown > 10:
                shown = time.perf_counter()
                print(f"{tally.done} cases after {shown - start:.0f} s", flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, metavar="GROUP")
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases whose words contain TEXT")
    parser.add_argument("--reports", type=Path, default=Path("reports/h200"), metavar="FOLDER")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this time")
    options = parser.parse_args()
    start = time.perf_counter()
    one_thread_each()
    grant_everything()
    arch = device.capabilities().arch
    runs = [run for run in planned(arch, tuple(options.only)) if options.filter in str(run.case)]
    tally = compare_all(runs, arch, options.processes, options.seconds)
    record = tally.record(time.perf_counter() - start)
    print(_summary(record))
    if tuple(options.only) == GROUPS and not options.filter:
        record.save(options.reports / CORRECTNESS_FILE)
    return 1 if tally.mismatches else 0


def _summary(record: CorrectnessRecord) -> str:
    lines = [
        f"{name:36} {counts['cases']:6} cases {counts['entries']:12} entries {counts['mismatches']:6} wrong"
        for name, counts in record.configurations.items()
    ]
    wrong = sum(one.mismatches > 0 for one in record.kernels.values())
    total = sum(counts["cases"] for counts in record.configurations.values())
    return "\n".join(
        [*lines, f"{total} cases, {len(record.kernels)} kernels, {wrong} of them wrong, {record.seconds} s"]
    )


if __name__ == "__main__":
    sys.exit(main())
