"""From a problem to launches: canonical form, packing, the instance, and the arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.kernels.arguments import constant_arguments, pointer_names
from mxgemm.kernels.canonical import Canonical, canonical
from mxgemm.kernels.instance import MAX_BATCH_AXES, EpilogueClass, KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import (
    LARGEST_ALIGNMENT,
    OperandClass,
    alignment_class,
    layout_of,
    shared_alignment,
)
from mxgemm.kernels.packing import Packing, PackInstance, packing_of
from mxgemm.kernels.product import ProductClass
from mxgemm.kernels.table import KERNELS, Family
from mxgemm.problem import GemmProblem, Matrix
from mxgemm.units.run import result_accumulator

__all__ = ["ALIGNED", "Launch", "Lowering", "lower", "select"]

ALIGNED: Mapping[str, int] = MappingProxyType({})
"""Pointer alignments when nothing is known of the pointers: an array missing here counts as 16 bytes."""

_WORKSPACE_ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: what to compile, the grid, and the arguments, 8 bytes each."""

    instance: KernelInstance | PackInstance
    grid: tuple[int, int, int]
    arguments: tuple[int | float, ...]


@dataclass(frozen=True)
class Lowering:
    """A problem ready to launch.

    Attributes
    ----------
    form : Canonical
        The problem as the kernel sees it, packed operands included.
    instance : KernelInstance
    packings : tuple of Packing
        Copies that run first.
    alignment : mapping of str to int
        Pointer alignments that the instance relies on, by the canonical problem's names.
    """

    form: Canonical
    instance: KernelInstance
    packings: tuple[Packing, ...]
    alignment: Mapping[str, int]

    @cached_property
    def workspace_bytes(self) -> int:
        """Device memory that the packed copies take."""
        return max((p.offset + p.bytes for p in self.packings), default=0)

    @property
    def kernels(self) -> tuple[KernelInstance | PackInstance, ...]:
        """Everything that has to be compiled."""
        return (*dict.fromkeys(p.instance for p in self.packings), self.instance)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is packed, in words and by the caller's names."""
        return tuple(
            f"{self.form.caller_name(p.name)} is packed into workspace first ({p.bytes} bytes)"
            for p in self.packings
        )

    @cached_property
    def _inner(self) -> GemmProblem:
        """The problem of one launch: at most MAX_BATCH_AXES batch axes, the innermost."""
        return _last_axes(self.form.problem, MAX_BATCH_AXES)

    @cached_property
    def _constants(self) -> tuple[int | float, ...]:
        c = self._inner.c
        contiguous = c is not None and _vector_fits(c, self.instance.epilogue.vector, self.alignment["c"])
        return constant_arguments(self.instance, self._inner, contiguous)

    @cached_property
    def _grid(self) -> tuple[int, int, int]:
        return self.instance.grid(self._inner)

    def launches(
        self, pointers: Mapping[str, int], *, workspace: int = 0, flags: int = 0
    ) -> Iterator[Launch]:
        """The launches in order; none when D has no entries.

        Parameters
        ----------
        pointers : mapping of str to int
            Device addresses by the caller's names: "a", "b", "c", "d", "bias", "scale_rows", "scale_cols".
        workspace : int
            Address of ``workspace_bytes`` bytes, aligned to 256.
        flags : int
            Address of a 4-byte word that the kernel sets bits in; needed when ``instance.has_flags``.

        Raises
        ------
        UnsupportedError
            When the kernel needs a word for flags and there is none.
        """
        if self.form.problem.is_empty:
            return
        if self.instance.has_flags and not flags:
            raise UnsupportedError(
                f"{self.instance} reports overflow: flags= must name a 4-byte word on the device"
            )
        named = {name: pointers.get(self.form.caller_name(name), 0) for name in _ARRAYS}
        for p in self.packings:
            if self.form.problem.reads_operands or p.name not in ("a", "b"):
                yield Launch(p.instance, p.grid(), p.arguments(named[p.name], workspace))
            named[p.name] = workspace + p.offset
        named["flags"] = flags
        names = pointer_names(self.instance)
        for offsets in _outer_offsets(self.form.problem):
            addresses = tuple(named[name] + offsets.get(name, 0) if named[name] else 0 for name in names)
            yield Launch(self.instance, self._grid, addresses + self._constants)


