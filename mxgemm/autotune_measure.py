"""Measuring the candidates of one product: the same bits from each, then bursts in turn."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from mxgemm import device, gpu
from mxgemm.autotune_operands import Operands
from mxgemm.device import timing
from mxgemm.errors import VerificationError
from mxgemm.kernels import Candidate, Lowering
from mxgemm.problem import GemmProblem

__all__ = ["Peer", "measure"]

_CALLS = 8  # of a burst
_LONGEST = 20_000  # microseconds of a burst, about
# A candidate whose first call takes so much longer than the best's is not measured further.
_SLOW, _SLOW_US = 2.0, 100
_COMPILERS = 8

Kernels = Mapping[str, device.CompiledKernel]
Call = Callable[[int], None]  # of the number of the operand set

Peer = Callable[[int], Call]
"""From a stream's handle to a call that queues on it, for what candidates are compared with."""

_lock = threading.Lock()  # measurements of one process would disturb each other


def measure(
    problem: GemmProblem,
    candidates: Sequence[Candidate],
    ordinal: int,
    *,
    alignment: Mapping[str, int],
    seconds: float,
    always: str,
    peers: Mapping[str, Peer] | None = None,
) -> dict[str, timing.Timing]:
    """Microseconds of each candidate by its instance's entry, and of each peer by its name.

    Candidates run on random operands of their own, the same for all; D is compared first.

    Parameters
    ----------
    problem : GemmProblem
    candidates : sequence of Candidate
    ordinal : int
    alignment : mapping of str to int
        Of the pointers, by the caller's names; 16 where not named.
    seconds : float
        About as long as the bursts may take.
    always : str
        Entry of a candidate that is measured in every round, however slow it is.
    peers : mapping of str to Peer, optional
        Measured in every round, captured as candidates are: a library's own replay may queue them late.

    Raises
    ------
    VerificationError
        When two candidates differ in a bit of D.
    DriverError
        Where the device has too little memory.
    """
    others, lowerings = peers or {}, {one.lowering.instance.entry: one.lowering for one in candidates}
    kernels = _compiled(lowerings, ordinal)
    with _lock, ExitStack() as end:
        stream = end.enter_context(timing.own_stream(ordinal))
        clock = end.enter_context(timing.Clock(stream, ordinal))
        operands = Operands(problem, alignment, ordinal, stream)
        end.callback(operands.done)
        workspace = device.allocate(max(one.workspace_bytes for one in lowerings.values()), ordinal, stream)
        end.callback(workspace.done, stream)
        memory = (operands.pointers, workspace.pointer)
        calls: dict[str, Call] = {
            entry: partial(_queue, one, kernels[entry], *memory, ordinal, stream)
            for entry, one in lowerings.items()
        }
        _compare(calls, lowerings, operands)
        single = {entry: 1e3 * clock.milliseconds(partial(call, 0)) for entry, call in calls.items()}
        least = min(single.values())
        count = min(_CALLS, max(2, int(_LONGEST / max(least, 1.0))))
        limit = _SLOW * least + _SLOW_US
        racing = {name: peer(stream) for name, peer in others.items()}
        racing |= {entry: call for entry, call in calls.items() if entry == always or single[entry] <= limit}
        bursts = {}
        for name, call in racing.items():
            work = end.enter_context(timing.Captured(partial(_several, call, count), stream, ordinal))
            bursts[name] = timing.Burst(work, count)
        raced = timing.race(bursts, clock, seconds=seconds, always=(always, *others))
    return {**{entry: timing.Timing(us, 1) for entry, us in single.items()}, **raced}


def _compiled(lowerings: Mapping[str, Lowering], ordinal: int) -> dict[str, Kernels]:
    """The kernels of each lowering, compiled side by side."""
    with ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1)) as threads:
        made = {entry: threads.submit(gpu.kernels_of, one, ordinal, None) for entry, one in lowerings.items()}
        return {entry: one.result() for entry, one in made.items()}


def _queue(  # noqa: PLR0917  # bound once, but for the number
    lowering: Lowering,
    kernels: Kernels,
    pointers: Sequence[Mapping[str, int]],
    workspace: int,
    ordinal: int,
    stream: int,
    number: int,
) -> None:
    """Queue one call on the operand set of that number."""
    flags = gpu.unread_flags(ordinal) if lowering.has_flags else 0
    named = pointers[number % len(pointers)]
    for launch in lowering.launches(named, workspace=workspace, flags=flags):
        device.launch(
            kernels[launch.instance.entry], launch.grid, (launch.instance.threads,), stream, launch.arguments,
            maps=launch.maps, pointers=launch.pointers, programmatic=launch.instance.programmatic,
        )  # fmt: skip


def _several(call: Call, count: int) -> None:
    for number in range(count):
        call(number)


def _compare(calls: Mapping[str, Call], lowerings: Mapping[str, Lowering], operands: Operands) -> None:
    """Run each candidate once and compare D; any NaN equals any NaN.

    Raises
    ------
    VerificationError
        When two candidates differ.
    """
    first: tuple[str, np.ndarray[Any, Any]] | None = None
    for entry, call in calls.items():
        operands.poison_d()
        call(0)
        found = operands.sample_of_d()
        if first is None:
            first = (entry, found)
        if found.tobytes() == first[1].tobytes():
            continue
        differ = (found.view(np.uint8) != first[1].view(np.uint8)).reshape(found.size, -1).any(axis=1)
        differ &= ~(np.isnan(found) & np.isnan(first[1]))
        if differ.any():
            raise VerificationError(
                f"{lowerings[entry].instance} and {lowerings[first[0]].instance} differ in "
                f"{np.count_nonzero(differ)} of {found.size} entries of D compared; report this"
            )
