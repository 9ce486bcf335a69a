"""From a problem to what runs: canonical form, copies, the family and its cheapest instance."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.kernels.canonical import ARRAYS, Canonical, canonical
from mxgemm.kernels.classes import product_class
from mxgemm.kernels.hopper.arrange import Arrangement, arrangement_of
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.launches import Lowering, aligned_bytes
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT
from mxgemm.kernels.packing import Packing, packing_of
from mxgemm.kernels.table import KERNELS, Family
from mxgemm.kernels.tuned import Choice
from mxgemm.problem import GemmProblem, Matrix
from mxgemm.units.run import result_accumulator

__all__ = ["ALIGNED", "Candidate", "candidates", "lower", "select"]

ALIGNED: Mapping[str, int] = MappingProxyType({})
"""Pointer alignments when nothing is known of the pointers: an array missing here counts as 16 bytes."""

_INPUTS = ("a", "b", "c", "bias", "scale_rows", "scale_cols")


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
            made = arrangement_of(name, x, problem.batch, offset, along_rows=along_rows)
        else:
            made = packing_of(name, x, problem.batch, offset)
        if as_wanted is not None:
            wanted.append(made.bytes)
        offset += aligned_bytes(made.bytes)
        packings.append(made)
        packed: dict[str, Any] = {name: made.packed}
        problem = replace(problem, **packed)
    return replace(form, problem=problem), tuple(packings), tuple(wanted)


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
    preferred: Choice | None = None,
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
    preferred : Choice, optional
        What was measured of this product; its instance is taken where it is among the candidates.

    Raises
    ------
    UnsupportedError
        When no family computes the configuration on ``arch``, or a pointer is not even aligned
        to its element type.
    """
    form, asked = _read(
        problem, configuration, arch, alignment, multiprocessors, copied, may_allocate=may_allocate
    )
    measured = None if preferred is None else _as_measured(form, asked, preferred)
    best = measured or _as_modelled(form, asked)
    if best is None:
        raise _no_kernel(problem, asked)
    if preferred is not None and measured is None and may_allocate:
        missing = f"{preferred.variant}, which autotune preferred on {preferred.date[:10]}, is no candidate"
        best = replace(best, why=(*best.why, missing))
    other = None
    if may_allocate and best.workspace_bytes and not copied:
        other = partial(
            lower, problem, configuration, arch, alignment=alignment, multiprocessors=multiprocessors,
            may_allocate=False, preferred=preferred,
        )  # fmt: skip
    return replace(best, without_workspace=other)


@dataclass(frozen=True)
class Candidate:
    """One way to compute a product; all of them give the same bits.

    Attributes
    ----------
    lowering : Lowering
    predicted : float or None
        Microseconds by the family's model, copies included; None where it does not predict times.
    """

    lowering: Lowering
    predicted: float | None


def candidates(
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    *,
    alignment: Mapping[str, int] = ALIGNED,
    multiprocessors: int = 132,
    copied: Collection[str] = (),
) -> tuple[Candidate, ...]:
    """Every way to compute a problem that is worth measuring, in the order in which families are asked.

    These are the instances of the families up to the first one whose cost is no time; instances that
    their family rules out for this problem, by an infinite cost, are left out.  Parameters and errors
    as :func:`lower`.
    """
    form, asked = _read(problem, configuration, arch, alignment, multiprocessors, copied, may_allocate=True)
    found = tuple(one for offer in _competing(form, asked) for one in offer.candidates())
    if not found:
        raise _no_kernel(problem, asked)
    return found


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


def _read(  # noqa: PLR0917  # lower's own arguments, in its order
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    alignment: Mapping[str, int],
    multiprocessors: int,
    copied: Collection[str],
    *,
    may_allocate: bool,
) -> tuple[Canonical, _Asked]:
    """The canonical form, and the rest of what was asked."""
    _check_alignment(problem, alignment)
    accumulator = result_accumulator(problem, configuration)
    asked = _Asked(configuration, arch, accumulator, alignment, multiprocessors, copied, may_allocate)
    return canonical(problem), asked


def _no_kernel(problem: GemmProblem, asked: _Asked) -> UnsupportedError:
    return UnsupportedError(
        f"{asked.configuration.name} has no kernel on {asked.arch} for {problem}; "
        f"kernel families are {one_of([family.name for family in KERNELS])}"
    )


