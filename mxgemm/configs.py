"""The configuration table: which arithmetic a matrix product may run in.

A *configuration* is everything that decides the bits of a product: the operand
format that the unit is fed, the split and the ordered list of its products, the
accumulator, the lengths of chains and sections along K, and (through :data:`UNITS`)
how the unit of one architecture adds a group of products.  Tiles, kernels and batches are not here
because they change nothing.  Every other module reads this table; a new precision
is a row here, its bound in :mod:`mxgemm.bounds`, and at most one kernel file.

Sources: docs/units.md (arithmetic), docs/error-bounds.md (bounds),
docs/configurations.md (chains and costs).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from mxgemm.costs import ARCHITECTURES, Cost, costs
from mxgemm.errors import DTypeError, UnsupportedError, one_of

__all__ = [
    "ARCHITECTURES",
    "CONFIGURATIONS",
    "ELEMENT_TYPES",
    "UNITS",
    "Configuration",
    "UnitArithmetic",
    "configuration",
    "configurations_for",
    "has_unit",
    "precisions_for",
    "rounding_precisions",
    "unit_arithmetic",
]

Output = Literal["f32-rz", "f32-rz-13", "f16-rne", "f64-rne", "s32"]

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
FLOATS = ("float16", "bfloat16", "float32", "float64")
ELEMENT_TYPES = (*SIGNED, *UNSIGNED, *FLOAT8, *FLOATS)


@dataclass(frozen=True, slots=True)
class UnitArithmetic:
    """How one matrix unit computes c + Σ a_k·b_k over a group of products.

    Attributes
    ----------
    unit : str
        Operand format: "f16", "bf16", "tf32", "f8" (e4m3 and e5m2, any mix), "f64",
        "s8" (8-bit integers of any signs); "f16.f16" and "e4m3.f16" accumulate in float16.
    kind : str
        "truncating" (align to the largest exponent and truncate), "fma-chain" (one IEEE
        fused multiply-add after the other) or "exact" (modulo 2^32).
    group : int
        L, the number of products added at once.
    fraction_bits : int
        F: every term is truncated to a multiple of 2^(largest exponent − F).
    output : str
        Conversion of the sum: "f32-rz", "f32-rz-13" (13 fraction bits), "f16-rne", "f64-rne", "s32".
    source : str
        Where the row comes from.
    """

    unit: str
    kind: Literal["truncating", "fma-chain", "exact"]
    group: int
    fraction_bits: int
    output: Output
    source: str


_CONFIRMED = "confirmed on an NVIDIA H200"
_PAPERS = "MMA-Sim (arXiv 2511.10909); Khattak & Mikaitis (arXiv 2512.07004)"


def _truncating(unit: str, group: int, bits: int, source: str, output: Output = "f32-rz") -> UnitArithmetic:
    return UnitArithmetic(unit, "truncating", group, bits, output, source)


def _units() -> dict[tuple[str, str], UnitArithmetic]:
    rows: dict[tuple[str, str], UnitArithmetic] = {
        ("f16", "sm_70"): _truncating("f16", 4, 23, _PAPERS),
        ("f16", "sm_75"): _truncating("f16", 8, 24, _PAPERS),
        ("f16", "sm_90"): _truncating("f16", 16, 25, _CONFIRMED),
        ("bf16", "sm_90"): _truncating("bf16", 16, 25, _CONFIRMED),
        ("tf32", "sm_90"): _truncating("tf32", 8, 25, _CONFIRMED),
        ("f8", "sm_90"): _truncating("f8", 32, 13, _CONFIRMED, "f32-rz-13"),
        ("f16.f16", "sm_90"): _truncating("f16.f16", 16, 25, _CONFIRMED, "f16-rne"),
        ("e4m3.f16", "sm_90"): _truncating("e4m3.f16", 32, 13, _CONFIRMED, "f16-rne"),
        ("f64", "sm_90"): UnitArithmetic("f64", "fma-chain", 1, 52, "f64-rne", _CONFIRMED),
    }
    for arch in ("sm_80", "sm_86", "sm_89"):
        rows["f16", arch] = _truncating("f16", 8, 24, _PAPERS)
        rows["bf16", arch] = _truncating("bf16", 8, 24, _PAPERS)
        rows["tf32", arch] = _truncating("tf32", 4, 24, _PAPERS)
    for arch in ARCHITECTURES[1:]:
        source = _CONFIRMED if arch == "sm_90" else "exact integer arithmetic (PTX ISA, mma)"
        rows["s8", arch] = UnitArithmetic("s8", "exact", 32, 0, "s32", source)
    return rows


UNITS: Mapping[tuple[str, str], UnitArithmetic] = _units()


def has_unit(unit: str | None, arch: str) -> bool:
    """Whether ``arch`` has a row for ``unit``; `scalar` (``unit=None``) runs everywhere."""
    return unit is None or (unit, arch) in UNITS


def unit_arithmetic(unit: str, arch: str) -> UnitArithmetic:
    """Return the row of :data:`UNITS` for ``unit`` on ``arch``.

    Raises
    ------
    UnsupportedError
        When the pair has no confirmed arithmetic, naming the architectures that have.
    """
    row = UNITS.get((unit, arch))
    if row is None:
        known = [a for a in ARCHITECTURES if (unit, a) in UNITS]
        raise UnsupportedError(
            f"the {unit} unit of {arch} has no confirmed arithmetic; "
            f"{unit} is supported on {one_of(known) if known else 'no architecture'}"
        )
    return row


@dataclass(frozen=True, slots=True)
class Configuration:
    """One row: the arithmetic that a product of given element types runs in.

    Attributes
    ----------
    source_types : tuple of str
        Element types of A and B; several names mean that any mix of them is one row.
    precision : str
        The public name, as in ``gemm(precision=…)``.
    unit : str or None
        Format fed to the matrix unit (a key of :data:`UNITS`); None for `scalar`.
    accumulator : str
        Element type of the sum, before the epilogue's output conversion.
    chain : int or None
        Products along K that one unit accumulator adds; None is all of K.
    section : int or None
        Products along K whose chains one float32 sum adds, before it is added to the total; None is all
        of K.  A whole number of chains.
    terms : int
        Terms that each operand is split into.
    products : tuple of (int, int)
        Which term of A meets which term of B, in order (1-based).
    scaling : str
        "rows-and-columns" when rows of A and columns of B are scaled by powers of two.
    relaxed_accumulation, operand_rounding : bool
        Which grants the row needs.
    moduli : int
        N of i8crtN, else 0.
    limbs : int
        Bytes of an integer cut into 8-bit limbs, else 0.
    costs : mapping of str to Cost
        Femtoseconds per floating-point operation (of 2·M·N·K), by architecture.
    kernels : frozenset of str
        Architectures whose GPU kernels can run the row.
    """

    source_types: tuple[str, ...]
    precision: str
    unit: str | None
    accumulator: str
    chain: int | None = None
    section: int | None = None
    terms: int = 1
    products: tuple[tuple[int, int], ...] = ((1, 1),)
    scaling: Literal["none", "rows-and-columns"] = "none"
    relaxed_accumulation: bool = False
    operand_rounding: bool = False
    moduli: int = 0
    limbs: int = 0
    kernels: frozenset[str] = frozenset()
    costs: Mapping[str, Cost] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """``float32/bf16x6`` and the like; 8-bit mixes read ``int8|uint8/exact``."""
        return f"{'|'.join(self.source_types)}/{self.precision}"

    @property
    def is_scalar(self) -> bool:
        """Whether the row uses no matrix unit."""
        return self.unit is None

    @property
    def is_integer(self) -> bool:
        """Whether the row computes exactly, modulo a power of two."""
        return "int" in self.accumulator

    @property
    def part(self) -> int | None:
        """Products along K whose sum is added to the total as it stands, and so may be computed apart.

        The section, or the chain where there are no sections; None where the sum is one chain, or exact.
        """
        return self.section or self.chain

    @property
    def rounds_to(self) -> str | None:
        """The narrower format that each operand is rounded to once, or None."""
        return self.unit if self.operand_rounding and self.terms == 1 and not self.moduli else None

    @property
    def has_range_terms(self) -> bool:
        """Whether the bound has row-maximum or range terms, so that it is no multiple of |A||B| alone."""
        return self.scaling != "none" or self.rounds_to == "f16"

    @property
    def grants(self) -> tuple[str, ...]:
        """Names of the grants that the row needs, as the policy spells them."""
        relaxed = ("relaxed-accumulation",) if self.relaxed_accumulation else ()
        rounding = (f"operand-rounding-{self.precision}",) if self.operand_rounding else ()
        return relaxed + rounding

    def cost(self, arch: str) -> float:
        """Femtoseconds per operation on ``arch``; infinity where the row has no cost there."""
        found = self.costs.get(arch)
        return found.femtoseconds if found else float("inf")


# The order of a split's products is part of its arithmetic: small terms first.
_X3 = ((2, 1), (1, 2), (1, 1))
_X6 = ((1, 3), (3, 1), (2, 2), (1, 2), (2, 1), (1, 1))
_X9 = ((3, 3), (2, 3), (3, 2), *_X6)

ONE_CHAIN = 8192
SPLIT_CHAIN = 64
FLOAT8_CHAIN = 128
FLOAT8_SECTION = 8192
MODULI_COUNTS = range(5, 21)

_FROM_AMPERE = frozenset({"sm_80", "sm_86", "sm_89", "sm_90"})
_HOPPER = frozenset({"sm_90"})
_INTEGER_UNITS = frozenset(a for u, a in UNITS if u == "s8")
_EVERYWHERE = frozenset(ARCHITECTURES)


def _scalar(source: tuple[str, ...], accumulator: str) -> Configuration:
    return Configuration(
        source, "scalar", None, accumulator, kernels=_EVERYWHERE, costs=costs(source[0], "scalar")
    )


def _float32_unit(precision: str, unit: str, **more: object) -> Configuration:
    fields: dict[str, object] = {
        "accumulator": "float32",
        "relaxed_accumulation": True,
        "operand_rounding": True,
        "costs": costs("float32", precision),
        **more,
    }
    return Configuration(("float32",), precision, unit, **fields)  # type: ignore[arg-type]  # checked by tests


def _crt(source: str) -> list[Configuration]:
    return [
        Configuration(
            (source,), f"i8crt{n}", "s8", source, scaling="rows-and-columns", relaxed_accumulation=True,
            operand_rounding=True, moduli=n, costs=costs(source, f"i8crt{n}"),
        )
        for n in MODULI_COUNTS
    ]  # fmt: skip


def _native(
    source: tuple[str, ...], unit: str, chain: int, kernels: frozenset[str], section: int | None = None
) -> Configuration:
    return Configuration(
        source, "native", unit, "float32", chain, section, relaxed_accumulation=True, kernels=kernels,
        costs=costs(source[0], "native"),
    )  # fmt: skip


def _integer_rows() -> list[Configuration]:
    eight = ("int8", "uint8")
    rows = [
        Configuration(eight, "exact", "s8", "int32", kernels=_INTEGER_UNITS, costs=costs("int8", "exact")),
        _scalar(eight, "int32"),
    ]
    for source in (*SIGNED[1:], *UNSIGNED[1:]):
        limbs = int(source.strip("uint")) // 8
        rows.append(
            Configuration((source,), "exact", "s8", source, limbs=limbs, costs=costs(source, "exact"))
        )
        rows.append(_scalar((source,), source))
    return rows


def _table() -> tuple[Configuration, ...]:
    return (
        *_integer_rows(),
        _native(("float16",), "f16", ONE_CHAIN, _FROM_AMPERE | {"sm_75"}),
        _scalar(("float16",), "float32"),
        _native(("bfloat16",), "bf16", ONE_CHAIN, _FROM_AMPERE),
        _scalar(("bfloat16",), "float32"),
        _native(FLOAT8, "f8", FLOAT8_CHAIN, _HOPPER, FLOAT8_SECTION),
        _scalar(FLOAT8, "float32"),
        Configuration(
            ("float64",), "native", "f64", "float64", kernels=_HOPPER, costs=costs("float64", "native")
        ),
        *_crt("float64"),
        _scalar(("float64",), "float64"),
        _float32_unit("f16", "f16", chain=ONE_CHAIN, kernels=_FROM_AMPERE),
        _float32_unit("bf16", "bf16", chain=ONE_CHAIN, kernels=_FROM_AMPERE),
        _float32_unit("tf32", "tf32", chain=ONE_CHAIN, kernels=_FROM_AMPERE),
        _float32_unit("f16x3", "f16", chain=SPLIT_CHAIN, terms=2, products=_X3, scaling="rows-and-columns"),
        _float32_unit("bf16x3", "bf16", chain=SPLIT_CHAIN, terms=2, products=_X3),
        _float32_unit("tf32x3", "tf32", chain=SPLIT_CHAIN, terms=2, products=_X3),
        _float32_unit("bf16x6", "bf16", chain=SPLIT_CHAIN, terms=3, products=_X6),
        _float32_unit("bf16x9", "bf16", chain=SPLIT_CHAIN, terms=3, products=_X9, operand_rounding=False),
        _float32_unit("f64", "f64", accumulator="float64", operand_rounding=False, kernels=_HOPPER),
        *_crt("float32"),
        _scalar(("float32",), "float32"),
    )


CONFIGURATIONS: tuple[Configuration, ...] = _table()


@lru_cache(maxsize=256)
def configurations_for(dtype_a: str, dtype_b: str) -> tuple[Configuration, ...]:
    """Every row for operands of these element types, in table order.

    Raises
    ------
    DTypeError
        For an unknown element type, or a mix outside 8-bit integers and outside fp8.
    """
    for name in (dtype_a, dtype_b):
        if name not in ELEMENT_TYPES:
            raise DTypeError(f"element type {name} is not supported; supported are {one_of(ELEMENT_TYPES)}")
    rows = tuple(c for c in CONFIGURATIONS if dtype_a in c.source_types and dtype_b in c.source_types)
    if not rows:
        raise DTypeError(
            f"operands of types {dtype_a} and {dtype_b} do not mix; mixes are supported within "
            f"8-bit integers (int8, uint8) and within fp8 ({one_of(FLOAT8)}); convert one operand first"
        )
    return rows


def precisions_for(dtype_a: str, dtype_b: str) -> tuple[str, ...]:
    """The names that ``precision=`` takes for these element types."""
    return tuple(c.precision for c in configurations_for(dtype_a, dtype_b))


@lru_cache(maxsize=256)
def configuration(dtype_a: str, dtype_b: str, precision: str) -> Configuration:
    """The row for these element types and this precision.

    Raises
    ------
    UnsupportedError
        When the pair has no such precision; names those that it has.
    """
    for row in configurations_for(dtype_a, dtype_b):
        if row.precision == precision:
            return row
    names = dtype_a if dtype_a == dtype_b else f"{dtype_a} x {dtype_b}"
    raise UnsupportedError(
        f"precision {precision!r} is not defined for {names}; supported are "
        f"{one_of(precisions_for(dtype_a, dtype_b))}"
    )


def rounding_precisions() -> tuple[str, ...]:
    """Precisions that round their operands, so that ``accept_operand_rounding`` takes them."""
    return tuple(dict.fromkeys(c.precision for c in CONFIGURATIONS if c.operand_rounding))
