"""``python -m mxgemm configs``: the configuration table, for people and as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from mxgemm import bounds
from mxgemm.configs import ARCHITECTURES, CONFIGURATIONS, UNITS, Configuration, UnitArithmetic, has_unit

__all__ = ["add_parser", "aligned", "as_json"]

# Bounds depend on K; the table states them at one.
TABLE_K = 4096
TABLE_ARCH = "sm_90"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``configs``."""
    parser = commands.add_parser("configs", help="print the configuration table")
    parser.add_argument("--json", action="store_true", help="every column, as one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status 0."""
    print(json.dumps(as_json(), indent=2, allow_nan=False) if options.json else as_text())
    return 0


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Rows of words as columns, two blanks apart."""
    table = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = ("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)


def as_text() -> str:
    """The table in three parts: configurations, costs, units."""
    costs = (
        "Costs, femtoseconds per operation of the caller's 2*M*N*K "
        "(m measured, d datasheet, x derived from one of them; [] no kernel there yet)"
    )
    parts = (
        ("Configurations", _configuration_rows()),
        (costs, _cost_rows()),
        ("Matrix units: products added at once (L), fraction bits kept (F), rounding", _unit_rows()),
    )
    return "\n\n".join(f"{title}\n\n{aligned(rows)}" for title, rows in parts)


def _configuration_rows() -> list[tuple[str, ...]]:
    head = (
        "configuration",
        "unit",
        "products",
        "accumulator",
        "chain",
        "section",
        "needs",
        f"bound on {TABLE_ARCH}, K = {TABLE_K}",
    )
    return [head, *(_configuration_row(row) for row in CONFIGURATIONS)]


def _configuration_row(row: Configuration) -> tuple[str, ...]:
    return (
        row.name,
        row.unit or "none",
        _products(row),
        row.accumulator,
        str(row.chain or "all of K"),
        str(row.section or "all of K"),
        " + ".join(row.grants) or "nothing",
        bounds.describe(row, TABLE_ARCH, TABLE_K),
    )


def _products(row: Configuration) -> str:
    """The ordered products of a split, or how many products there are."""
    if row.moduli:
        return f"{row.moduli} moduli"
    if row.limbs:
        return f"{row.limbs * (row.limbs + 1) // 2} of {row.limbs} byte limbs"
    if row.terms > 1:
        return " ".join(f"{i}{j}" for i, j in row.products)
    return "1"


def _cost_rows() -> list[tuple[str, ...]]:
    marks = {"measured": "m", "datasheet": "d", "derived": "x"}

    def cost(row: Configuration, arch: str) -> str:
        found = row.costs.get(arch)
        if found is None:
            return "-"
        text = f"{found.femtoseconds:.3g}{marks[found.basis]}"
        return text if arch in row.kernels else f"[{text}]"

    body = [(row.name, *(cost(row, arch) for arch in ARCHITECTURES)) for row in CONFIGURATIONS]
    return [("configuration", *ARCHITECTURES), *body]


def _units_in_order() -> list[tuple[tuple[str, str], UnitArithmetic]]:
    """Every unit by name, its architectures from old to new."""
    return sorted(UNITS.items(), key=lambda item: (item[0][0], ARCHITECTURES.index(item[0][1])))


def _unit_rows() -> list[tuple[str, ...]]:
    body = [
        (unit, arch, row.kind, str(row.group), str(row.fraction_bits), row.output, row.source)
        for (unit, arch), row in _units_in_order()
    ]
    return [("unit", "architecture", "kind", "L", "F", "output", "source"), *body]


def as_json() -> dict[str, Any]:
    """Every column of the table, and every unit, as JSON values."""
    return {
        "configurations": [_configuration_json(row) for row in CONFIGURATIONS],
        "units": [
            {
                "unit": unit,
                "architecture": arch,
                "kind": row.kind,
                "group": row.group,
                "fraction_bits": row.fraction_bits,
                "output": row.output,
                "source": row.source,
            }
            for (unit, arch), row in _units_in_order()
        ],
    }


def _configuration_json(row: Configuration) -> dict[str, Any]:
    models = [arch for arch in ARCHITECTURES if has_unit(row.unit, arch)]
    return {
        "name": row.name,
        "source_types": list(row.source_types),
        "precision": row.precision,
        "unit": row.unit,
        "terms": row.terms,
        "products": [list(pair) for pair in row.products],
        "accumulator": row.accumulator,
        "chain": row.chain,
        "section": row.section,
        "scaling": row.scaling,
        "moduli": row.moduli,
        "limbs": row.limbs,
        "grants": list(row.grants),
        "kernels": [arch for arch in ARCHITECTURES if arch in row.kernels],
        "costs": {
            arch: {"femtoseconds_per_operation": cost.femtoseconds, "basis": cost.basis}
            for arch, cost in row.costs.items()
        },
        "bounds": {
            arch: {
                "k": TABLE_K,
                "text": bounds.describe(row, arch, TABLE_K),
                "times_abs_a_abs_b": bounds.leading(row, arch, TABLE_K),
            }
            for arch in models
        },
    }
