"""A performance record as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mxgemm.report import Measurement, PerformanceRecord


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


def _shape(one: Measurement) -> str:
    p = one.case.product
    return f"{p.m}x{p.n}x{p.k}"


def _kind(one: Measurement) -> str:
    p = one.case.product
    return f"{p.dtype_a} {p.precision}"


def _measured(found: list[Measurement]) -> str:
    names = list(dict.fromkeys(name for one in found for name in one.peers))
    head = ("configuration", "shape", "layout", "mode", "TFLOP/s", "us", *names, "ratio")
    rows = []
    for one in found:
        work = 2e-6 * one.case.product.work
        speeds = [f"{work / one.peers[name]:.1f}" if name in one.peers else "" for name in names]
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        layout = f"{one.case.layout.a}*{one.case.layout.b}"
        figures = (f"{one.teraflops:.1f}", f"{one.microseconds:.1f}", *speeds, ratio)
        rows.append((_kind(one), _shape(one), layout, one.mode, *figures))
    return table_of(head, rows)


def _is_aligned(one: Measurement) -> bool:
    p = one.case.product
    return all(extent % 8 == 0 for extent in (p.n, p.k)) and p.m >= 128


def _means(found: list[Measurement]) -> str:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for one in found:
        if one.ratio is not None and "torch" in one.peers and _is_aligned(one):
            groups.setdefault((_kind(one), one.group, one.mode), []).append(one.ratio)
    rows = [
        (
            *key,
            str(len(ratios)),
            f"{statistics.geometric_mean(ratios):.3f}",
            f"{min(ratios):.2f}",
            f"{max(ratios):.2f}",
        )
        for key, ratios in groups.items()
    ]
    return table_of(("configuration", "part", "mode", "shapes", "geometric mean", "least", "largest"), rows)


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


def as_markdown(record: PerformanceRecord) -> str:
    """The whole record; peers in TFLOP/s, ratio = the first peer's time over ours."""
    facts = facts_of(record.environment.as_json(), record.seconds, "benchmarks.performance")
    found = list(record.measurements)
    parts = ["# Speed", facts]
    parts += [f"## Ratios to cuBLAS through torch, aligned shapes, M of 128 or more\n\n{_means(found)}"]
    for group in dict.fromkeys(one.group.partition(":")[0] for one in found):
        same = [one for one in found if one.group.partition(":")[0] == group]
        if group == "epilogue":
            head = ("epilogue, float16 4096x4096x4096", "us", "over plain", "cuBLAS over its plain")
            text = table_of(head, [_epilogue_row(one) for one in same])
        else:
            text = _measured(same)
        parts.append(f"## {group.capitalize()}\n\n{text}")
    if record.host:
        rows = [(name, f"{microseconds:.2f}") for name, microseconds in record.host.items()]
        parts.append(f"## Host\n\n{table_of(('warmed call, out= where not said', 'us'), rows)}")
    if record.first_calls:
        parts.append(f"## First calls\n\n{_first_calls(record)}")
    return "\n\n".join(parts) + "\n"
