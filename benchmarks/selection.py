"""How well the model chooses: every candidate of every shape is measured, in turn with cuBLAS through torch.

``python -m benchmarks.selection`` (about two and a half minutes) writes reports/h200/selection.json and
selection.md.  The JSON has prediction and time of every candidate.  Regret is the chosen candidate's time
over the best's.  ``--filter`` and ``--seconds`` measure less, and write only where ``--reports`` says so.

``--again FILE`` needs no GPU: it reads a selection.json and writes it anew, with today's choices and
predictions.  Candidates are known by their kernels' names, which hash what a kernel is generated for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import shapes
from benchmarks.candidates import PEER, compile_kernels, lowered, lowered_here, peers_of
from benchmarks.operands import grant_everything
from benchmarks.performance import FOLDER, guarded
from benchmarks.tables import is_aligned, kind_of, shape_of, table_of
from mxgemm import device, kernels
from mxgemm.autotune_measure import measure
from mxgemm.report import Case, read_environment

SECONDS = 0.3  # of bursts a shape, about
SCHEMA = 2
"""In records of schema 1 the peer's calls were queued late, and took up to 60 us more than they do."""

Row = dict[str, Any]


def row_of(case: Case) -> Row:
    """Every candidate of a case and the peer, measured in turn."""
    import torch

    asked = lowered_here(case)
    candidates, chosen = kernels.candidates(**asked), kernels.lower(**asked).instance.entry
    times = measure(
        case.problem, candidates, 0,
        alignment=case.alignment, seconds=SECONDS, always=chosen, peers=peers_of(case),
    )  # fmt: skip
    if case.product.work > 1e11:
        torch.cuda.empty_cache()
    found = []
    for one in candidates:
        kernel, timing = one.lowering.instance, times[one.lowering.instance.entry]
        found.append(
            {
                "entry": kernel.entry, "lowering": kernel.lowering, "variant": kernel.variant,
                "predicted": _predicted(one), "microseconds": round(timing.microseconds, 3),
                "bursts": timing.bursts, "workspace_bytes": one.lowering.workspace_bytes,
            }
        )  # fmt: skip
    found.sort(key=_microseconds)
    peer = round(times[PEER].microseconds, 3) if PEER in times else None
    row = {"case": case.as_json(), "chosen": chosen, PEER: peer, "candidates": found}
    own, best = chosen_of(row), found[0]
    versus = "" if peer is None else f"  cuBLAS/chosen {peer / own['microseconds']:.2f}"
    print(
        f"regret {regret(row):5.3f}{versus}  {case}: {own['variant']} {own['microseconds']:.1f} us "
        f"(predicted {own['predicted']}), best {best['variant']} {best['microseconds']:.1f} us",
        flush=True,
    )
    return row


def _predicted(one: kernels.Candidate) -> float | None:
    return None if one.predicted is None else round(one.predicted, 3)


def _microseconds(one: Row) -> float:
    return float(one["microseconds"])


def row_again(row: Row, arch: str, multiprocessors: int) -> Row:
    """A row's times with today's candidates, choice and predictions.

    What is no longer offered is kept aside, so that a later reading may find it offered again.
    """
    asked = lowered(Case.from_json(row["case"]), arch, multiprocessors)
    offered = {one.lowering.instance.entry: one for one in kernels.candidates(**asked)}
    measured = {one["entry"]: one for one in [*row["candidates"], *row.get("dropped", [])]}
    kept = [{**measured[e], "predicted": _predicted(one)} for e, one in offered.items() if e in measured]
    return {
        **row, "chosen": kernels.lower(**asked).instance.entry, "candidates": sorted(kept, key=_microseconds),
        "dropped": [one for entry, one in measured.items() if entry not in offered],
        "not_measured": [one.lowering.instance.variant for e, one in offered.items() if e not in measured],
    }  # fmt: skip


