"""The products that are timed, fixed once and listed; all of them are cases of the covering set.

``benchmarks.performance`` times them.  They are here, and not there, so that the listing of kernels holds
every kernel of which a speed is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from mxgemm.configs import configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels.names import SIZES
from mxgemm.report.cases import Case, Layout, Order, Product

__all__ = [
    "FEW_ROWS",
    "FURTHER",
    "KINDS",
    "LARGE_COPY",
    "QUICK",
    "SQUARE",
    "SUSTAINED",
    "TABLE",
    "Kind",
    "Shape",
    "case_of",
    "epilogues",
    "further",
    "kinds",
    "shortened",
    "table",
    "timed_cases",
    "transposed",
]

Shape = tuple[int, int, int]

TABLE: tuple[Shape, ...] = (
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192),
    (16384, 16384, 8192), (4097, 4097, 4097), (1, 4096, 4096), (16, 8192, 8192), (64, 28672, 8192),
    (4096, 4096, 64), (256, 256, 65536), (8192, 28672, 4096), (2112, 7168, 4096),
)  # fmt: skip
"""M, N, K of what every kind is timed on."""

SUSTAINED: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 8192))
SQUARE: Shape = (4096, 4096, 4096)
FEW_ROWS = 64
"""Rows up to which a product is held against a copy of as many bytes as it must move, and the fastest."""
LARGE_COPY = 1_000_000_000
"""Bytes of one more copy, read and written together."""
QUICK: tuple[Shape, ...] = ((512, 512, 512), (4096, 4096, 4096), (8192, 8192, 8192), (4097, 4097, 4097))

FURTHER: tuple[Shape, ...] = (
    (128, 4096, 11008), (3072, 768, 2304), (5120, 5120, 640), (777, 3001, 2048), (640, 10240, 1280),
    (8192, 1024, 1024), (1536, 1536, 6144), (2000, 3000, 1000), (96, 16384, 4096), (12288, 512, 3072),
    (6144, 6144, 6144), (300, 7000, 900), (4096, 14336, 4096), (1111, 2222, 3333), (32, 11008, 4096),
    (2560, 9728, 2560), (768, 50304, 768), (2049, 2048, 2048), (10000, 1000, 500), (448, 448, 16384),
    (3584, 18944, 3584), (1280, 1280, 1280), (24576, 256, 2048), (5000, 5000, 5000), (896, 4864, 896),
    (8, 14336, 4096), (1920, 1080, 720), (7168, 2112, 7168), (16000, 4000, 250), (3333, 3333, 3334),
    (512, 129280, 1024), (2304, 2304, 9216), (11008, 128, 4096), (4480, 6400, 1600), (6000, 10000, 2000),
    (1024, 1024, 32768), (20480, 2048, 512), (250, 12345, 678), (9216, 3072, 3072), (4104, 4104, 4104),
)  # fmt: skip
"""Drawn once: log-uniform in each axis, a third of them with odd extents; 10^8 to 10^12 products."""


@dataclass(frozen=True)
class Kind:
    """One way to multiply.

    Attributes
    ----------
    name, dtype, precision : str
    b : str
        Layout of B.
    sustained_everywhere : bool
        Whether every shape of the table is timed on a busy device too.
    largest : float
        Products of two numbers of the largest shape that is worth its time.
    """

    name: str
    dtype: str
    precision: str
    b: Order = "row"
    sustained_everywhere: bool = False
    largest: float = 3e12


KINDS = (
    Kind("f16", "float16", "native", sustained_everywhere=True),
    Kind("bf16", "bfloat16", "native", sustained_everywhere=True),
    Kind("tf32", "float32", "tf32"),
    Kind("f64", "float64", "native", largest=6e11),
    Kind("int8", "int8", "exact", "column"),
    Kind("fp8", "float8_e4m3fn", "native", "column"),
    Kind("f32 scalar", "float32", "scalar", largest=6e11),
)
"""int8 and fp8 multiply by a column-major B, the only form that the vendor's library takes."""

