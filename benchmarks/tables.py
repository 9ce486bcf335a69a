"""A performance record as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mxgemm.report import Case, Measurement, PerformanceRecord
from mxgemm.report.timed import FEW_ROWS

COMPARED = ("table", "transposed", "further")
"""Groups of products that are compared with the library; a product that two have counts once."""


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def facts_of(about: Mapping[str, Any], seconds: float, module: str) -> str:
    """Where, with what, when and how long a record was measured, and by which module."""
    return (
        f"Measured on an {about['device']}, driver {about['driver']}, CUDA {about['cuda']}, NVRTC "
        f"{about['nvrtc']}, torch {about['torch']}, CuPy {about['cupy']}, cuda-core {about['cuda_core']}, "
        f"mxgemm {about['mxgemm']}, {about['time']}, in {seconds:.0f} s, by `python -m {module}`."
    )


def shape_of(case: Case) -> str:
    return f"{case.product.m}x{case.product.n}x{case.product.k}"


def kind_of(case: Case) -> str:
    return f"{case.product.dtype_a} {case.product.precision}"


def layout_of(case: Case) -> str:
    return f"{case.layout.a}*{case.layout.b}"


def is_aligned(case: Case) -> bool:
    """Whether rows are of whole 8 elements, and M is 128 or more."""
    p = case.product
    return all(extent % 8 == 0 for extent in (p.n, p.k)) and p.m >= 128


def _measured(found: list[Measurement]) -> str:
    names = list(dict.fromkeys(name for one in found for name in one.peers))
    head = ("configuration", "shape", "layout", "mode", "TFLOP/s", "us", *names, "ratio")
    rows = []
    for one in found:
        work = 2e-6 * one.case.product.work
        speeds = [f"{work / one.peers[name]:.1f}" if name in one.peers else "" for name in names]
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        figures = (f"{one.teraflops:.1f}", f"{one.microseconds:.1f}", *speeds, ratio)
        rows.append((kind_of(one.case), shape_of(one.case), layout_of(one.case), one.mode, *figures))
    return table_of(head, rows)


def _means(found: list[Measurement]) -> str:
    """Means of all parts in bursts, each product once; then of each part."""
    groups: dict[tuple[str, str, str], dict[Case, float]] = {}
    every: dict[tuple[str, str, str], dict[Case, float]] = {}
    for one in found:
        if "torch" not in one.peers or not is_aligned(one.case) or one.group not in (*COMPARED, "cupy"):
            continue
        kind, ratio = kind_of(one.case), one.peers["torch"] / one.microseconds
        groups.setdefault((kind, one.group, one.mode), {})[one.case] = ratio
        if one.mode == "burst" and one.group in COMPARED:
            every.setdefault((kind, "all aligned", one.mode), {}).setdefault(one.case, ratio)
    rows = [_mean(key, ratios) for key, ratios in (every | groups).items()]
    head = ("configuration", "part", "mode", "shapes", "geometric mean", "least", "at", "largest")
    return table_of(head, rows)


def _mean(key: tuple[str, str, str], ratios: Mapping[Case, float]) -> tuple[str, ...]:
    least = min(ratios, key=lambda case: ratios[case])
    mean, largest = statistics.geometric_mean(ratios.values()), max(ratios.values())
    at = f"{shape_of(least)} {layout_of(least)}"
    return *key, str(len(ratios)), f"{mean:.3f}", f"{ratios[least]:.2f}", at, f"{largest:.2f}"


def _few_rows(record: PerformanceRecord) -> str:
    """Products of few rows beside copies; the goal is one of 1.1 of the library and 80 % of a copy's rate."""
    rates = {one.nbytes: one.rate for one in record.copies}
    fastest = max(rates.values())
    rows = []
    for one in record.measurements:
        if one.group not in COMPARED or one.mode != "burst" or one.case.product.m > FEW_ROWS:
            continue
        nbytes = one.case.product.nbytes
        rate = 1e-3 * nbytes / one.microseconds
        parts = (rate / fastest, rate / rates[nbytes] if nbytes in rates else None)
        ratio = one.peers["torch"] / one.microseconds if "torch" in one.peers else None
        shares = ["" if part is None else f"{100 * part:.0f} %" for part in parts]
        rows.append(
            (
                kind_of(one.case), shape_of(one.case), layout_of(one.case), f"{1e-6 * nbytes:.1f}",
                f"{one.microseconds:.1f}", f"{rate:.0f}", *shares, "" if ratio is None else f"{ratio:.2f}",
                _reached(ratio, *parts),
            )
        )  # fmt: skip
    head = ("configuration", "shape", "layout", "MB", "us", "GB/s", "of the fastest copy", "of one as large",
            "ratio", "goal")  # fmt: skip
    return table_of(head, rows)


