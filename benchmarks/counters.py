"""What the chip's counters say of our kernel and of cuBLAS's, one launch each, by Nsight Compute's ``ncu``.

``python -m benchmarks.counters`` (about 15 seconds) writes reports/h200/counters.json and counters.md, in
``--reports FOLDER`` if told.  The clock is left as it is (``--clock-control none``): a fixed one would hide
what power does.  ``ncu`` is looked for on PATH and where CUDA and Nsight Compute install it.  It repeats each
launch for several sets of counters, with an empty L2 each time.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.operands import grant_everything
from benchmarks.performance import FOLDER, compile_first
from benchmarks.tables import facts_of, table_of
from mxgemm import device
from mxgemm.report import Case, read_environment, source_sha256
from mxgemm.report.timed import KINDS, SUSTAINED, case_of

OURS, PEER = "mxgemm", "cuBLAS"
INSTALLED = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
LIMIT = 120  # seconds that ncu may take
CHILD = "--launches-only"


@dataclass(frozen=True)
class Counter:
    """One row of the table.

    Attributes
    ----------
    name, metric : str
        In the record, and as ``ncu`` knows it.
    words : str
        In the table.
    unit, scale : str, float
        Shown behind the figure, and how many of the metric's base units it is.
    digits : int
        Behind the point.
    """

    name: str
    metric: str
    words: str
    unit: str = ""
    scale: float = 1.0
    digits: int = 1


_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTERS = (
    Counter("microseconds", "gpu__time_duration.sum", "time", " us", 1e-6),
    Counter(
        "tensor_pipe_percent", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "tensor pipe busy, of all cycles", " %",
    ),
    Counter("clock_ghz", "sm__cycles_elapsed.avg.per_second", "clock", " GHz", 1e9, 2),
    Counter("read_megabytes", "dram__bytes_read.sum", "read from device memory", " MB", 1e6, 0),
    Counter("l2_hit_percent", "lts__t_sector_hit_rate.pct", "hits in L2", " %", digits=0),
    Counter("stalled_wgmma", _STALLED.format("gmma"), "warps stalled on wgmma, an issue"),
    Counter("stalled_barrier", _STALLED.format("barrier"), "warps stalled at a block's barrier, an issue"),
)  # fmt: skip

# What a unit of ncu's is of seconds, bytes, hertz, or plain figures; in lower case.
_UNITS = {
    **dict.fromkeys(("", "%", "inst", "ratio", "s", "second", "byte", "hz", "cycle/second"), 1.0),
    **dict.fromkeys(("ns", "nsecond"), 1e-9), **dict.fromkeys(("us", "usecond"), 1e-6),
    **dict.fromkeys(("ms", "msecond"), 1e-3), **dict.fromkeys(("kbyte", "khz"), 1e3),
    **dict.fromkeys(("mbyte", "mhz", "cycle/usecond"), 1e6),
    **dict.fromkeys(("gbyte", "ghz", "cycle/nsecond"), 1e9), "tbyte": 1e12,
}  # fmt: skip


def find_ncu() -> str | None:
    """The first ``ncu`` on PATH, or where it is installed by default."""
    found = shutil.which("ncu")
    if found:
        return found
    places = (path for pattern in INSTALLED for path in Path("/").glob(pattern.lstrip("/")))
    return next((str(path) for path in sorted(places, reverse=True)), None)


def in_base_units(value: str, unit: str) -> float:
    """A figure of ncu's in seconds, bytes, hertz or percent, or as the plain ratio that it is.

    Raises
    ------
    ValueError
        For a unit that is none of these, or a figure that is no number.
    """
    if unit.lower() not in _UNITS:
        raise ValueError(f"ncu gives {value} in {unit!r}; known are {', '.join(filter(None, _UNITS))}")
    return float(value.replace(",", "")) * _UNITS[unit.lower()]


def parsed(text: str) -> list[tuple[str, dict[str, float]]]:
    """Name and counters, in base units, of every kernel in what ``ncu --csv --page raw`` printed, in order.

    Raises
    ------
    ValueError
        Where the table, a counter or a unit is missing: ncu's own words are the message then.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError(f"ncu printed no table:\n{text.strip()[-2000:]}")
    rows = csv.DictReader(line for line in lines[start:] if line.startswith('"'))
    units = next(rows, None)
    missing = [one.metric for one in COUNTERS if one.metric not in (rows.fieldnames or ())]
    if units is None or missing:
        raise ValueError(f"ncu's table lacks {', '.join(missing) or 'its rows'}")
    return [
        (
            row["Kernel Name"],
            {one.name: in_base_units(row[one.metric], units[one.metric]) for one in COUNTERS},
        )
        for row in rows
    ]


def paired(found: Iterable[tuple[str, dict[str, float]]], cases: Iterable[Case]) -> list[dict[str, Any]]:
    """For each case the launch of ours and the peer's, which follow each other.

    Raises
    ------
    ValueError
        Where a product took another number of launches than these two.
    """
    launches, cases = list(found), list(cases)
    whose = [OURS if name.startswith("mxgemm_") else PEER for name, _ in launches]
    if whose != [OURS, PEER] * len(cases):
        names = ", ".join(name for name, _ in launches)
        raise ValueError(
            f"one launch of ours and one of cuBLAS's for each of {len(cases)} products, not {names}"
        )
    pairs = zip(cases, launches[::2], launches[1::2], strict=True)
    return [{"case": case.as_json(), OURS: _side(ours), PEER: _side(peer)} for case, ours, peer in pairs]


