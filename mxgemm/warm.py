"""Warmed calls: a GPU product like one that ran before needs only its pointers and a launch.

A call is recognised by all that decides its plan and its kernel: shapes, strides, element
types and pointer alignments of its arrays, its keywords, and how many grants the policy
holds (they are one-way, so their number tells their state).  What is kept holds no array.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from mxgemm import array, device
from mxgemm.array import ArrayView
from mxgemm.policy import Decision, Policy
from mxgemm.road import Begun

__all__ = ["WarmCalls"]

Key = tuple[Any, ...]
Value = TypeVar("Value")
_Result = tuple[int, tuple[int, ...], str]

_CAPACITY = 4096
# Positions in the tuple of addresses that every warmed call makes.
_PLACES = {"a": 0, "b": 1, "d": 2, "c": 3, "flags": 4}
_ABSENT = 5
_NOTHING: tuple[int, tuple[Any, ...]] = (0, ())  # what stands for an array that is not there


@dataclass(frozen=True, slots=True)
class _WarmCall:
    """One prepared launch.

    Attributes
    ----------
    launch : BoundLaunch
    pick : callable
        From the tuple of addresses to the kernel's, in its order.
    spans : tuple of int
        For A, B, D and C: first byte and the byte past the last, relative to the pointer.
    in_place : bool
        Whether C is D itself.
    flags : int
        Address of a word that nobody reads.
    decision : Decision
        Reported at every call.
    apart : list
        The pointers last found to overlap in no new way, which repeated calls need not check again.
    """

    launch: device.BoundLaunch
    pick: Callable[[tuple[int, ...]], tuple[int, ...]]
    spans: tuple[int, int, int, int, int, int, int, int]
    in_place: bool
    flags: int
    decision: Decision
    apart: list[tuple[int, ...]] = field(default_factory=list)

    def overlaps(self, pointers: tuple[int, ...]) -> bool:
        """Whether D's bytes meet an input's in another way than when the call was prepared."""
        if self.apart and self.apart[0] == pointers:
            return False
        found = self._overlaps(pointers)
        if not found:
            self.apart[:] = [pointers]
        return found

    def _overlaps(self, pointers: tuple[int, ...]) -> bool:
        a, b, d, c = pointers
        if self.in_place != (c == d):
            return True
        a_first, a_past, b_first, b_past, d_first, d_past, c_first, c_past = self.spans
        first, past = d + d_first, d + d_past
        if (a + a_first < past and first < a + a_past) or (b + b_first < past and first < b + b_past):
            return True
        return bool(c) and not self.in_place and c + c_first < past and first < c + c_past


class WarmCalls:
    """The prepared launches of one process, the oldest dropped first; safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[Key, _WarmCall] = {}
        self._results: dict[Key, _Result] = {}

    def new_result(
        self, policy: Policy, operands: tuple[Any, Any, Any], keywords: tuple[Any, ...]
    ) -> tuple[Key | None, Any]:
        """A new array for the result of a call like one that ran before, so that it can be a warmed one.

        Returns
        -------
        key : Key or None
            For :meth:`remember_result`; None when no call of these arrays can be a warmed one.
        array : object
            None when the result's shape is not known yet.

        Raises
        ------
        UnsupportedError
            While the current stream captures a CUDA graph.
        """
        a, b, c = operands
        of_a, of_b = array.fingerprint(a), array.fingerprint(b)
        of_c = _NOTHING if c is None else array.fingerprint(c)
        if of_a is None or of_b is None or of_c is None:
            return None, None
        key = (policy.number_of_grants, of_a[1], of_b[1], of_c[1], keywords)
        known = self._results.get(key)
        if known is None:
            return key, None
        ordinal, shape, dtype = known
        stream = array.stream_of(None, a, ordinal)
        device.refuse_capture(stream, ordinal, "the result would be allocated; pass out=")
        return key, array.new_like(a, ordinal, shape, dtype)

    def remember_result(self, key: Key, begun: Begun) -> None:
        """Keep what the result of a call that just ran on a GPU looks like."""
        if begun.lowering is None or begun.call.a.device != "cuda":
            return
        made = (begun.call.a.ordinal, begun.call.result_shape, begun.call.problem.d.dtype)
        with self._lock:
            _put(self._results, key, made)

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
        # Written out: this runs at every call, and a loop over four arrays costs a microsecond more.
        a, b, out, c = arrays
        of_a, of_b, of_out = array.fingerprint(a), array.fingerprint(b), array.fingerprint(out)
        of_c = _NOTHING if c is None else array.fingerprint(c)
        if of_a is None or of_b is None or of_out is None or of_c is None:
            return None
        to_a, is_a = of_a
        to_b, is_b = of_b
        to_out, is_out = of_out
        to_c, is_c = of_c
        aligned = (to_a & 15) << 12 | (to_b & 15) << 8 | (to_out & 15) << 4 | to_c & 15
        return (policy.number_of_grants, aligned, is_a, is_b, is_out, is_c, keywords), (
            to_a,
            to_b,
            to_out,
            to_c,
        )

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
            _put(self._calls, key, made)


def _put(kept: dict[Key, Value], key: Key, value: Value) -> None:
    while len(kept) >= _CAPACITY:
        kept.pop(next(iter(kept)))
    kept[key] = value


def _prepare(begun: Begun) -> _WarmCall | None:
    from mxgemm import gpu
    from mxgemm.kernels.arguments import pointer_names

    call, lowering = begun.call, begun.lowering
    if lowering is None or call.out is None or lowering.workspace_bytes or call.out.stream is not None:
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
        tuple(x for v in views for x in _span(v)),  # type: ignore[arg-type]  # four pairs
        call.c is not None and call.c.pointer == call.out.pointer,
        gpu.unread_flags(ordinal) if lowering.has_flags else 0,
        begun.plan.decision(),
    )


def _span(view: ArrayView | None) -> tuple[int, int]:
    """First byte and the byte past the last, relative to the pointer."""
    if view is None:
        return 0, 0
    first, past = view.byte_range
    return first - view.pointer, past - view.pointer
