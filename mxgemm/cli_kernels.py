"""``python -m mxgemm kernels``: every kernel, whether its evidence is fresh, and what it compiles to."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sized
from pathlib import Path
from typing import Any

from mxgemm.cli_configs import aligned
from mxgemm.configs import ARCHITECTURES
from mxgemm.errors import UnsupportedError, one_of

__all__ = ["add_parser"]

STALE = 1

_DESCRIPTION = """
List every kernel that selection returns for the canonical covering set of products, and whether the
evidence in --reports describes the source generated today: fresh, stale (measured from another source),
missing or failed. Performance is measured for the kernels of the timed shapes only; the others say
missing, which is no fault.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``kernels``."""
    parser = commands.add_parser(
        "kernels", help="list the GPU kernels and the state of their evidence", description=_DESCRIPTION
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--check",
        action="store_true",
        help="exit 1 when the correctness evidence of some kernel is not fresh (missing counts as stale), or "
        "when a timed product would run another kernel or another source today",
    )
    what.add_argument(
        "--compile", action="store_true",
        help="compile every kernel anew, with or without a GPU, and print registers, spills, shared memory",
    )  # fmt: skip
    parser.add_argument(
        "--arch", default="sm_90a", help='"sm_75" to "sm_120"; sm_90a and sm_90 are the same (default)'
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="only kernels whose name, in words, contains TEXT"
    )
    parser.add_argument("--processes", type=int, help="of --compile; all processors by default")
    parser.add_argument(
        "--reports", type=Path, default=Path("reports/h200"), metavar="FOLDER",
        help="where correctness.json and performance.json are (default: reports/h200)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; 1 when ``--check`` finds evidence that is not fresh."""
    arch = _architecture(options.arch)
    return _compile(options, arch) if options.compile else _list(options, arch)


def _architecture(name: str) -> str:
    arch = name.removesuffix("a")
    if arch not in ARCHITECTURES:
        raise UnsupportedError(f"--arch {name} is not known; supported are {one_of(ARCHITECTURES)}")
    return arch


def _list(options: argparse.Namespace, arch: str) -> int:
    from mxgemm.report import listing, without_kernel

    found = [row for row in listing.rows(arch, options.reports) if options.filter in str(row.listed.kernel)]
    _refuse_nothing(found, options, arch)
    outdated = listing.outdated(arch, options.reports)
    failures = list(listing.failures(arch, options.reports))
    kernels = [row.as_json() for row in found]
    changed = [{"case": str(one.case), "kernel": one.kernel} for one in outdated]
    refused = [str(case) for case in without_kernel(arch)]
    if options.json:
        extra = {"outdated_measurements": changed, "without_kernel": refused, "failures": failures}
        print(json.dumps({"arch": arch, "kernels": kernels, **extra}, indent=1))
    else:
        print(_as_text(arch, kernels, changed, refused, failures))
    holds = all(row.holds for row in found) and not outdated
    return STALE if options.check and not holds else 0


def _refuse_nothing(found: Sized, options: argparse.Namespace, arch: str) -> None:
    """A filter that no kernel passes would let every check hold."""
    if not found:
        raise UnsupportedError(f"--filter {options.filter!r}: no kernel on {arch} has this in its name")


def _as_text(
    arch: str,
    kernels: list[dict[str, Any]],
    changed: list[dict[str, str]],
    refused: list[str],
    failures: list[str],
) -> str:
    head = ("kernel", "source", "correctness", "performance")
    table = [head, *((k["kernel"], k["sha256"][:12], k["correctness"], k["performance"]) for k in kernels)]
    lines = [aligned(table), ""]
    lines += [f"timed with another kernel or source: {one['case']}" for one in changed]
    lines += [f"no kernel: {case}" for case in refused]
    lines += [f"differed when measured: {failure}" for failure in failures]
    for kind in ("correctness", "performance"):
        counts = Counter(k[kind] for k in kernels)
        lines.append(f"{kind}: " + ", ".join(f"{n} {word}" for word, n in sorted(counts.items())))
    return "\n".join([*lines, f"{len(kernels)} kernels on {arch}"])


def _compile(options: argparse.Namespace, arch: str) -> int:
    from mxgemm import report
    from mxgemm.device import compile_arch

    kernels = [one.kernel for one in report.listed(arch) if options.filter in str(one.kernel)]
    _refuse_nothing(kernels, options, arch)
    compiled = report.compile_all(kernels, compile_arch(arch), processes=options.processes)
    facts = []
    if not options.json:
        print("registers  spilled bytes  shared bytes  seconds  kernel")
    for one in compiled:
        facts.append(
            {
                "entry": one.kernel.entry, "kernel": str(one.kernel), "registers": one.resources.registers,
                "spilled_bytes": one.spilled_bytes, "stack_bytes": one.resources.stack,
                "shared_bytes": one.shared_bytes, "seconds": round(one.seconds, 3),
                "remarks": list(one.remarks),
            }
        )  # fmt: skip
        if not options.json:
            figures = (one.resources.registers, one.spilled_bytes, one.shared_bytes)
            widths = "{:9}  {:13}  {:12}".format(*figures)
            print(f"{widths}  {one.seconds:7.2f}  {one.kernel}", flush=True)
            for remark in one.remarks:
                print(f"{'':47}{remark}")
    spilling = sum(bool(fact["spilled_bytes"]) for fact in facts)
    if options.json:
        print(json.dumps({"arch": compile_arch(arch), "kernels": facts}, indent=1))
    else:
        print(f"{len(facts)} kernels compiled for {compile_arch(arch)}, {spilling} with spills")
    return 0