def _side(launch: tuple[str, dict[str, float]]) -> dict[str, Any]:
    name, counters = launch
    shown = {one.name: round(counters[one.name] / one.scale, 4) for one in COUNTERS}
    return {"kernel": name, **shown}


def cases_of() -> list[Case]:
    """float16, row-major, from 4096³ on."""
    return [case_of(KINDS[0], shape) for shape in SUSTAINED]


def launch_all() -> None:
    """The launches that ncu looks at, between two marks; ours first.  What comes before is not looked at."""
    import torch

    from benchmarks.subjects import subject_of

    grant_everything()
    for case in cases_of():
        subject = subject_of(case)
        peer = subject.torch_peer()
        if peer is None:
            raise RuntimeError(f"torch has no product for {case}")
        calls = (subject.ours, peer)
        for call in calls:
            call(1)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for call in calls:
            call(0)
            torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        del subject, peer, calls
        torch.cuda.empty_cache()


def command(ncu: str, log: Path) -> list[str]:
    """What is run: ncu on this module's launches."""
    metrics = ",".join(one.metric for one in COUNTERS)
    return [
        ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw",
        "--print-units", "base", "--metrics", metrics, "--log-file", str(log),
        sys.executable, "-W", "ignore", "-m", "benchmarks.counters", CHILD,
    ]  # fmt: skip


def measured(ncu: str) -> list[tuple[str, dict[str, float]]]:
    """Every launch that ncu saw.

    Raises
    ------
    RuntimeError
        Where ncu failed, for example because the driver keeps counters from unprivileged users.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        run = subprocess.run(
            command(ncu, log), capture_output=True, text=True, check=False, timeout=LIMIT
        )  # fmt: skip
        text = log.read_text(encoding="utf-8") if log.exists() else ""
    if run.returncode:
        raise RuntimeError(f"{ncu} ended with {run.returncode}:\n{(text + run.stdout + run.stderr)[-3000:]}")
    return parsed(text)


def with_kernels(rows: list[dict[str, Any]], arch: str) -> Iterator[dict[str, Any]]:
    """Each row with the source hash and the words of our kernel."""
    for row in rows:
        kernel = Case.from_json(row["case"]).lowering(arch).instance
        if not row[OURS]["kernel"].startswith(kernel.entry):
            raise ValueError(f"{row[OURS]['kernel']} ran, and the listing says {kernel.entry}")
        yield {**row, "entry": kernel.entry, "sha256": source_sha256(kernel), "words": str(kernel)}


def as_markdown(record: Mapping[str, Any]) -> str:
    """The record as one table, a column a kernel."""
    rows = record["rows"]
    sides = [(row, whose) for row in rows for whose in (OURS, PEER)]
    head = ["", *(f"{_shape(row)}, {whose}" for row, whose in sides)]
    lines = [
        (one.words, *(f"{row[whose][one.name]:.{one.digits}f}{one.unit}" for row, whose in sides))
        for one in COUNTERS
    ]
    kernels = table_of(
        ("product", "our kernel", "its source", "cuBLAS's kernel"),
        [(_shape(row), row["words"], row["sha256"][:12], row[PEER]["kernel"]) for row in rows],
    )
    about = facts_of(record["environment"], record["seconds"], "benchmarks.counters")
    told = (
        "float16, row-major; one launch each, ours and cuBLAS's in turn, the clock as it is "
        f"(`--clock-control none`), L2 empty before each. {record['ncu']}."
    )
    parts = ["# Counters", about, told, table_of(head, lines), f"## Kernels\n\n{kernels}"]
    return "\n\n".join(parts) + "\n"


def _shape(row: Mapping[str, Any]) -> str:
    p = row["case"]["product"]
    return f"{p['m']}x{p['n']}x{p['k']}"


def _version(ncu: str) -> str:
    """What ncu calls itself, with its version."""
    run = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=False, timeout=LIMIT)
    found = re.search(r"Version (\S+)", run.stdout)
    return f"Nsight Compute {found[1]}" if found else "Nsight Compute of unknown version"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reports", type=Path, default=FOLDER, metavar="FOLDER", help=f"default: {FOLDER}")
    parser.add_argument(CHILD, action="store_true", help="launch the products and measure nothing: for ncu")
    options = parser.parse_args()
    if options.launches_only:
        launch_all()
        return 0
    ncu = find_ncu()
    if ncu is None:
        print(f"ncu is missing: neither on PATH nor at {' or '.join(INSTALLED)}; install Nsight Compute")
        return 2
    start, arch = time.perf_counter(), device.capabilities().arch
    compile_first(cases_of(), arch)  # so that the launches under ncu find them on disk
    try:
        rows = list(with_kernels(paired(measured(ncu), cases_of()), arch))
    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"no counters: {error}")
        return 1
    record = {
        "kind": "counters", "schema": 1, "environment": read_environment().as_json(), "ncu": _version(ncu),
        "seconds": round(time.perf_counter() - start, 1), "rows": rows,
    }  # fmt: skip
    write(record, options.reports)
    print(as_markdown(record))
    return 0


def write(record: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    (folder / "counters.json").write_text(text, encoding="utf-8")
    (folder / "counters.md").write_text(as_markdown(record), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
