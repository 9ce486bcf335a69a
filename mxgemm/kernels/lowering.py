"""From a problem to launches: canonical form, packing, the instance, and the arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.kernels.arguments import constant_arguments, pointer_names
from mxgemm.kernels.canonical import Canonical, canonical
from mxgemm.kernels.instance import MAX_BATCH_AXES, EpilogueClass, KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, OperandClass, alignment_class, layout_of, shared_alignment
from mxgemm.kernels.packing import Packing, PackInstance, packing_of
from mxgemm.kernels.table import KERNELS, Family, ProductClass
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
        Pointer alignments, by the caller's names, that the instance relies on.
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
        """What is packed, in words and in the caller's names."""
        return tuple(
            f"{self.form.caller_name(p.name).upper()} has no unit stride in either axis: {p.bytes} bytes are packed"
            for p in self.packings
        )

    @cached_property
    def _inner(self) -> GemmProblem:
        """The problem of one launch: at most MAX_BATCH_AXES batch axes, the innermost."""
        return _last_axes(self.form.problem, MAX_BATCH_AXES)

    @cached_property
    def _constants(self) -> tuple[int | float, ...]:
        contiguous = _c_is_contiguous(self._inner, self.instance.epilogue, self._pointer_alignment("c"))
        return constant_arguments(self.instance, self._inner, contiguous)

    def _pointer_alignment(self, name: str) -> int:
        return self.alignment.get(self.form.caller_name(name), LARGEST_ALIGNMENT)

    @cached_property
    def _grid(self) -> tuple[int, int, int]:
        return self.instance.grid(self._inner)

    def launches(self, pointers: Mapping[str, int], *, workspace: int = 0, flags: int = 0) -> Iterator[Launch]:
        """The launches in order; none when D has no entries.

        Parameters
        ----------
        pointers : mapping of str to int
            Device addresses by the caller's names: "a", "b", "c", "d", "bias", "scale_rows", "scale_cols".
        workspace : int
            Address of ``workspace_bytes`` bytes, aligned to 256.
        flags : int
            Address of a 4-byte word that the kernel sets bits in; needed when ``instance.has_flags``.
        """
        if self.form.problem.is_empty:
            return
        named = {name: pointers.get(self.form.caller_name(name), 0) for name in _ARRAYS}
        for p in self.packings:
            if self.form.problem.reads_operands:
                yield Launch(p.instance, p.grid(), p.arguments(named[p.name], workspace))
            named[p.name] = workspace + p.offset
        named["flags"] = flags
        names = pointer_names(self.instance)
        for offsets in _outer_offsets(self.form.problem):
            addresses = tuple(named[name] + offsets.get(name, 0) if named[name] else 0 for name in names)
            yield Launch(self.instance, self._grid, addresses + self._constants)


_ARRAYS = ("a", "b", "c", "d", "bias", "scale_rows", "scale_cols")


def _last_axes(p: GemmProblem, count: int) -> GemmProblem:
    if len(p.batch) <= count:
        return p
    cut = {
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
            name: SIZES[x.dtype] * sum(i * s for i, s in zip(index, x.batch_strides, strict=False)) for name, x in arrays
        }


def _vector_fits(x: Matrix, vector: int, pointer_alignment: int) -> bool:
    """Whether ``vector`` neighbouring entries of a row are one aligned piece, in every row and matrix."""
    if x.col_stride != 1 or x.cols < vector:
        return False
    strides = (*((x.row_stride,) if x.rows > 1 else ()), *x.batch_strides)
    piece = vector * SIZES[x.dtype]
    return piece <= LARGEST_ALIGNMENT and shared_alignment(pointer_alignment, x.dtype, strides) % piece == 0


def _c_is_contiguous(p: GemmProblem, epilogue: EpilogueClass, pointer_alignment: int) -> bool:
    return p.c is not None and _vector_fits(p.c, epilogue.vector, pointer_alignment)


def _epilogue_class(p: GemmProblem, accumulator: str, d_alignment: int) -> EpilogueClass:
    wide = LARGEST_ALIGNMENT // max(4, SIZES[accumulator], SIZES[p.d.dtype])
    vector = wide if _vector_fits(p.d, wide, d_alignment) else 1
    arrays = (x.dtype if x is not None else None for x in (p.bias, p.scale_rows, p.scale_cols))
    return EpilogueClass(p.epilogue.activation, p.d.dtype, p.c.dtype if p.c else p.d.dtype, *arrays, vector)


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


def _pack(form: Canonical) -> tuple[Canonical, tuple[Packing, ...]]:
    packings: list[Packing] = []
    problem, offset = form.problem, 0
    for name in ("a", "b"):
        x: Matrix = getattr(problem, name)
        if layout_of(x, name == "a") is not None:
            continue
        made = packing_of(name, x, problem.batch, offset)
        offset += -(-made.bytes // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT
        packings.append(made)
        problem = replace(problem, **{name: made.packed})
    return replace(form, problem=problem), tuple(packings)


def _family(configuration: Configuration, arch: str, accumulator: str) -> Family:
    for family in KERNELS:
        if family.admits(configuration, arch, accumulator):
            return family
    raise UnsupportedError(
        f"{configuration.name} has no kernel on {arch}; kernel families are {one_of([f.name for f in KERNELS])}"
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
                f"the pointer of {name} is aligned to {known} bytes; {x.dtype} needs {SIZES[x.dtype]}: copy it first"
            )


def lower(
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    *,
    alignment: Mapping[str, int] = ALIGNED,
    multiprocessors: int = 132,
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
    packings: tuple[Packing, ...] = ()
    if family.needs_unit_stride:
        form, packings = _pack(form)
    p = form.problem
    packed = {made.name for made in packings}

    def operand(name: str, x: Matrix) -> OperandClass:
        known = LARGEST_ALIGNMENT if name in packed else alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        rounded = configuration.rounds_to in ("f16", "bf16")
        return _operand_class(x, name == "a", known, rounded, not family.needs_unit_stride)

    wanted = ProductClass(
        configuration, arch, accumulator, operand("a", p.a), operand("b", p.b),
        _epilogue_class(p, accumulator, alignment.get("d", LARGEST_ALIGNMENT)),
        min(len(p.batch), MAX_BATCH_AXES), p.k,
    )  # fmt: skip
    instance = _cheapest(list(family.instances(wanted)), p, multiprocessors)
    return Lowering(form, instance, packings, dict(alignment))


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
