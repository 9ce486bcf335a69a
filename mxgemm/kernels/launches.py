"""Lowering: a problem ready to launch, and its launches in order: copies, chains, the product."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from mxgemm.errors import UnsupportedError
from mxgemm.kernels.arguments import constant_arguments, pointer_names
from mxgemm.kernels.canonical import ARRAYS, Canonical
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import vector_fits
from mxgemm.problem import GemmProblem, Matrix

if TYPE_CHECKING:
    from mxgemm.device.tensor_map import TensorMap
    from mxgemm.kernels.hopper.arrange import Arrangement
    from mxgemm.kernels.packing import Packing, PackInstance

__all__ = ["Launch", "Lowering", "aligned_bytes"]

_WORKSPACE_ALIGNMENT = 256  # bytes: of every part


class Launch(NamedTuple):
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
        return (
            aligned_bytes(self._copied_bytes) + self._first[1].products * d.batch_strides[0] * SIZES[d.dtype]
        )

    @property
    def kernels(self) -> tuple[KernelInstance | PackInstance, ...]:
        """Everything that has to be compiled."""
        first = () if self._first is None else (self._first[0],)
        return (*dict.fromkeys(p.instance for p in self.packings), *first, self.instance)

    @property
    def has_flags(self) -> bool:
        """Whether a kernel reports overflow through a word in device memory."""
        first = self._first
        return self.instance.has_flags or (first is not None and first[0].has_flags)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is packed or rounded, by the caller's names, and why this instance was chosen, in words."""
        packed = (f"{self.form.caller_name(p.name)} is {p.what} ({p.bytes} bytes)" for p in self.packings)
        on_the_way = {self.form.caller_name(name): how for name, how in self.instance.operand_notes.items()}
        return (*packed, *(f"{name} is {how}" for name, how in sorted(on_the_way.items())), *self.why)

    @cached_property
    def _inner(self) -> GemmProblem:
        """The problem of one launch: as many batch axes as the instance steps through, the innermost."""
        return _last_axes(self.form.problem, self.instance.batch_axes)

    @cached_property
    def _constants(self) -> tuple[int | float, ...]:
        c = self._inner.c
        contiguous = c is not None and vector_fits(c, self.instance.epilogue.vector, self.alignment["c"])
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
        named = {name: pointers.get(self.form.caller_name(name), 0) for name in ARRAYS}
        for p in self.packings:
            if self.form.problem.reads_operands or p.name not in ("a", "b"):
                yield Launch(p.instance, p.grid(), p.arguments(named[p.name], workspace))
            named[p.name] = workspace + p.offset
        named["flags"] = flags
        if self._first is not None:
            target = workspace + aligned_bytes(self._copied_bytes)
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


def aligned_bytes(size: int) -> int:
    """``size`` rounded up to whole pieces of the workspace."""
    return -(-size // _WORKSPACE_ALIGNMENT) * _WORKSPACE_ALIGNMENT


def _maps_of(instance: KernelInstance, p: GemmProblem) -> tuple[tuple[int, TensorMap], ...]:
    names = pointer_names(instance)
    return tuple((names.index(made.array), made) for made in instance.tensor_maps(p))


def _last_axes(p: GemmProblem, count: int) -> GemmProblem:
    if len(p.batch) <= count:
        return p
    cut: dict[str, Any] = {
        name: replace(x, batch_strides=x.batch_strides[len(p.batch) - count :])
        for name in ARRAYS
        if (x := getattr(p, name)) is not None
    }
    return replace(p, batch=p.batch[len(p.batch) - count :], **cut)


def _outer_offsets(p: GemmProblem, count: int) -> Iterator[dict[str, int]]:
    """Byte offsets of each array for every index of the batch axes but the ``count`` innermost."""
    outer = p.batch[: len(p.batch) - count]
    arrays: list[tuple[str, Matrix]] = [(n, x) for n in ARRAYS if (x := getattr(p, n)) is not None]
    for index in itertools.product(*(range(extent) for extent in outer)):
        yield {
            name: SIZES[x.dtype] * sum(i * s for i, s in zip(index, x.batch_strides, strict=False))
            for name, x in arrays
        }