@dataclass(frozen=True)
class _Offer:
    """What one family offers for a problem.

    Attributes
    ----------
    family : Family
    as_asked, form : Canonical
        In the family's orientation, before and after the copies.
    packings : tuple of Packing or Arrangement
    copies : tuple of int
        Bytes of each copy that is for the family's sake.
    alignment : mapping of str to int
        Of the pointers that the kernel gets.
    instances : tuple of KernelInstance
        Those that the family does not rule out for this problem, by an infinite cost.
    costs : tuple of float
        Of each instance.
    asked : _Asked
    """

    family: Family
    as_asked: Canonical
    form: Canonical
    packings: tuple[Packing | Arrangement, ...]
    copies: tuple[int, ...]
    alignment: Mapping[str, int]
    instances: tuple[KernelInstance, ...]
    costs: tuple[float, ...]
    asked: _Asked

    def lowering(self, instance: KernelInstance, why: tuple[str, ...] = ()) -> Lowering:
        """The launches of one instance."""
        return Lowering(self.form, instance, self.packings, self.alignment, why)

    def cheapest(self) -> tuple[Lowering, str | None]:
        """The instance of least cost, and why the next family should be preferred, if it should."""
        costs = self.costs
        order = sorted(range(len(costs)), key=costs.__getitem__)
        words = [f"{self.instances[i].variant}: {costs[i]:.1f} us predicted" for i in order[:2]]
        why = (f"chosen among {len(costs)} tiles: {', next '.join(words)}",) if self.family.is_timed else ()
        reason = self.family.declines(
            self.as_asked.problem, self.copies, costs[order[0]], self.asked.multiprocessors,
            self.asked.may_allocate,
        )  # fmt: skip
        return self.lowering(self.instances[order[0]], why), reason

    def candidates(self) -> Iterator[Candidate]:
        """Every instance, and its predicted time."""
        copying = self.family.copying(sum(self.copies), len(self.copies))
        for instance, cost in zip(self.instances, self.costs, strict=True):
            yield Candidate(self.lowering(instance), cost + copying if self.family.is_timed else None)


def _offers(form: Canonical, asked: _Asked) -> Iterator[_Offer]:
    """What each family offers that has an instance for this problem, in order."""
    for family in KERNELS:
        admitted = family.admits(asked.configuration, asked.arch, asked.accumulator)
        if admitted and family.takes(form.problem, asked.configuration):
            offer = _offer(family, form, asked)
            if offer.instances:
                yield offer


def _offer(family: Family, form: Canonical, asked: _Asked) -> _Offer:
    as_asked = form = family.orient(form)
    form, packings, copies = _pack(form, asked, family)
    packed = {made.name for made in packings}
    known = {
        name: LARGEST_ALIGNMENT
        if name in packed
        else asked.alignment.get(form.caller_name(name), LARGEST_ALIGNMENT)
        for name in ARRAYS
    }
    wanted = product_class(
        form.problem, family, asked.configuration, asked.arch, asked.accumulator,
        alignment=known, multiprocessors=asked.multiprocessors,
    )  # fmt: skip
    costs = {
        instance: family.cost(instance, form.problem, asked.multiprocessors)
        for instance in family.instances(wanted)
        if asked.may_allocate or instance.feeds_on(form.problem) is None
    }
    costs = {instance: cost for instance, cost in costs.items() if math.isfinite(cost)}
    return _Offer(family, as_asked, form, packings, copies, known, tuple(costs), tuple(costs.values()), asked)


def _competing(form: Canonical, asked: _Asked) -> Iterator[_Offer]:
    """The offers up to the first family whose cost is no time: what comes after is never faster."""
    for offer in _offers(form, asked):
        yield offer
        if not offer.family.is_timed:
            return


def _as_modelled(form: Canonical, asked: _Asked) -> Lowering | None:
    """The cheapest instance of the first family that does not decline; None where no family has one."""
    found: list[tuple[Lowering, str | None]] = []
    for offer in _offers(form, asked):
        found.append(offer.cheapest())
        if found[-1][1] is None:
            break
    if not found:
        return None
    # Where every family declines, the first one that can runs after all.
    best = found[-1][0] if found[-1][1] is None else found[0][0]
    declined = tuple(reason for made, reason in found if reason is not None and made is not best)
    return replace(best, why=(*declined, *best.why))


def _as_measured(form: Canonical, asked: _Asked, preferred: Choice) -> Lowering | None:
    """The lowering to the instance that was measured to be best; None where it is ruled out or unknown."""
    for offer in _competing(form, asked):
        for instance in offer.instances:
            if instance.entry == preferred.entry and (asked.may_allocate or not offer.packings):
                return offer.lowering(instance, (preferred.why,))
    return None


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