def record_again(record: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """A record's times with the choices of the model that is installed."""
    about = record["environment"]
    rows = [row_again(row, about["arch"], about["multiprocessors"]) for row in record["rows"]]
    return {**record, "chosen_at": now.isoformat(timespec="seconds"), "rows": rows}


def judged(rows: Iterable[Row]) -> list[Row]:
    """The rows whose choice was measured."""
    return [row for row in rows if any(one["entry"] == row["chosen"] for one in row["candidates"])]


def chosen_of(row: Row) -> Mapping[str, Any]:
    return next(one for one in row["candidates"] if one["entry"] == row["chosen"])


def regret(row: Row) -> float:
    """The model's choice's time over the best candidate's."""
    return float(chosen_of(row)["microseconds"] / row["candidates"][0]["microseconds"])


def ratios(row: Row) -> tuple[float, float] | None:
    """The peer's time over the choice's and over the best's; None where the library lacks the product."""
    if row[PEER] is None:
        return None
    times = (chosen_of(row)["microseconds"], row["candidates"][0]["microseconds"])
    return float(row[PEER] / times[0]), float(row[PEER] / times[1])


def as_markdown(record: Mapping[str, Any]) -> str:
    about, rows = record["environment"], judged(record["rows"])
    compared = record["schema"] >= SCHEMA
    facts = (
        f"Every candidate of {len(record['rows'])} products, measured on an {about['device']}, driver "
        f"{about['driver']}, CUDA {about['cuda']}, NVRTC {about['nvrtc']}, torch {about['torch']}, mxgemm "
        f"{about['mxgemm']}, {about['time']}, in {record['seconds']:.0f} s, by "
        "`python -m benchmarks.selection`. Regret is the time of the model's choice over that of "
        "the best candidate. Candidates that are clearly slower are "
        f"measured once.{_COMPARED if compared else ''}{_since(record)}"
    )
    parts = ["# Selection", facts, f"## Summary\n\n{_summary(rows)}"]
    if compared:
        parts.append(f"## Beside {PEER}: aligned shapes, M of 128 or more\n\n{_beside(rows)}")
    return "\n\n".join([*parts, f"## Products\n\n{_products(rows, compared=compared)}"]) + "\n"


_COMPARED = (
    f" {PEER}, through torch, took turns with them; the ratios are its time over that of the model's choice "
    "and of the best candidate."
)


def _since(record: Mapping[str, Any]) -> str:
    """What is not of the day of the measurement; nothing where all is."""
    if "chosen_at" not in record:
        return ""
    rows = record["rows"]
    gone, new = (sum(len(row[key]) for row in rows) for key in ("dropped", "not_measured"))
    unknown = len(rows) - len(judged(rows))
    return (
        f" Times were measured on {record['environment']['time'][:10]}; choices and predictions are those of "
        f"the model of {record['chosen_at']} (`--again`): {gone} candidates that were measured are no longer "
        f"offered and left out, {new} that are offered were not measured, and {unknown} products are left "
        "out because their choice was not measured."
    )


def _summary(rows: list[Row]) -> str:
    lines = [_means(name, same) for name, same in [*_by_kind(rows).items(), ("all", rows)]]
    head = ("configuration", "products", "regret, geometric mean", "worst", "model's choice is best")
    return table_of(head, lines)


def _by_kind(rows: list[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(kind_of(Case.from_json(row["case"])), []).append(row)
    return groups


def _means(name: str, rows: list[Row]) -> tuple[str, ...]:
    regrets = [regret(row) for row in rows]
    hits = sum(row["chosen"] == row["candidates"][0]["entry"] for row in rows)
    mean = f"{statistics.geometric_mean(regrets):.3f}"
    return name, str(len(rows)), mean, f"{max(regrets):.3f}", str(hits)


def _beside(rows: list[Row]) -> str:
    """Means of both ratios, and the shape of the least of each."""
    lines = []
    for name, same in _by_kind(rows).items():
        cases = [(Case.from_json(row["case"]), ratios(row)) for row in same]
        found = [(case, both) for case, both in cases if both is not None and is_aligned(case)]
        if not found:
            continue
        cells = []
        for which in (0, 1):
            least, case = min((both[which], shape_of(case)) for case, both in found)
            mean = statistics.geometric_mean(both[which] for _, both in found)
            cells += [f"{mean:.3f}", f"{least:.2f}", case]
        lines.append((name, str(len(found)), *cells))
    head = ("configuration", "products", "model's choice, geometric mean", "least", "at",
            "best candidate, geometric mean", "least", "at")  # fmt: skip
    return table_of(head, lines)


def _products(rows: list[Row], *, compared: bool) -> str:
    lines = []
    for row in rows:
        case, own, best = Case.from_json(row["case"]), chosen_of(row), row["candidates"][0]
        predicted = "" if own["predicted"] is None else f"{own['predicted']:.1f}"
        figures = (
            kind_of(case), shape_of(case), f"{case.layout.a}*{case.layout.b}", str(len(row["candidates"])),
            str(own["variant"]), predicted, f"{own['microseconds']:.1f}",
            "" if own is best else str(best["variant"]), f"{best['microseconds']:.1f}", f"{regret(row):.3f}",
        )  # fmt: skip
        lines.append((*figures, *(_peer_cells(row) if compared else ())))
    head = ("configuration", "shape", "layout", "candidates", "model's choice", "predicted us", "us", "best",
            "us", "regret", *((f"{PEER} us", "/ choice", "/ best") if compared else ()))  # fmt: skip
    return table_of(head, lines)


def _peer_cells(row: Row) -> tuple[str, str, str]:
    both = ratios(row)
    return ("", "", "") if both is None else (f"{row[PEER]:.1f}", f"{both[0]:.2f}", f"{both[1]:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--filter", default="", metavar="TEXT", help="cases whose words contain TEXT")
    parser.add_argument("--reports", type=Path, metavar="FOLDER", help=f"default: {FOLDER}, or FILE's folder")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after this time")
    parser.add_argument("--again", type=Path, metavar="FILE", help="today's choices among the times of FILE")
    options = parser.parse_args()
    if options.again is None:
        return _measured(options)
    if options.filter or options.seconds < float("inf"):
        parser.error("--again reads a whole record: leave --filter and --seconds out")
    record = record_again(json.loads(options.again.read_text(encoding="utf-8")), datetime.now(UTC))
    rows = judged(record["rows"])
    regrets = [regret(row) for row in rows]
    print(
        f"regret of {len(rows)} of {len(record['rows'])} products: geometric mean "
        f"{statistics.geometric_mean(regrets):.4f}, worst {max(regrets):.3f}"
    )
    _write(record, options.reports or options.again.parent)
    return 0


def _write(record: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    (folder / "selection.json").write_text(text, encoding="utf-8")
    (folder / "selection.md").write_text(as_markdown(record), encoding="utf-8")


def _measured(options: argparse.Namespace) -> int:
    start, arch = time.perf_counter(), device.capabilities().arch
    grant_everything()
    cases = [case for case in shapes.selection(arch) if options.filter in str(case)]
    every = (one for case in cases for one in kernels.candidates(**lowered_here(case)))
    count = compile_kernels(kernel for one in every for kernel in one.lowering.kernels)
    print(f"{count} kernels compiled after {time.perf_counter() - start:.1f} s", flush=True)
    failed: list[str] = []
    rows = []
    for case in cases:
        if time.perf_counter() - start > options.seconds:
            failed.append(f"left out: {case}")
            continue
        rows += [row for row in [guarded(str(case), partial(row_of, case), failed)] if row]
    seconds = round(time.perf_counter() - start, 1)
    print(f"{len(rows)} products in {seconds} s, {len(failed)} failed: {failed}")
    record = {
        "kind": "selection", "schema": SCHEMA, "environment": read_environment().as_json(),
        "seconds": seconds, "left_out": failed, "rows": rows,
    }  # fmt: skip
    complete = not failed and not options.filter
    if rows and (complete or options.reports):
        _write(record, options.reports or FOLDER)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
