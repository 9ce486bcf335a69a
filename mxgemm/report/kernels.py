"""Which kernels there are: those that selection returns for a canonical covering set of cases.

The set is defined here and nowhere else.  It has every configuration with a kernel, in every mix of its
element types, and for each of them: both layouts of both operands, aligned and not, on a ladder of shapes
that brings out small and large tiles; on one small shape every other property that a kernel's code depends
on; few entries of several parts along K; for each tile on offer a D of one whole wave of it; and every
product that is timed, made shorter along K where that leaves its kernels as they are.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from mxgemm.configs import CONFIGURATIONS, Configuration, configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels import KernelInstance, PackInstance, candidates
from mxgemm.kernels.names import SIZES
from mxgemm.problem import default_out_dtype, out_dtypes
from mxgemm.report.cases import MULTIPROCESSORS, Case, Layout, Product
from mxgemm.report.timed import shortened, timed_cases

__all__ = [
    "EPILOGUES",
    "ListedKernel",
    "covering_cases",
    "listed",
    "products_of",
    "source_sha256",
    "without_kernel",
]

LADDER = (
    (64, 72), (256, 256), (512, 512), (1024, 1024), (1280, 1280), (2048, 2048), (2112, 7168), (30720, 128),
    (128, 30720),
)  # fmt: skip
"""Rows and columns of D, from one small tile to several waves of each tile of an H200."""

SMALL = LADDER[0]

Block = tuple[tuple[int, int], int]

# Products along K: three stages or more of every tile, and rows of whole 16-byte pieces.
_DEPTH = {1: 400, 2: 200, 4: 100, 8: 100}
_SCALAR_DEPTH = 48
_PARTS = (3, 8)  # beyond two, of what the total adds
_MORE_ENTRIES = ((256, 72, 7), (640, 72, 7))  # rows, columns and parts for wider tiles of a cluster
_LONG = (3000, 40000)  # products along K of integers, which may be cut anywhere

_WAVE_DEPTH = 768
# Tiles below and beside each other: MULTIPROCESSORS, or a few less.
_WAVES = ((12, 11), (11, 12), (6, 22), (22, 6), (7, 18), (18, 7), (4, 33), (33, 4), (132, 1), (1, 132))

EPILOGUES: dict[str, dict[str, object]] = {
    "relu+bias": {"activation": "relu", "bias": "columns"},
    "clamp+bias": {"activation": "clamp", "bias": "rows"},
    "gelu": {"activation": "gelu"},
    "gelu-tanh": {"activation": "gelu-tanh"},
    "silu": {"activation": "silu", "bias": "entries"},
    "scales": {"scale_rows": True, "scale_cols": True, "alpha": 0.75},
    "scaled rows": {"scale_rows": True, "bias": "columns"},
}
"""Epilogues of the covering set, as fields of a Product; integers take the first two."""

_INTEGER_EPILOGUES = ("relu+bias", "clamp+bias")


def products_of(arch: str) -> Iterator[Product]:
    """One small plain product for each configuration with a kernel on ``arch`` and each mix of its types."""
    for row in CONFIGURATIONS:
        if arch not in row.kernels:
            continue
        # A unit has an instruction for each order of a mix; the scalar kernels are the same but for names.
        mixes = (
            itertools.combinations_with_replacement(row.source_types, 2)
            if row.is_scalar
            else itertools.product(row.source_types, repeat=2)
        )
        for dtype_a, dtype_b in mixes:
            depth = _SCALAR_DEPTH if row.is_scalar else _DEPTH[SIZES[dtype_a]]
            yield Product(dtype_a, dtype_b, row.precision, *SMALL, depth)


def _layouts(plain: Product) -> Iterator[Layout]:
    for a, b in itertools.product(("row", "column"), repeat=2):
        yield Layout(a, b)  # type: ignore[arg-type]  # the words of Order
        yield Layout(a, b, padding=1, offset=1)  # type: ignore[arg-type]  # as above
    for size in (8, 4):
        padding = size // SIZES[plain.dtype_a]
        if padding and not plain.configuration.is_scalar:
            yield Layout(padding=padding, offset=padding)
            yield Layout("column", "column", padding=padding, offset=padding)


def _results(configuration: Configuration, plain: Product) -> Iterator[str]:
    """Result types other than the default."""
    default = default_out_dtype(plain.dtype_a)
    yield from (
        name
        for name in out_dtypes(plain.dtype_a, plain.dtype_b, configuration.accumulator)
        if name != default
    )


def _epilogues(plain: Product) -> Iterator[Product]:
    integer = plain.configuration.is_integer
    scalars = {"alpha": 3, "beta": -2} if integer else {"alpha": 1.25, "beta": -0.75}
    yield replace(plain, c_dtype=plain.result_dtype, **scalars)
    if plain.configuration.accumulator != plain.result_dtype:
        yield replace(plain, c_dtype=plain.configuration.accumulator, **scalars)
    for name in _INTEGER_EPILOGUES if integer else EPILOGUES:
        yield replace(plain, **EPILOGUES[name])  # type: ignore[arg-type]  # fields of Product by name


def _cases_of(plain: Product) -> Iterator[Case]:
    row = plain.configuration
    for (m, n), layout in itertools.product(LADDER, _layouts(plain)):
        yield Case(replace(plain, m=m, n=n), layout)
    for product in _epilogues(plain):
        yield Case(product)
        if product.c_dtype:
            yield Case(product, Layout(padding=1, offset=1))
    for name in _results(row, plain):
        yield Case(replace(plain, out_dtype=name))
    for batch in ((3,), (2, 3)):
        yield Case(replace(plain, batch=batch), Layout(padding=8))
        yield Case(replace(plain, batch=batch), Layout("steps", "reversed", padding=8))
    yield Case(plain, Layout("steps", "reversed"))
    yield Case(plain, Layout(d="column"))
    yield Case(plain, Layout(d="steps"))
    if row.part:
        for (m, n), layout in itertools.product(LADDER[:5], (Layout(), Layout(padding=1, offset=1))):
            yield Case(replace(plain, m=m, n=n, k=row.part + plain.k), layout)
        for parts in _PARTS:
            yield Case(replace(plain, k=(parts - 1) * row.part + plain.k))
        if plain.dtype_a == "float16":
            for m, n, parts in _MORE_ENTRIES:
                yield Case(replace(plain, m=m, n=n, k=(parts - 1) * row.part + plain.k))
        with_terms = {**EPILOGUES["relu+bias"], "c_dtype": plain.result_dtype, "alpha": 1.25, "beta": -0.75}
        yield Case(replace(plain, k=2 * row.part + plain.k, **with_terms))  # type: ignore[arg-type]  # as above
    elif row.is_integer and not row.is_scalar:
        yield from (Case(replace(plain, k=k)) for k in _LONG)


def _whole_waves(arch: str) -> Iterator[Case]:
    """For each tile on offer a D of one tile for each multiprocessor that is computed by it.

    Which of a few types and layouts offer the tile, and of which shape such a D must be, is tried out here.
    """
    reached: set[Block] = set()
    for case in _roomy(arch):
        found = candidates(case.problem, case.product.configuration, arch, multiprocessors=MULTIPROCESSORS)
        offered = dict.fromkeys(_block(one.lowering.instance) for one in found)
        for block, (down, across) in itertools.product(offered, _WAVES):
            (rows, columns), _ = block
            one = replace(case, product=replace(case.product, m=down * rows, n=across * columns))
            if block not in reached and _block(one.lowering(arch).instance) == block:
                reached.add(block)
                yield one


def _block(kernel: KernelInstance) -> Block:
    """The tile of a kernel's block, and blocks of a cluster."""
    return kernel.tile_shape, getattr(getattr(kernel, "tile", None), "cluster", 1)


