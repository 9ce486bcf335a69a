"""The mma.sync and scalar kernels on a GPU give the CPU model's bits and flags, and write nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mxgemm import device
from mxgemm.report.cases import Case, Layout, Product
from tests.generators import GENERATORS
from tests.kernels.gpu_trials import Trial
from tests.kernels.offered import ORDERS, SCALARS, UNITS

pytestmark = pytest.mark.gpu

EDGES = (63, 64, 65, 127, 129, 191)


@pytest.fixture(scope="module")
def arch() -> str:
    """The device's architecture, where every unit has a confirmed model."""
    found = device.capabilities(0).arch
    if found != "sm_90":
        pytest.skip(f"the models of {found}'s units are not all confirmed")
    return found


def check(trial: Trial, arch: str) -> None:
    found = trial.tile(arch)
    assert trial.faults(*trial.run(found), trial.predicted(arch)) == [], str(found.instance)


def layouts(base: Product) -> Iterator[Trial]:
    """Sizes, orders, alignments and leading dimensions."""
    for a, b in itertools.product(ORDERS, ORDERS):
        yield Trial(Case(replace(base, m=64, n=64, k=64), Layout(a, b)))
        yield Trial(Case(replace(base, m=100, n=129, k=37), Layout(a, b)))
        yield Trial(Case(replace(base, m=130, n=72, k=96), Layout(a, b, offset=1)))
        yield Trial(Case(replace(base, m=72, n=136, k=80), Layout(a, b, padding=4)))
    for d in ("column", "steps", "reversed"):
        yield Trial(Case(replace(base, m=65, n=33, k=17), Layout(d=d)))
    yield Trial(Case(replace(base, m=40, n=50, k=60), Layout("steps", "reversed", padding=3)))
    yield Trial(Case(replace(base, m=33, n=20, k=17, batch=(3, 2)), Layout(padding=1)))


def small(base: Product) -> Iterator[Trial]:
    """Extents of 0 and 1; with k = 0 and without alpha, D is beta·C."""
    for m, n, k in ((1, 40, 33), (40, 1, 33), (1, 1, 1), (7, 5, 1)):
        yield Trial(Case(replace(base, m=m, n=n, k=k, bias="columns")))
    added = replace(base, c_dtype=base.result_dtype, beta=2)
    yield Trial(Case(replace(added, m=7, n=5, k=0)))
    yield Trial(Case(replace(added, m=65, n=64, k=40, alpha=0)))
    yield Trial(Case(replace(base, m=9, n=9, k=9, alpha=0)))


def epilogues(base: Product) -> Iterator[Trial]:
    """Scalars, C, biases, activations, scales."""
    integer = "int" in base.dtype_a
    alpha: float = 3 if integer else 1.2
    added = replace(base, m=129, n=140, k=40, alpha=alpha, beta=2, c_dtype=base.result_dtype)
    yield Trial(Case(added))
    yield Trial(Case(added, Layout(d="column")))
    yield Trial(Case(replace(added, beta=0)), unread_c=True)
    yield Trial(Case(replace(base, m=70, n=68, k=50, activation="relu", bias="columns")))
    yield Trial(Case(replace(base, m=70, n=67, k=50, activation="clamp", bias="rows"), Layout(d="column")))
    if not integer:
        scaled = replace(base, m=70, n=68, k=50, scale_rows=True, alpha=0.7)
        yield Trial(Case(replace(scaled, scale_cols=True, bias="entries")))
        yield Trial(Case(scaled, Layout(d="column")))
        for activation in ("gelu", "gelu-tanh", "silu"):
            yield Trial(Case(replace(base, m=64, n=68, k=33, activation=activation)), "normal")


def depths(base: Product) -> Iterator[Trial]:
    """K about the stages' depths and past a chain, and results of several tiles."""
    for k in EDGES:
        layout = Layout(ORDERS[k % 2], ORDERS[k % 3 == 0], offset=1)
        yield Trial(Case(replace(base, m=67, n=131, k=k), layout))
    yield Trial(Case(replace(base, m=20, n=24, k=8292)), "normal")
    yield Trial(Case(replace(base, m=70, n=24, k=24581), Layout(b="column")), "uniform")
    for layout in (Layout(), Layout("column", "column", offset=1), Layout(padding=1)):
        yield Trial(Case(replace(base, m=259, n=517, k=389), layout))
        yield Trial(Case(replace(base, m=390, n=518, k=262), layout))


def of_kinds(base: Product) -> Iterator[Trial]:
    """Every generator."""
    for name in GENERATORS:
        yield Trial(Case(replace(base, m=64, n=72, k=64)), name)


