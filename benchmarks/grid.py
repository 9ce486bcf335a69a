"""Which products, in which layouts, on which kinds of operands, are compared with the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.operands import Values
from mxgemm.configs import configurations_for
from mxgemm.errors import UnsupportedError
from mxgemm.report.cases import Case, Layout, Product
from mxgemm.report.kernels import EPILOGUES, SMALL, listed, products_of
from tests.generators import GENERATORS

LAYOUTS = (
    Layout(),
    Layout("column", "row"),
    Layout("row", "column", padding=8),
    Layout("column", "column", padding=8, transposed=True),
    Layout(padding=3, offset=1),
    Layout("column", "column", d="column", padding=1, offset=1, transposed=True),
    Layout("steps", "reversed", d="steps"),
)

SIZES = (
    (0, 37, 29), (37, 0, 29), (37, 29, 0), (1, 1, 1), (1, 40, 33), (40, 1, 33), (7, 7, 7), (16, 16, 16),
    (100, 37, 129), (255, 255, 255), (257, 257, 257), (1000, 24, 40), (24, 1000, 40), (24, 40, 1000),
    (4097, 24, 40), (24, 4097, 40), (24, 40, 4097),
)  # fmt: skip

BATCHES = ((3,), (3, 2))
# Of the covering set, whose products are long: kinds that leave sums finite, so that bits can differ.
STEADY = ("normal", "wide", "uniform", "cancel", "bits", "zeros")
GROUPS = ("cover", "sizes", "epilogues", "batches", "layer")


@dataclass(frozen=True)
class Run:
    """One case on one kind of operands."""

    group: str
    values: Values
    layout: Layout

    @property
    def case(self) -> Case:
        return Case(self.values.product, self.layout)


def _cover(arch: str) -> Iterator[Run]:
    kinds: dict[Product, str] = {}
    turn = itertools.cycle(STEADY)
    for one in listed(arch):
        p = one.case.product
        kind = kinds.setdefault(p, next(turn))
        yield Run("cover", Values(p, kind), one.case.layout)


def _sizes(arch: str) -> Iterator[Run]:
    turn = itertools.cycle(GENERATORS)
    for plain in products_of(arch):
        part = plain.configuration.part or 8192
        parts = ((20, 24, part + 100), (24, 20, 3 * part + 5))
        for m, n, k in (*SIZES, *parts):
            values = Values(replace(plain, m=m, n=n, k=k), next(turn))
            yield from (Run("sizes", values, layout) for layout in LAYOUTS)
        next(turn)  # so that another configuration meets a size with another kind


def _epilogues_of(plain: Product) -> Iterator[Product]:
    integer = plain.configuration.is_integer
    alpha, beta = (3, -2) if integer else (1.2, -0.7)
    c = {"c_dtype": plain.result_dtype}
    yield replace(plain, alpha=alpha, beta=beta, **c)
    yield replace(plain, alpha=0, beta=beta, **c)
    yield replace(plain, alpha=alpha, beta=0, **c)
    yield replace(plain, k=0, beta=beta, **c)
    for name in ("relu+bias", "clamp+bias") if integer else EPILOGUES:
        yield replace(plain, **EPILOGUES[name])  # type: ignore[arg-type]  # fields of Product by name


def _epilogues(arch: str) -> Iterator[Run]:
    layouts = itertools.cycle((Layout(), Layout(padding=1, offset=1)))
    for plain in products_of(arch):
        for p, kind in itertools.product(_epilogues_of(plain), GENERATORS):
            # What C does is one code for all activations, and those are the same for every layout.
            yield Run("epilogues", Values(p, kind), next(layouts) if p.c_dtype else Layout())


def _batches(arch: str) -> Iterator[Run]:
    turn = itertools.cycle(GENERATORS)
    for plain in products_of(arch):
        for batch in BATCHES:
            values = Values(replace(plain, m=33, n=20, k=17, batch=batch), next(turn))
            for layout in (Layout(), Layout(padding=8), Layout("column", "column", d="column", padding=3)):
                yield Run("batches", values, layout)


def _layer(arch: str) -> Iterator[Run]:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for row in configurations_for(dtype, dtype):
            if arch not in row.kernels:
                continue
            # A float64 chain on the CPU costs six times as much.
            tokens = 256 if row.accumulator == "float32" else 40
            one = Product(dtype, dtype, row.precision, tokens, 1536, 384, activation="gelu", bias="columns")
            yield Run("layer", Values(one, "layer in"), Layout())
            two = Product(dtype, dtype, row.precision, tokens, 384, 1536)
            yield Run("layer", Values(two, "layer out"), Layout("row", "column"))
            attention = Product(dtype, dtype, row.precision, tokens, 32, 256, batch=(2,))
            yield Run("layer", Values(attention, "layer attention"), Layout())


def _has_kernel(run: Run, arch: str) -> bool:
    try:
        run.case.lowering(arch)
    except UnsupportedError:
        return False
    return True


def planned(arch: str, groups: tuple[str, ...] = GROUPS) -> list[Run]:
    """Every run that has a kernel, those on the same operands behind each other."""
    makers = {
        "cover": _cover, "sizes": _sizes, "epilogues": _epilogues, "batches": _batches, "layer": _layer,
    }  # fmt: skip
    made = dict.fromkeys(run for group in groups for run in makers[group](arch))  # kernels share cases
    runs = [run for run in made if _has_kernel(run, arch)]
    order: dict[Values, list[Run]] = {}
    for run in runs:
        order.setdefault(run.values, []).append(run)
    return [run for same in order.values() for run in same]


__all__ = ["GROUPS", "LAYOUTS", "SIZES", "SMALL", "Run", "planned"]
