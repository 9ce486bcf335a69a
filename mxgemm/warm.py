"""Warmed calls: a GPU product like one that ran before needs only its pointers and a launch.

A call is recognised by all that decides its plan and its kernel: shapes, strides, element
types and pointer alignments of its arrays, its keywords, and how many grants the policy
holds (they are one-way, so their number tells their state).  What is kept holds no array.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from mxgemm import array, device
from mxgemm.policy import Decision, Policy
from mxgemm.road import Begun

__all__ = ["WarmCalls"]

Key = tuple[Any, ...]

_CAPACITY = 4096
# Positions in the tuple of addresses that every warmed call makes.
_PLACES = {"a": 0, "b": 1, "d": 2, "c": 3, "flags": 4}
_ABSENT = 5


@dataclass(frozen=True, slots=True)
class _WarmCall:
    """One prepared launch.

    Attributes
    ----------
    launch : BoundLaunch
    pick : callable
        From the tuple of addresses to the kernel's, in its order.
    spans : tuple of (int, int)
        For A, B, D and C: first byte and the byte past the last, relative to the pointer.
    in_place : bool
        Whether C is D itself.
    flags : int
        Address of a word that nobody reads.
    decision : Decision
        Reported at every call.
    """

    launch: device.BoundLaunch
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    spans: tuple[tuple[int, int], ...]
    in_place: bool
    flags: int
    decision: Decision

    def overlaps(self, pointers: tuple[int, ...]) -> bool:
        """Whether D's bytes meet an input's in another way than when the call was prepared."""
        if self.in_place != (pointers[3] == pointers[2]):
            return True
        low, high = self.spans[2]
        first, past = pointers[2] + low, pointers[2] + high
        inputs = (0, 1) if self.in_place or not pointers[3] else (0, 1, 3)
        return any(
            pointers[i] + self.spans[i][0] < past and first < pointers[i] + self.spans[i][1] for i in inputs
        )


class WarmCalls:
    """The prepared launches of one process, the oldest dropped first; safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[Key, _WarmCall] = {}

    def key(
        self, policy: Policy, arrays: tuple[Any, Any, Any, Any], keywords: tuple[Any, ...]
    ) -> tuple[Key, tuple[int, ...]] | None:
        """What recognises a call, and its pointers; None when it cannot be a warmed one.

        Parameters
        ----------
        arrays : tuple
            A, B, out and C (or None).
        keywords : tuple
            Hashable, with the classes of scalars: 1 and 1.0 are different requests of integers.
        """
        pointers, facts = [], []
        for x in arrays:
            found = None if x is None else array.fingerprint(x)
            if found is None:
                if x is not None:
                    return None
                found = (0, ())
            pointers.append(found[0])
            facts.append((found[1], found[0] & 15))
        return (policy.number_of_grants, *facts, keywords), tuple(pointers)

    def run(self, key: Key, pointers: tuple[int, ...], stream: Any, out: Any, policy: Policy) -> bool:
        """Launch the call that was prepared under ``key``; False when there is none that fits.

        Parameters
        ----------
        stream
            The caller's ``stream=``.
        """
        warm = self._calls.get(key)
        if warm is None or warm.overlaps(pointers):
            return False
        policy.report(warm.decision)
        warm.launch(
            array.stream_of(stream, out, warm.launch.kernel.ordinal), *warm.pick((*pointers, warm.flags, 0))
        )
        return True

    def remember(self, key: Key, begun: Begun) -> None:
        """Keep the launch of a call that just ran, when one launch is all that it needs."""
        made = _prepare(begun)
        if made is None:
            return
        with self._lock:
            while len(self._calls) >= _CAPACITY:
                self._calls.pop(next(iter(self._calls)))
            self._calls[key] = made


def _prepare(begun: Begun) -> _WarmCall | None:
    from mxgemm import gpu
    from mxgemm.kernels.arguments import pointer_names

    call, lowering = begun.call, begun.lowering
    if lowering is None or call.out is None or lowering.packings or call.out.stream is not None:
        return None
    ordinal = call.out.ordinal
    # Any address but 0 will do: only the arguments after the pointers are kept.
    launches = list(lowering.launches(dict.fromkeys(("a", "b", "c", "d"), 1), flags=1))
    if len(launches) != 1:
        return None
    names = [lowering.form.caller_name(name) for name in pointer_names(lowering.instance)]
    places = [_PLACES.get(name, _ABSENT) for name in names]
    kernel = gpu.kernels_of(lowering, ordinal, None)[lowering.instance.entry]
    views = (call.a, call.b, call.out, call.c)
    constants = launches[0].arguments[len(names) :]
    block = (lowering.instance.threads,)
    return _WarmCall(
        device.BoundLaunch(kernel, launches[0].grid, block, len(names), constants, launches[0].maps),
        itemgetter(*places),
        tuple((0, 0) if v is None else tuple(x - v.pointer for x in v.byte_range) for v in views),  # type: ignore[misc]
        call.c is not None and call.c.pointer == call.out.pointer,
        gpu.unread_flags(ordinal) if lowering.instance.has_flags else 0,
        begun.plan.decision(),
    )