def trials() -> Iterator[Trial]:
    for a, b, precision in (*UNITS, *SCALARS):
        base = Product(a, b, precision, 1, 1, 1, out_dtype="float32" if "float8" in a else None)
        for made in (layouts, small, epilogues, of_kinds):
            yield from made(base)
        if precision != "scalar" or a == "float32":
            yield from depths(base)


@pytest.mark.parametrize("trial", list(trials()), ids=str)
def test_the_bits_of_the_cpu_run(trial: Trial, arch: str) -> None:
    check(trial, arch)


STRIDES = {
    "rows upwards": (-150, 1), "columns leftwards": (1, -150), "rows that overlap": (1, 1),
    "one row for all": (0, 1), "one column for all": (1, 0),
}  # fmt: skip
SOME = [row for row in (*UNITS, *SCALARS[:1]) if row[0] == row[1]]


@pytest.mark.parametrize("kind", STRIDES)
@pytest.mark.parametrize("row", SOME, ids="/".join)
@pytest.mark.parametrize("odd", [0, 1])
def test_strides_that_go_back_or_overlap(kind: str, row: tuple[str, str, str], odd: int, arch: str) -> None:
    product = Product(*row, 136 - odd, 72 - odd, 144 - odd)
    check(Trial(Case(product), strides={"a": STRIDES[kind], "b": STRIDES[kind]}), arch)


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "bias"])
@pytest.mark.parametrize("offset", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "precision"),
    [
        ("float16", "native"),
        ("int8", "exact"),
        ("float32", "tf32"),
        ("float64", "native"),
        ("float16", "scalar"),
    ],
)
def test_each_pointer_off_a_16_byte_boundary(
    name: str, offset: int, dtype: str, precision: str, arch: str
) -> None:
    product = Product(dtype, dtype, precision, 72, 80, 96, beta=2, bias="columns")
    product = replace(product, c_dtype=product.result_dtype)
    check(Trial(Case(product), offsets={name: offset}), arch)


@pytest.mark.parametrize("result", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_results_saturate_and_say_so(result: str, arch: str) -> None:
    product = Product(result, result, "scalar", 40, 36, 50, out_dtype=result, alpha=1e5)
    trial = Trial(Case(product), "normal")
    assert trial.predicted(arch).flags == ("fp8-overflow",)
    check(trial, arch)


@pytest.mark.parametrize("result", ["int8", "int64"])
def test_integer_results_wrap(result: str, arch: str) -> None:
    check(Trial(Case(Product("int8", "int8", "exact", 40, 36, 196_608 // 64, out_dtype=result))), arch)


@pytest.mark.parametrize("precision", ["tf32", "f16", "bf16"])
def test_an_operand_that_overflows_is_told(precision: str, arch: str) -> None:
    trial = Trial(Case(Product("float32", "float32", precision, 140, 150, 60)), "normal")
    trial.arrays["b"].view[59, 149] = np.finfo(np.float32).max
    assert trial.predicted(arch).flags == ("operand-overflow",)
    check(trial, arch)


def words_about_the_edges(shape: tuple[int, ...], seed: int) -> Any:
    """float32: mostly numbers near 1, a few about every edge of rounding to tf32, NaN payloads among them."""
    rng = np.random.default_rng(seed)
    edges = [
        0, 0x1000, 0x3000, 0x800000, 0x3F801000, 0x3F803000, 0x7F7FF000, 0x7F800000, 0x7F801000, 0x7FC00000,
        0x7FFFF000,
    ]  # fmt: skip
    near = (np.array(edges)[:, None] + np.arange(-3, 4)).ravel() % 2**31
    near = np.concatenate([near, [0x7FFFFFFF], near | 2**31, [0xFFFFFFFF]])
    ordinary = rng.integers(0x3F000000, 0x40000000, shape)
    words = np.where(rng.random(shape) < 0.98, ordinary, rng.choice(near, shape))
    return words.astype(np.uint32).view(np.float32)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(ORDERS, ORDERS)))
def test_tf32_rounding_about_every_edge(a: Any, b: Any, arch: str) -> None:
    trial = Trial(Case(Product("float32", "float32", "tf32", 256, 256, 40), Layout(a, b)))
    trial.arrays["a"].view[...] = words_about_the_edges((256, 40), 1)
    trial.arrays["b"].view[...] = words_about_the_edges((40, 256), 2)
    expected = trial.predicted(arch)
    for found in trial.tiles(arch):
        assert trial.faults(*trial.run(found), expected) == [], str(found.instance)
