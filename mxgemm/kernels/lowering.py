"""From a problem to launches: canonical form, packing, the instance, and the arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from mxgemm.configs import Configuration
from mxgemm.device.tensor_map import TensorMap
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.kernels.arguments import constant_arguments, pointer_names
from mxgemm.kernels.canonical import Canonical, canonical
from mxgemm.kernels.hopper.arrange import Arrangement, arrangement_of
from mxgemm.kernels.instance import EpilogueClass, KernelInstance
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
    """One kernel launch.

    Attributes
    ----------
    instance : KernelInstance or PackInstance
        What to compile.
    grid : tuple of int
    arguments : tuple of int or float
        8 bytes each, pointers first.
    pointers : int
        How many of them are addresses that differ from call to call.
    maps : tuple of (int, TensorMap)
        Tensor maps that lead the parameters, each with the position in ``arguments`` of its address.
    """

    instance: KernelInstance | PackInstance
    grid: tuple[int, int, int]
    arguments: tuple[int | float, ...]
    pointers: int = 0
    maps: tuple[tuple[int, TensorMap], ...] = ()


@dataclass(frozen=True)
class Lowering:
    """A problem ready to launch.

    Attributes
    ----------
    form : Canonical
        The problem as the kernel sees it, packed operands included.
    instance : KernelInstance
    packings : tuple of Packing or Arrangement
        Copies that run first.
    alignment : mapping of str to int
        Pointer alignments that the instance relies on, by the canonical problem's names.
    why : tuple of str
        Why this instance and no other, in words.
    without_workspace : callable or None
        Makes the lowering that runs where there can be no workspace; None when that is this one, or when
        no kernel can do without.
    """

    form: Canonical
    instance: KernelInstance
    packings: tuple[Packing | Arrangement, ...]
    alignment: Mapping[str, int]
    why: tuple[str, ...] = ()
    without_workspace: Callable[[], Lowering] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _copied_bytes(self) -> int:
        return max((p.offset + p.bytes for p in self.packings), default=0)

    @cached_property
    def _first(self) -> tuple[KernelInstance, GemmProblem] | None:
        """What writes the workspace that the instance reads as its A, if it does."""
        return self.instance.feeds_on(self.form.problem)

    @cached_property
    def workspace_bytes(self) -> int:
        """Device memory that the packed copies and the first kernel's results take."""
        if self._first is None:
            return self._copied_bytes
        d = self._first[1].d
        return _aligned(self._copied_bytes) + self._first[1].products * d.batch_strides[0] * SIZES[d.dtype]

    @property
    def kernels(self) -> tuple[KernelInstance | PackInstance, ...]:
        """Everything that has to be compiled."""
        first = () if self._first is None else (self._first[0],)
        return (*dict.fromkeys(p.instance for p in self.packings), *first, self.instance)

    @property
    def has_flags(self) -> bool:
        """Whether a kernel reports overflow through a word in device memory."""
        return self.instance.has_flags or any(isinstance(p, Arrangement) and p.rounded for p in self.packings)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is packed, by the caller's names, and why this instance was chosen, in words."""
        packed = (f"{self.form.caller_name(p.name)} is {p.what} ({p.bytes} bytes)" for p in self.packings)
        return (*packed, *self.why)

    @cached_property
    def _inner(self) -> GemmProblem:
        """The problem of one launch: as many batch axes as the instance steps through, the innermost."""
        return _last_axes(self.form.problem, self.instance.batch_axes)

    @cached_property
    def _constants(self) -> tuple[int | float, ...]:
        c = self._inner.c
        contiguous = c is not None and _vector_fits(c, self.instance.epilogue.vector, self.alignment["c"])
        return constant_arguments(self.instance, self._inner, contiguous)

    @cached_property
    def _maps(self) -> tuple[tuple[int, TensorMap], ...]:
        return _maps_of(self.instance, self._inner)

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
            Address of a 4-byte word that the kernel sets bits in; needed when ``has_flags``.

        Raises
        ------
        UnsupportedError
            When the kernel needs a word for flags and there is none.
        """
        if self.form.problem.is_empty:
            return
        if self.has_flags and not flags:
            raise UnsupportedError(
                f"{self.instance} reports overflow: flags= must name a 4-byte word on the device"
            )
        named = {name: pointers.get(self.form.caller_name(name), 0) for name in _ARRAYS}
        for p in self.packings:
            if self.form.problem.reads_operands or p.name not in ("a", "b"):
                yield Launch(p.instance, p.grid(), p.arguments(named[p.name], workspace, flags))
            named[p.name] = workspace + p.offset
        named["flags"] = flags
        if self._first is not None:
            target = workspace + _aligned(self._copied_bytes)
            yield self._first_launch(*self._first, {**named, "c": 0, "d": target})
            named["a"] = target
        names = pointer_names(self.instance)
        for offsets in _outer_offsets(self.form.problem, self.instance.batch_axes):
            addresses = tuple(named[name] + offsets.get(name, 0) if named[name] else 0 for name in names)
            yield Launch(self.instance, self._grid, addresses + self._constants, len(names), self._maps)

    @staticmethod
    def _first_launch(kernel: KernelInstance, p: GemmProblem, named: Mapping[str, int]) -> Launch:
        names = pointer_names(kernel)
        addresses = tuple(named[name] for name in names)
        constants = constant_arguments(kernel, p, False)
        return Launch(kernel, kernel.grid(p), addresses + constants, len(names), _maps_of(kernel, p))


_INPUTS = ("a", "b", "c", "bias", "scale_rows", "scale_cols")
_ARRAYS = (*_INPUTS, "d")


def _aligned(size: int) -> int:
    return -(-size // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT


def _maps_of(instance: KernelInstance, p: GemmProblem) -> tuple[tuple[int, TensorMap], ...]:
    names = pointer_names(instance)
    return tuple((names.index(made.array), made) for made in instance.tensor_maps(p))


def _last_axes(p: GemmProblem, count: int) -> GemmProblem:
    if len(p.batch) <= count:
        return p
    cut: dict[str, Any] = {
        name: replace(x, batch_strides=x.batch_strides[len(p.batch) - count :])
        for name in _ARRAYS
        if (x := getattr(p, name)) is not None
    }
    return replace(p, batch=p.batch[len(p.batch) - count :], **cut)


def _outer_offsets(p: GemmProblem, count: int) -> Iterator[dict[str, int]]:
    """Byte offsets of each array for every index of the batch axes but the ``count`` innermost."""
    outer = p.batch[: len(p.batch) - count]
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


def _pack(
    form: Canonical, asked: _Asked, family: Family
) -> tuple[Canonical, tuple[Packing | Arrangement, ...], tuple[int, ...]]:
    """Replace what has to be copied first: what the family cannot read, and what the caller named.

    Also returns the bytes of each copy that is for the family's sake.
    """
    packings: list[Packing | Arrangement] = []
    wanted: list[int] = []
    problem, offset = form.problem, 0
    for name in _INPUTS:
        x: Matrix | None = getattr(problem, name)
        if x is None:
            continue
        is_a, alignment = name == "a", asked.alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        as_wanted = family.packs(x, is_a, form.problem, alignment) if name in ("a", "b") else None
        if as_wanted is None and form.caller_name(name) not in asked.copied:
            continue
        made: Packing | Arrangement
        if as_wanted is not None and as_wanted.aligned:
            along_rows = bool(as_wanted.along_k) == is_a
            made = arrangement_of(
                name, x, problem.batch, offset, along_rows=along_rows, rounded=as_wanted.rounded
            )
        else:
            made = packing_of(name, x, problem.batch, offset)
        if as_wanted is not None:
            wanted.append(made.bytes)
        offset += _aligned(made.bytes)
        packings.append(made)
        packed: dict[str, Any] = {name: made.packed}
        problem = replace(problem, **packed)
    return replace(form, problem=problem), tuple(packings), tuple(wanted)


def _cheapest(
    candidates: list[KernelInstance], p: GemmProblem, multiprocessors: int, family: Family
) -> tuple[KernelInstance, float, tuple[str, ...]]:
    """The candidate of least cost, the cost, and why."""
    costs = [family.cost(candidate, p, multiprocessors) for candidate in candidates]
    order = sorted(range(len(candidates)), key=costs.__getitem__)
    best = candidates[order[0]]
    if not family.is_timed:
        return best, costs[order[0]], ()
    words = [f"{candidates[i].variant}: {costs[i]:.1f} us predicted" for i in order[:2]]
    return best, costs[order[0]], (f"chosen among {len(candidates)} tiles: {', next '.join(words)}",)


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
    may_allocate: bool = True,
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
    may_allocate : bool
        Whether there can be workspace; without it, kernels that need none are preferred to faster ones.

    Raises
    ------
    UnsupportedError
        When no family computes the configuration on ``arch``, or a pointer is not even aligned
        to its element type.
    """
    _check_alignment(problem, alignment)
    accumulator = result_accumulator(problem, configuration)
    form = canonical(problem)
    asked = _Asked(configuration, arch, accumulator, alignment, multiprocessors, copied, may_allocate)
    found: list[tuple[Lowering, str | None]] = []
    for family in KERNELS:
        if family.admits(configuration, arch, accumulator) and family.takes(form.problem, configuration):
            made = _lower_by(family, form, asked)
            found += [] if made is None else [made]
            if made is not None and made[1] is None:
                break
    if not found:
        raise UnsupportedError(
            f"{configuration.name} has no kernel on {arch} for {problem}; "
            f"kernel families are {one_of([family.name for family in KERNELS])}"
        )
    # Where every family declines, the first one that can runs after all.
    best = found[-1][0] if found[-1][1] is None else found[0][0]
    declined = tuple(reason for made, reason in found if reason is not None and made is not best)
    other = None
    if may_allocate and best.workspace_bytes and not copied:
        other = partial(
            lower, problem, configuration, arch, alignment=alignment, multiprocessors=multiprocessors,
            may_allocate=False,
        )  # fmt: skip
    return replace(best, why=(*declined, *best.why), without_workspace=other)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What :func:`lower` was asked, beside the problem."""

    configuration: Configuration
    arch: str
    accumulator: str
    alignment: Mapping[str, int]
    multiprocessors: int
    copied: Collection[str]
    may_allocate: bool


def _lower_by(family: Family, form: Canonical, asked: _Asked) -> tuple[Lowering, str | None] | None:
    """The lowering by one family, and why the next one should be preferred, if it should.

    None when the family has no instance for this class of products.
    """
    as_asked = form = family.orient(form)
    form, packings, copies = _pack(form, asked, family)
    packed = {made.name for made in packings}
    known = {
        name: LARGEST_ALIGNMENT
        if name in packed
        else asked.alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        for name in _ARRAYS
    }
    wanted = _product_class(family, form.problem, asked, known)
    candidates: list[KernelInstance] = [
        instance
        for instance in family.instances(wanted)
        if asked.may_allocate or instance.feeds_on(form.problem) is None
    ]
    if not candidates:
        return None
    best, predicted, why = _cheapest(candidates, form.problem, asked.multiprocessors, family)
    reason = family.declines(as_asked.problem, copies, predicted, asked.multiprocessors, asked.may_allocate)
    return Lowering(form, best, packings, known, why), reason


def _product_class(family: Family, p: GemmProblem, asked: _Asked, known: Mapping[str, int]) -> ProductClass:
    rounded = asked.configuration.rounds_to in ("f16", "bf16")
    piece = LARGEST_ALIGNMENT // SIZES[p.d.dtype]
    ascends = (p.m <= 1 or p.d.row_stride > 0) and all(stride >= 0 for stride in p.d.batch_strides)
    # The copy engine writes whole 16-byte pieces, past the end of a row that is none.
    whole = ascends and p.n % piece == 0
    c_in_pairs = p.c is not None and p.n % 2 == 0 and _vector_fits(p.c, 2, known["c"])
    return ProductClass(
        asked.configuration, asked.arch, asked.accumulator,
        _operand_class(p.a, True, known["a"], rounded, family.takes_inner_strides),
        _operand_class(p.b, False, known["b"], rounded, family.takes_inner_strides),
        _epilogue_class(p, asked.accumulator, known["d"]),
        min(len(p.batch), family.batch_axes), p.k,
        reads_c=p.reads_c,
        d_piece=piece if whole and _vector_fits(p.d, piece, known["d"]) else 1,
        c_piece=2 if c_in_pairs else 1,
        multiprocessors=asked.multiprocessors,
    )  # fmt: skip


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
