"""From a problem to what runs: canonical form, copies, the family and its cheapest instance."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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
from mxgemm.problem import GemmProblem, Matrix
from mxgemm.units.run import result_accumulator

__all__ = ["ALIGNED", "lower", "select"]

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
            made = arrangement_of(
                name, x, problem.batch, offset, along_rows=along_rows, rounded=as_wanted.rounded
            )
        else:
            made = packing_of(name, x, problem.batch, offset)
        if as_wanted is not None:
            wanted.append(made.bytes)
        offset += aligned_bytes(made.bytes)
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
        for name in ARRAYS
    }
    wanted = product_class(
        form.problem, family, asked.configuration, asked.arch, asked.accumulator,
        alignment=known, multiprocessors=asked.multiprocessors,
    )  # fmt: skip
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