_INPUTS = ("a", "b", "c", "bias", "scale_rows", "scale_cols")
_ARRAYS = (*_INPUTS, "d")


def _last_axes(p: GemmProblem, count: int) -> GemmProblem:
    if len(p.batch) <= count:
        return p
    cut: dict[str, Any] = {
        name: replace(x, batch_strides=x.batch_strides[-count:])
        for name in _ARRAYS
        if (x := getattr(p, name)) is not None
    }
    return replace(p, batch=p.batch[-count:], **cut)


def _outer_offsets(p: GemmProblem) -> Iterator[dict[str, int]]:
    """Byte offsets of each array for every index of the batch axes that no kernel steps through."""
    outer = p.batch[:-MAX_BATCH_AXES] if len(p.batch) > MAX_BATCH_AXES else ()
    arrays: list[tuple[str, Matrix]] = [(n, x) for n in _ARRAYS if (x := getattr(p, n)) is not None]
    for index in itertools.product(*(range(extent) for extent in outer)):
        yield {
            name: SIZES[x.dtype] * sum(i * s for i, s in zip(index, x.batch_strides, strict=False))
            for name, x in arrays
        }


def _vector_fits(x: Matrix, vector: int, pointer_alignment: int) -> bool:
    """Whether ``vector`` neighbouring entries of a row are one aligned piece, in every row and matrix."""
    if x.col_stride != 1 or x.cols < vector:
        return False
    strides = (*((x.row_stride,) if x.rows > 1 else ()), *x.batch_strides)
    piece = vector * SIZES[x.dtype]
    return piece <= LARGEST_ALIGNMENT and shared_alignment(pointer_alignment, x.dtype, strides) % piece == 0


def _epilogue_class(p: GemmProblem, accumulator: str, d_alignment: int) -> EpilogueClass:
    wide = LARGEST_ALIGNMENT // max(4, SIZES[accumulator], SIZES[p.d.dtype])
    vector = wide if _vector_fits(p.d, wide, d_alignment) else 1
    bias, rows, cols = (x.dtype if x else None for x in (p.bias, p.scale_rows, p.scale_cols))
    c = p.c.dtype if p.c else p.d.dtype
    return EpilogueClass(p.epilogue.activation, p.d.dtype, c, bias, rows, cols, vector)


def _operand_class(
    x: Matrix, is_a: bool, pointer_alignment: int, rounded: bool, any_stride: bool
) -> OperandClass:
    found = layout_of(x, is_a)
    if any_stride:
        along_k = abs(x.col_stride if is_a else x.row_stride) <= abs(x.row_stride if is_a else x.col_stride)
        layout = found[0] if found else "k_major" if along_k else "mn_major"
        return OperandClass(x.dtype, layout, SIZES[x.dtype])
    if found is None:
        raise UnsupportedError(f"operand {x} has no unit stride in either axis and has to be packed first")
    alignment = shared_alignment(pointer_alignment, x.dtype, (found[1], *x.batch_strides))
    return OperandClass(x.dtype, found[0], alignment_class(alignment, x.dtype, rounded))