_LINE_BYTES, _LINES = 128, 6  # of a row along K: one stage of the largest kernels, and the fewest of them


def case_of(kind: Kind, shape: Shape, a: Order = "row", b: Order | None = None) -> Case:
    """A shape in one kind, with B as the kind has it unless told otherwise."""
    return Case(Product(kind.dtype, kind.dtype, kind.precision, *shape), Layout(a, b or kind.b))


def kinds(arch: str) -> list[Kind]:
    """Those with a kernel on ``arch``."""
    return [k for k in KINDS if arch in configuration(k.dtype, k.dtype, k.precision).kernels]


def table(arch: str, shapes: tuple[Shape, ...] = TABLE) -> Iterator[tuple[Kind, Case]]:
    """Every kind on every shape."""
    for kind, shape in product(kinds(arch), shapes):
        case = case_of(kind, shape)
        if case.product.work <= kind.largest:
            yield kind, case


def transposed(arch: str) -> Iterator[tuple[Kind, Case]]:
    """4096³ in all four layouts of the operands."""
    orders: tuple[Order, ...] = ("row", "column")
    for kind, a, b in product(kinds(arch), orders, orders):
        if kind.name != "f32 scalar":
            yield kind, case_of(kind, SQUARE, a, b)


def further(arch: str, count: int = len(FURTHER)) -> Iterator[tuple[Kind, Case]]:
    """Every other one in float16, the rest in bfloat16 and tf32 in turn; layouts in turn."""
    known = {kind.name: kind for kind in kinds(arch)}
    orders: tuple[Order, ...] = ("row", "column")
    for i, shape in enumerate(FURTHER[:count]):
        kind = known.get("f16" if i % 2 == 0 else "bf16" if i % 4 == 1 else "tf32")
        if kind is not None:
            yield kind, case_of(kind, shape, orders[i // 2 % 2], orders[i // 4 % 2])


def epilogues(arch: str) -> Iterator[tuple[str, Case]]:
    """float16 at 4096³ with what comes after the product; "plain" first."""
    for kind in kinds(arch):
        if kind.name == "f16":
            yield from _epilogues(case_of(kind, SQUARE))


def _epilogues(plain: Case) -> Iterator[tuple[str, Case]]:
    c = {"c_dtype": "float16", "alpha": 1.25, "beta": 0.75}
    variants: dict[str, dict[str, object]] = {
        "plain": {}, "alpha": {"alpha": 1.25}, "alpha, beta C": c, "bias": {"bias": "columns"},
        "relu": {"activation": "relu"}, "all": {**c, "bias": "columns", "activation": "relu"},
        "gelu": {"bias": "columns", "activation": "gelu"},
    }  # fmt: skip
    for name, fields in variants.items():
        yield name, replace(plain, product=replace(plain.product, **fields))  # type: ignore[arg-type]  # by name


def timed_cases(arch: str) -> tuple[Case, ...]:
    """Every product that is timed on ``arch``, once each, smallest D first."""
    parts = (case for part in (table, transposed, further) for _, case in part(arch))
    found = dict.fromkeys([*parts, *(case for _, case in epilogues(arch))])
    return tuple(sorted(found, key=lambda case: (case.product.m * case.product.n, case.product.k)))


def shortened(case: Case, arch: str) -> Case:
    """The case with about as few products along K as make the same kernels run; itself where none do.

    D is as large, rows start in lines of memory where they did, and K is six stages, or as long as it was.
    """
    try:
        kernels = case.lowering(arch).kernels
    except UnsupportedError:
        return case
    line, k = _LINE_BYTES // SIZES[case.product.dtype_a], case.product.k
    lines = _LINES
    while (depth := k % line + lines * line) < k:
        shorter = replace(case, product=replace(case.product, k=depth))
        if shorter.lowering(arch).kernels == kernels:
            return shorter
        lines *= 2
    return case
