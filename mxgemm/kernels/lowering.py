"""From a problem to what runs: canonical form, copies, the family and its cheapest instance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.kernels.canonical import Canonical, canonical
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.launches import Lowering
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.offers import Asked, Offer, cheapest, offers
from mxgemm.kernels.table import KERNELS
from mxgemm.problem import GemmProblem, Matrix
from mxgemm.units.results import result_accumulator

if TYPE_CHECKING:
    from mxgemm.kernels.tuned import Choice

__all__ = ["ALIGNED", "Candidate", "candidates", "lower", "select"]

ALIGNED: Mapping[str, int] = MappingProxyType({})
"""Pointer alignments when nothing is known of the pointers: an array missing here counts as 16 bytes."""


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


class Candidate(NamedTuple):
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
    found = tuple(
        Candidate(offer.lowering(instance), cost + offer.copying if offer.family.is_timed else None)
        for offer in chain.from_iterable(_competing(form, asked))
        for instance, cost in offer.priced
    )
    if not found:
        raise _no_kernel(problem, asked)
    return found


def _read(  # noqa: PLR0917  # lower's own arguments, in its order
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    alignment: Mapping[str, int],
    multiprocessors: int,
    copied: Collection[str],
    *,
    may_allocate: bool,
) -> tuple[Canonical, Asked]:
    """The canonical form, and the rest of what was asked."""
    _check_alignment(problem, alignment)
    accumulator = result_accumulator(problem, configuration)
    asked = Asked(configuration, arch, accumulator, alignment, multiprocessors, copied, may_allocate)
    return canonical(problem), asked


def _no_kernel(problem: GemmProblem, asked: Asked) -> UnsupportedError:
    return UnsupportedError(
        f"{asked.configuration.name} has no kernel on {asked.arch} for {problem}; "
        f"kernel families are {one_of([family.name for family in KERNELS])}"
    )


def _competing(form: Canonical, asked: Asked) -> Iterator[tuple[Offer, ...]]:
    """The offers up to the first family whose cost is no time: what comes after is never faster."""
    for of_forms in offers(KERNELS, form, asked):
        yield of_forms
        if not of_forms[0].family.is_timed:
            return


def _as_modelled(form: Canonical, asked: Asked) -> Lowering | None:
    """The cheapest instance of the first family that does not decline; None where no family has one."""
    found: list[tuple[Lowering, str | None]] = []
    for of_forms in offers(KERNELS, form, asked):
        found.append(cheapest(of_forms, asked))
        if found[-1][1] is None:
            break
    if not found:
        return None
    # Where every family declines, the first one that can runs after all.
    best = found[-1][0] if found[-1][1] is None else found[0][0]
    declined = tuple(reason for made, reason in found if reason is not None and made is not best)
    return replace(best, why=(*declined, *best.why))


def _as_measured(form: Canonical, asked: Asked, preferred: Choice) -> Lowering | None:
    """The lowering to the instance that was measured to be best; None where it is ruled out or unknown."""
    for offer in chain.from_iterable(_competing(form, asked)):
        for instance, _ in offer.priced:
            if instance.entry == preferred.entry and (asked.may_allocate or not offer.packed.packings):
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
