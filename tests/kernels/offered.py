"""Every tile that the mma.sync and scalar families offer for a case, and a set of cases that covers both."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import pytest

from mxgemm import kernels
from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels import KernelInstance, Lowering, lowering
from mxgemm.problem import GemmProblem
from mxgemm.report.cases import Case, Layout, Order, Product

UNITS = (
    ("float16", "float16", "native"), ("bfloat16", "bfloat16", "native"), ("float32", "float32", "tf32"),
    ("float32", "float32", "f16"), ("float32", "float32", "bf16"), ("float64", "float64", "native"),
    ("float32", "float32", "f64"), ("int8", "int8", "exact"), ("uint8", "int8", "exact"),
    ("int8", "uint8", "exact"), ("uint8", "uint8", "exact"),
)  # fmt: skip
SCALARS = tuple(
    (dtype, dtype, "scalar")
    for dtype in (
        "float32", "float64", "float16", "bfloat16", "int8", "uint16", "int32", "int64", "uint64",
        "float8_e4m3fn", "float8_e5m2",
    )
)  # fmt: skip
ORDERS: tuple[Order, Order] = ("row", "column")
ON_THE_ROAD = ("mma.sync", "scalar")


def tiles_for(
    problem: GemmProblem, configuration: Configuration, arch: str, alignment: Mapping[str, int]
) -> list[Lowering]:
    """The lowering of a problem with each instance on offer."""
    families = tuple(family for family in kernels.KERNELS if family.name in ON_THE_ROAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "KERNELS", families)
        found = kernels.candidates(problem, configuration, arch, alignment=alignment)
    return [one.lowering for one in found]


def every_tile(case: Case, arch: str) -> list[Lowering]:
    """As :func:`tiles_for`, of a case."""
    return tiles_for(case.problem, case.product.configuration, arch, case.alignment)


def covering_cases() -> Iterator[Case]:
    """Every type, layout, alignment, activation, batch and chain that changes a kernel's code."""
    for (a, b, precision), la, lb in itertools.product((*UNITS, *SCALARS), ORDERS, ORDERS):
        plain = Product(a, b, precision, 256, 256, 256)
        for padding, offset in ((0, 0), (4, 0), (2, 0), (1, 1)):
            yield Case(plain, Layout(la, lb, padding=padding, offset=offset))
        if a in ("float16", "bfloat16", "float32") and precision != "scalar":
            yield Case(replace(plain, k=8200), Layout(la, lb))
    for (a, b, precision), number in zip((*UNITS, *SCALARS), itertools.count()):
        plain = Product(a, b, precision, 256, 256, 256)
        scales = "int" not in a
        full = replace(plain, batch=(3, 2), bias="columns", scale_rows=scales, scale_cols=scales, beta=2)
        yield Case(replace(full, activation="clamp", c_dtype=plain.result_dtype))
        if scales:
            yield Case(replace(full, activation=("gelu", "gelu-tanh", "silu")[number % 3]))


def features(instance: KernelInstance) -> frozenset[object]:
    """What makes an instance's code another one."""
    kind = (instance.lowering, instance.a.dtype, instance.b.dtype, instance.accumulator, instance.variant)
    e = instance.epilogue
    return frozenset({
        kind, (*kind[:3], instance.a.layout, instance.b.layout),
        (*kind[:3], instance.a.alignment, instance.b.alignment, instance.accumulator),
        (e.activation, instance.accumulator), (e.d, e.vector), instance.batch_axes,
    })  # fmt: skip


def covering_set(arch: str, count: int) -> list[KernelInstance]:
    """At most ``count`` instances; each adds as many features as any could, until none is left."""
    offered: dict[KernelInstance, None] = {}
    for case in covering_cases():
        with suppress(UnsupportedError):  # no such unit
            offered |= dict.fromkeys(found.instance for found in every_tile(case, arch))
    left = {instance: features(instance) for instance in offered}
    chosen: list[KernelInstance] = []
    seen: set[object] = set()
    while len(chosen) < count:
        best = max(left, key=lambda instance: len(left[instance] - seen))
        if left[best] <= seen:
            break
        chosen.append(best)
        seen |= left.pop(best)
    return chosen