def _reached(ratio: float | None, fastest: float, alike: float | None) -> str:
    """By what the goal is reached."""
    if ratio is not None and ratio >= 1.1:
        return "ratio"
    if fastest >= 0.8:
        return "copy"
    return "copy as large" if alike is not None and alike >= 0.8 else "no"


def _copies(record: PerformanceRecord) -> str:
    rows = [(f"{1e-6 * x.nbytes:.1f}", f"{x.microseconds:.1f}", f"{x.rate:.0f}") for x in record.copies]
    return table_of(("copy, MB read and written", "us", "GB/s"), rows)


_FEW_ROWS = (
    "What must move is A, B and D, once each. The fastest copy is that of the second table; one as large "
    "reads and writes as many bytes together as the product must move. The goal is a ratio of 1.1 or 80 % of "
    "a copy's rate, and the last column says by which of these it is reached."
)
_LADDER = (
    "What the model chooses, beside what it would choose without an idea, in turn: without it, with it, the "
    "gain, and the ratios of both to cuBLAS. What takes clearly longer without it is measured once there."
)


def _ladder(found: list[Measurement]) -> str:
    rows = []
    for one in found:
        (without, before), *_ = one.peers.items()
        library = one.peers.get("torch")
        ratios = ("", "") if library is None else (f"{library / t:.2f}" for t in (before, one.microseconds))
        rows.append(
            (
                one.group.partition(": ")[2], kind_of(one.case), shape_of(one.case), layout_of(one.case),
                without.partition(": ")[2], f"{before:.1f}", one.kernel.partition(":")[0],
                f"{one.microseconds:.1f}", f"{before / one.microseconds:.2f}", *ratios,
            )
        )  # fmt: skip
    head = ("idea", "configuration", "shape", "layout", "without it", "us", "with it", "us", "gain",
            "ratio without", "ratio")  # fmt: skip
    return table_of(head, rows)


def _first_calls(record: PerformanceRecord) -> str:
    names = list(record.first_calls)
    keys = list(dict.fromkeys(key for times in record.first_calls.values() for key in times))
    rows = [(key, *(f"{record.first_calls[n].get(key, float('nan')):.0f}" for n in names)) for key in keys]
    return table_of(("first call, ms", *names), rows)


def _epilogue_row(one: Measurement) -> tuple[str, ...]:
    peers = one.peers
    name = one.group.partition(": ")[2]
    library = peers.get(f"torch {name}")
    beside = "" if library is None else _over(library, peers["torch plain"])
    return name, f"{one.microseconds:.1f}", _over(one.microseconds, peers["plain"]), beside


def _over(microseconds: float, plain: float) -> str:
    return f"{100 * microseconds / plain - 100:+.1f} %"


def _section(group: str, found: list[Measurement]) -> str:
    if group == "ladder":
        return f"{_LADDER}\n\n{_ladder(found)}"
    if group == "epilogue":
        head = ("epilogue, float16 4096x4096x4096", "us", "over plain", "cuBLAS over its plain")
        return table_of(head, [_epilogue_row(one) for one in found])
    return _measured(found)


def as_markdown(record: PerformanceRecord) -> str:
    """The whole record; peers in TFLOP/s, ratio = the first peer's time over ours."""
    facts = facts_of(record.environment.as_json(), record.seconds, "benchmarks.performance")
    found = list(record.measurements)
    parts = ["# Speed", facts]
    parts += [f"## Ratios to cuBLAS through torch, aligned shapes, M of 128 or more\n\n{_means(found)}"]
    if record.copies:
        parts.append(f"## Few rows\n\n{_FEW_ROWS}\n\n{_few_rows(record)}\n\n{_copies(record)}")
    for group in dict.fromkeys(one.group.partition(":")[0] for one in found):
        same = [one for one in found if one.group.partition(":")[0] == group]
        parts.append(f"## {group.capitalize()}\n\n{_section(group, same)}")
    if record.host:
        rows = [(name, f"{microseconds:.2f}") for name, microseconds in record.host.items()]
        parts.append(f"## Host\n\n{table_of(('warmed call, out= where not said', 'us'), rows)}")
    if record.first_calls:
        parts.append(f"## First calls\n\n{_first_calls(record)}")
    return "\n\n".join(parts) + "\n"
