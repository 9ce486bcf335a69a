"""Speed on a GPU, interleaved with cuBLAS through torch and CuPy in one run.

``python -m benchmarks.performance`` runs all of it (about two minutes) and writes
reports/h200/performance.json and performance.md.  ``--only table host`` runs parts and ``--quick`` a few
shapes of each; those write only where ``--reports`` says so.

Operands are random and rotate among sets that do not fit the cache, which is also flushed.  Bursts are
eight calls with pauses between; sustained runs keep the device busy.  Times are medians on the device,
from CUDA graphs; the host's cost is measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import torch

import mxgemm as mx
from benchmarks import shapes
from benchmarks.operands import grant_everything
from benchmarks.subjects import Subject, cupy_peer, subject_of
from benchmarks.tables import as_markdown
from benchmarks.timing import bursts, host_microseconds, sustained
from mxgemm import device
from mxgemm.report import Case, Measurement, PerformanceRecord, read_environment, source_sha256
from mxgemm.report.compilation import fill_cache, pool
from mxgemm.report.evidence import PERFORMANCE_FILE

PARTS = ("table", "sustained", "transposed", "further", "epilogue", "cupy", "host", "first")
FOLDER = Path("reports/h200")


def compile_first(cases: Iterable[Case], arch: str) -> None:
    """Fill the disk cache in processes, so that measuring does not wait for compilations."""
    kernels = {kernel.entry: kernel for case in cases for kernel in case.lowering(arch).kernels}
    jobs = [(k.source(), k.entry, device.compile_arch(arch)) for k in kernels.values()]
    with pool() as workers:
        for future in [workers.submit(fill_cache, *job) for job in jobs]:
            future.result()


def measurement(group: str, mode: str, subject: Subject, times: dict[str, float]) -> Measurement:
    kernel = subject.kernel()
    peers = {name: round(found, 3) for name, found in times.items() if name != "mxgemm"}
    one = Measurement(
        group, subject.case, kernel.entry, source_sha256(kernel), str(kernel), mode,
        round(times["mxgemm"], 3), peers,
    )  # fmt: skip
    ratio = "" if one.ratio is None else f"  ratio {one.ratio:5.2f}"
    print(f"{group:10} {mode:9} {one.teraflops:8.1f} TFLOP/s{ratio}  {subject.case}", flush=True)
    return one


def compared(group: str, mode: str, case: Case, *, quick: bool) -> Measurement:
    """Our call and torch's, in turn."""
    subject = subject_of(case)
    calls = {"mxgemm": subject.ours}
    peer = subject.torch_peer()
    if peer:
        calls["torch"] = peer
    measure = bursts if mode == "burst" else sustained
    seconds = {"burst": 0.25, "sustained": 0.3}[mode] / (3 if quick else 1)
    one = measurement(group, mode, subject, measure(calls, len(subject.sets), seconds=seconds))
    del subject, calls, peer
    torch.cuda.empty_cache()  # the largest operands take tens of gigabytes with their captured results
    return one


def through_cupy(case: Case) -> Measurement:
    subject = subject_of(case)
    calls = {"mxgemm": subject.ours, "cupy": cupy_peer(subject), "torch": subject.torch_peer()}
    given = {name: call for name, call in calls.items() if call}
    return measurement("cupy", "burst", subject, bursts(given, len(subject.sets)))


def epilogue_costs(arch: str) -> list[Measurement]:
    """Each variant in turn with the plain product."""
    subjects = {name: subject_of(case) for name, _, case in shapes.epilogues(arch)}
    times = bursts({name: one.ours for name, one in subjects.items()}, 2, seconds=0.6)
    return [
        measurement(f"epilogue: {name}", "burst", one, {"mxgemm": times[name], "plain": times["plain"]})
        for name, one in subjects.items()
    ]