def _roomy(arch: str) -> Iterator[Case]:
    """Large products of one chain, of several, and of the shortest chains."""
    chain = configuration("float16", "float16", "native").chain or 0
    for dtype, layout, k in (
        ("float16", Layout(b="column"), _WAVE_DEPTH), ("float16", Layout(), _WAVE_DEPTH),
        ("float8_e4m3fn", Layout(b="column"), _WAVE_DEPTH),
        ("float16", Layout(b="column"), chain + _WAVE_DEPTH),
    ):  # fmt: skip
        if arch in configuration(dtype, dtype, "native").kernels:
            yield Case(Product(dtype, dtype, "native", 4096, 4096, k), layout)


def covering_cases(arch: str) -> Iterator[Case]:
    """The canonical covering set for an architecture of the configuration table.

    Smallest D first for each configuration, then among the timed products: a kernel is listed with the first
    case that runs it, and compared there.
    """
    for plain in products_of(arch):
        yield from _cases_of(plain)
    yield from _whole_waves(arch)
    yield from (shortened(case, arch) for case in timed_cases(arch))


def source_sha256(kernel: KernelInstance | PackInstance) -> str:
    """SHA-256 of a kernel's whole generated source."""
    return hashlib.sha256(kernel.source().encode()).hexdigest()


@dataclass(frozen=True)
class ListedKernel:
    """One kernel of the listing.

    Attributes
    ----------
    kernel : KernelInstance or PackInstance
    case : Case
        The first case of the covering set that runs it.
    configurations : tuple of str
        Names of the configurations whose cases run it.
    """

    kernel: KernelInstance | PackInstance
    case: Case
    configurations: tuple[str, ...]

    @property
    def entry(self) -> str:
        """Name of the ``extern "C"`` function; it tells instances apart."""
        return self.kernel.entry

    @cached_property
    def sha256(self) -> str:
        """Of the source generated today."""
        return source_sha256(self.kernel)


@lru_cache(maxsize=4)
def _scan(arch: str) -> tuple[tuple[ListedKernel, ...], tuple[Case, ...]]:
    """Every kernel of the covering set, and the cases that no family computes."""
    first: dict[KernelInstance | PackInstance, Case] = {}
    names: dict[KernelInstance | PackInstance, dict[str, None]] = {}
    without: list[Case] = []
    for case in covering_cases(arch):
        try:
            kernels = case.lowering(arch).kernels
        except UnsupportedError:
            without.append(case)
            continue
        for kernel in kernels:
            first.setdefault(kernel, case)
            names.setdefault(kernel, {})[case.product.configuration.name] = None
    found = (ListedKernel(kernel, case, tuple(names[kernel])) for kernel, case in first.items())
    return tuple(found), tuple(without)


def listed(arch: str = "sm_90") -> tuple[ListedKernel, ...]:
    """Every kernel that the covering set runs on ``arch``, in the order of the set."""
    return _scan(arch)[0]


def without_kernel(arch: str = "sm_90") -> tuple[Case, ...]:
    """The cases of the covering set that are refused on ``arch`` because no kernel family computes them."""
    return _scan(arch)[1]
