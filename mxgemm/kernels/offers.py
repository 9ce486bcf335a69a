"""What a kernel family offers for a problem: its forms, the copies that each wants, instances and costs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from mxgemm.configs import Configuration
from mxgemm.kernels.canonical import ARRAYS, Canonical
from mxgemm.kernels.classes import product_class
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.launches import Lowering, aligned_bytes
from mxgemm.kernels.operands import LARGEST_ALIGNMENT, PackedForm
from mxgemm.kernels.table import Family
from mxgemm.problem import Matrix

if TYPE_CHECKING:
    from mxgemm.kernels.hopper.arrange import Arrangement
    from mxgemm.kernels.packing import Packing

__all__ = ["Asked", "Offer", "cheapest", "offers"]

_INPUTS = ("a", "b", "c", "bias", "scale_rows", "scale_cols")


class Asked(NamedTuple):
    """What :func:`mxgemm.kernels.lower` was asked, beside the problem."""

    configuration: Configuration
    arch: str
    accumulator: str
    alignment: Mapping[str, int]
    multiprocessors: int
    copied: Collection[str]
    may_allocate: bool


class _Packed(NamedTuple):
    """A form and its copies.

    Attributes
    ----------
    as_asked, form : Canonical
        Before and after the copies.
    packings : tuple of Packing or Arrangement
    copies : tuple of int
        Bytes of each copy that is for the family's sake.
    """

    as_asked: Canonical
    form: Canonical
    packings: tuple[Packing | Arrangement, ...]
    copies: tuple[int, ...]


class Offer(NamedTuple):
    """What one family offers for a problem in one form.

    Attributes
    ----------
    family : Family
    packed : _Packed
        The form.
    alignment : mapping of str to int
        Of the pointers that the kernel gets.
    priced : tuple of (KernelInstance, float)
        The instances that the family does not rule out for this problem, by an infinite cost, and their cost.
    """

    family: Family
    packed: _Packed
    alignment: Mapping[str, int]
    priced: tuple[tuple[KernelInstance, float], ...]

    @property
    def copying(self) -> float:
        """What the copies add to each cost."""
        return self.family.copying(sum(self.packed.copies), len(self.packed.copies))

    def lowering(self, instance: KernelInstance, why: tuple[str, ...] = ()) -> Lowering:
        """The launches of one instance."""
        return Lowering(self.packed.form, instance, self.packed.packings, self.alignment, why)

    def declines(self, cost: float, asked: Asked) -> str | None:
        """Why the next family should be preferred to an instance of this cost, if it should."""
        return self.family.declines(
            self.packed.as_asked.problem, self.packed.copies, cost, asked.multiprocessors, asked.may_allocate
        )


def offers(families: Iterable[Family], form: Canonical, asked: Asked) -> Iterator[tuple[Offer, ...]]:
    """What each family offers that has an instance for this problem, in order: an offer a form."""
    for family in families:
        if not family.admits(asked.configuration, asked.arch, asked.accumulator):
            continue
        found: list[Offer] = []
        for one in family.forms(form):
            if family.takes(one.problem, asked.configuration):
                known = {instance for offer in found for instance, _ in offer.priced}
                found.append(_offer(family, _pack(one, asked, family), asked, known))
        if any(offer.priced for offer in found):
            yield tuple(offer for offer in found if offer.priced)


def cheapest(given: Sequence[Offer], asked: Asked) -> tuple[Lowering, str | None]:
    """The instance of least cost, and why the next family should be preferred, if it should.

    Without workspace, forms that need no copies come first.
    """
    family = given[0].family
    if not asked.may_allocate:
        given = [offer for offer in given if not offer.packed.copies] or given
    ranked = sorted(
        (
            (cost + copying, cost, offer, instance)
            for offer, copying in ((offer, offer.copying) for offer in given)
            for instance, cost in offer.priced
        ),
        key=lambda one: one[0],
    )
    words = [f"{instance.variant}: {total:.1f} us predicted" for total, *_, instance in ranked[:2]]
    why = (f"chosen among {len(ranked)} tiles: {', next '.join(words)}",) if family.is_timed else ()
    _, cost, offer, instance = ranked[0]
    return offer.lowering(instance, why), offer.declines(cost, asked)


def _offer(family: Family, packed: _Packed, asked: Asked, known: Collection[KernelInstance]) -> Offer:
    """The offer of one form, without instances that are known of another one: their names tell the form."""
    form, copied = packed.form, {made.name for made in packed.packings}
    alignment = {
        name: LARGEST_ALIGNMENT
        if name in copied
        else asked.alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        for name in ARRAYS
    }
    wanted = product_class(
        form.problem, family, asked.configuration, asked.arch, asked.accumulator,
        alignment=alignment, multiprocessors=asked.multiprocessors,
    )  # fmt: skip
    priced = (
        (instance, family.cost(instance, form.problem, asked.multiprocessors))
        for instance in family.instances(wanted)
        if (not known or instance not in known)
        and (asked.may_allocate or instance.feeds_on(form.problem) is None)
    )
    finite = tuple((instance, cost) for instance, cost in priced if math.isfinite(cost))
    return Offer(family, packed, alignment, finite)


def _copy(
    name: str, x: Matrix, batch: tuple[int, ...], offset: int, wanted: PackedForm | None
) -> Packing | Arrangement:
    """The copy of one operand; few products need one, so that its kernels load with the first that does."""
    if wanted is None or not wanted.aligned:
        from mxgemm.kernels.packing import packing_of

        return packing_of(name, x, batch, offset)
    from mxgemm.kernels.hopper.arrange import arrangement_of

    return arrangement_of(name, x, batch, offset, along_rows=bool(wanted.along_k) == (name == "a"))


def _pack(form: Canonical, asked: Asked, family: Family) -> _Packed:
    """Replace what has to be copied first: what the family cannot read, and what the caller named."""
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
        made = _copy(name, x, problem.batch, offset, as_wanted)
        if as_wanted is not None:
            wanted.append(made.bytes)
        offset += aligned_bytes(made.bytes)
        packings.append(made)
        packed: dict[str, Any] = {name: made.packed}
        problem = replace(problem, **packed)
    return _Packed(form, form._replace(problem=problem), tuple(packings), tuple(wanted))