def host_costs() -> dict[str, float]:
    """Warmed calls with ``out=`` on small arrays, so that the device never holds the host up."""
    import cupy

    a, b = (torch.randn(64, 64, device="cuda").half() for _ in "ab")
    d = torch.empty_like(a)
    x, y, z = (cupy.asarray(one) for one in (a, b, d))
    f, g, h = (one.astype(cupy.float32) for one in (x, y, z))
    found = host_microseconds(
        {
            "mxgemm, CuPy, float16": lambda: mx.gemm(x, y, out=z, precision="native"),
            "mxgemm, CuPy, float32 tf32": lambda: mx.gemm(f, g, out=h, precision="tf32"),
            "mxgemm, torch, float16": lambda: mx.gemm(a, b, out=d, precision="native"),
            "cupy.matmul, float16": lambda: cupy.matmul(x, y, out=z),
            "torch.mm, float16": lambda: torch.mm(a, b, out=d),
            "mxgemm, CuPy, float16, new result": lambda: mx.gemm(x, y, precision="native"),
        }
    )
    for name, microseconds in found.items():
        print(f"host       {microseconds:8.2f} us  {name}", flush=True)
    return {name: round(microseconds, 2) for name, microseconds in found.items()}


def first_calls() -> dict[str, dict[str, float]]:
    """In two processes of their own on one cache folder: the first finds it empty."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "disk cache"):
            run = subprocess.run(
                [sys.executable, "-m", "benchmarks.first_call"],
                env={**os.environ, "MXGEMM_CACHE_DIR": folder}, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if run.returncode:
                raise SystemExit(f"first calls ({name}) failed:\n{run.stderr[-3000:]}")
            found[name] = {key: round(ms, 1) for key, ms in json.loads(run.stdout.splitlines()[-1]).items()}
            print(f"first call {name}: {found[name]}", flush=True)
    return found


def timed_cases(arch: str, only: tuple[str, ...], *, quick: bool) -> list[tuple[str, str, Case]]:
    """Group, mode and case of everything that is compared with torch."""
    rows = list(shapes.table(arch, shapes.QUICK if quick else shapes.TABLE))
    steady = [
        case
        for kind, case in rows
        if kind.sustained_everywhere
        or (case.product.m, case.product.n, case.product.k) in shapes.SUSTAINED
    ]
    groups = {
        "table": [("table", "burst", case) for _, case in rows],
        "sustained": [("table", "sustained", case) for case in steady[:: 4 if quick else 1]],
        "transposed": [("transposed", "burst", case) for _, case in shapes.transposed(arch)],
        "further": [
            ("further", "burst", case)
            for _, case in shapes.further(arch, 8 if quick else len(shapes.FURTHER))
        ],
    }
    return [one for name, group in groups.items() if name in only for one in group]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART")
    parser.add_argument("--quick", action="store_true", help="a few shapes of each part, shorter")
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases whose words contain TEXT")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help=f"where to write (default: {FOLDER})")
    options = parser.parse_args()
    start, only, arch = time.perf_counter(), tuple(options.only), device.capabilities().arch
    grant_everything()
    cases = [
        one for one in timed_cases(arch, only, quick=options.quick) if options.filter in str(one[2])
    ]
    # CuPy multiplies float32 without tf32.
    squares = [
        case
        for kind, case in shapes.table(arch, (shapes.SQUARE,))
        if kind.name in ("f16", "f64", "f32 scalar")
    ]
    extra = [case for _, _, case in shapes.epilogues(arch)] if "epilogue" in only else []
    compile_first([*(case for _, _, case in cases), *extra], arch)
    print(f"compiled after {time.perf_counter() - start:.1f} s", flush=True)
    found = [compared(group, mode, case, quick=options.quick) for group, mode, case in cases]
    if "cupy" in only:
        found += [through_cupy(case) for case in squares]
    found += epilogue_costs(arch) if "epilogue" in only else []
    host = host_costs() if "host" in only else {}
    first = first_calls() if "first" in only else {}
    seconds = round(time.perf_counter() - start, 1)
    record = PerformanceRecord(read_environment(), tuple(found), host, first, seconds)
    print(f"{len(found)} measurements in {seconds} s")
    complete = only == PARTS and not options.quick and not options.filter
    if complete or options.reports:
        folder = options.reports or FOLDER
        record.save(folder / PERFORMANCE_FILE)
        (folder / "performance.md").write_text(as_markdown(record), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