def _pack(form: Canonical, copied: Collection[str], family: Family) -> tuple[Canonical, tuple[Packing, ...]]:
    """Replace what has to be copied first, named by the caller's names or for want of a unit stride."""
    packings: list[Packing] = []
    problem, offset = form.problem, 0
    for name in _INPUTS:
        x: Matrix | None = getattr(problem, name)
        if x is None:
            continue
        strided = name in ("a", "b") and family.needs_unit_stride and layout_of(x, name == "a") is None
        if not strided and form.caller_name(name) not in copied:
            continue
        made = packing_of(name, x, problem.batch, offset)
        offset += -(-made.bytes // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        packings.append(made)
        packed: dict[str, Any] = {name: made.packed}
        problem = replace(problem, **packed)
    return replace(form, problem=problem), tuple(packings)


def _family(configuration: Configuration, arch: str, accumulator: str) -> Family:
    for family in KERNELS:
        if family.admits(configuration, arch, accumulator):
            return family
    raise UnsupportedError(
        f"{configuration.name} has no kernel on {arch}; "
        f"kernel families are {one_of([family.name for family in KERNELS])}"
    )


def _cheapest(candidates: list[KernelInstance], p: GemmProblem, multiprocessors: int) -> KernelInstance:
    """The candidate whose waves of blocks cover the fewest entries of D, padding and idle blocks included.

    Small tiles load more bytes a product, which the factor stands for.
    """

    def cost(instance: KernelInstance) -> float:
        rows, cols = instance.tile_shape
        tiles = math.ceil(p.m / rows) * math.ceil(p.n / cols) * p.products
        waves = math.ceil(tiles / (multiprocessors * instance.blocks))
        reuse = 1 + 24 / rows + 24 / cols
        return waves * instance.blocks * rows * cols * reuse

    return min(candidates, key=cost)


def _check_alignment(problem: GemmProblem, alignment: Mapping[str, int]) -> None:
    for name, known in alignment.items():
        x: Matrix | None = getattr(problem, name)
        if x is not None and known < SIZES[x.dtype]:
            raise UnsupportedError(
                f"the pointer of {name} is aligned to {known} bytes; "
                f"{x.dtype} needs {SIZES[x.dtype]}: copy it first"
            )


def lower(
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    *,
    alignment: Mapping[str, int] = ALIGNED,
    multiprocessors: int = 132,
    copied: Collection[str] = (),
) -> Lowering:
    """Choose what runs for a problem on an architecture; nothing is compiled or launched.

    Parameters
    ----------
    problem : GemmProblem
    configuration : Configuration
        A row whose ``kernels`` list ``arch``.
    arch : str
        As in the configuration table, for example "sm_90".
    alignment : mapping of str to int
        Bytes that each pointer is aligned to, by the caller's names; 16 where not named.
    multiprocessors : int
        Of the device; it moves only the choice of tile.
    copied : collection of str
        Inputs, by the caller's names, that are copied into workspace before D is written.

    Raises
    ------
    UnsupportedError
        When no family computes the configuration on ``arch``, or a pointer is not even aligned
        to its element type.
    """
    _check_alignment(problem, alignment)
    accumulator = result_accumulator(problem, configuration)
    family = _family(configuration, arch, accumulator)
    form = canonical(problem)
    form, packings = _pack(form, copied, family)
    packed = {made.name for made in packings}
    known = {
        name: LARGEST_ALIGNMENT
        if name in packed
        else alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        for name in _ARRAYS
    }
    p = form.problem
    rounded = configuration.rounds_to in ("f16", "bf16")
    a = _operand_class(p.a, True, known["a"], rounded, not family.needs_unit_stride)
    b = _operand_class(p.b, False, known["b"], rounded, not family.needs_unit_stride)
    epilogue = _epilogue_class(p, accumulator, known["d"])
    axes = min(len(p.batch), MAX_BATCH_AXES)
    wanted = ProductClass(configuration, arch, accumulator, a, b, epilogue, axes, p.k)
    return Lowering(form, _cheapest(list(family.instances(wanted)), p, multiprocessors), packings, known)


def select(
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    *,
    alignment: Mapping[str, int] = ALIGNED,
    multiprocessors: int = 132,
) -> KernelInstance:
    """The kernel that :func:`lower` chooses."""
    return lower(problem, configuration, arch, alignment=alignment, multiprocessors=multiprocessors).instance
