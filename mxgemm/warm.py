"""Warmed calls: a GPU product like one that ran before needs only its pointers and its launches.

A call is recognised by all that decides its plan and its kernels: shapes, strides, element
types and pointer alignments of its arrays, those of its epilogue among them, its keywords,
and how many grants the policy holds (they are one-way, so their number tells their state).
What is kept holds no array.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mxgemm import array, device, gpu
from mxgemm.array import ArrayView
from mxgemm.call import Call
from mxgemm.device import BoundLaunch
from mxgemm.policy import Decision, Policy
from mxgemm.road import Begun
from mxgemm.warm_launches import prepared_launches
from mxgemm.warm_repeats import Repeats, keep

__all__ = ["WarmCalls"]

Facts = tuple[Any, ...]
Key = tuple[Any, ...]
Scales = tuple[Any, Any]
# Of A, B, D, C, the bias, the workspace, the row and the column scales; 0 where there is none.
Addresses = tuple[int, int, int, int, int, int, int, int]

_WORKSPACE = 5  # its place there
_CAPACITY = 4096
_NOTHING: tuple[int, tuple[Any, ...] | None] = (0, ())  # what stands for an array that is not there
_NOWHERE: Addresses = (0, 0, 0, 0, 0, 0, 0, 0)
_UNKNOWN: tuple[int, tuple[Any, ...] | None] = (0, None)  # and for one that is in no key


@dataclass(frozen=True, slots=True)
class _WarmCall:
    """The prepared launches of one call.

    Attributes
    ----------
    launches : tuple of BoundLaunch
        In order; each takes its share of the addresses.
    ordinal : int
        The device.
    current_stream : callable
        Of the library whose stream it is.
    allocate : callable
        Makes the result beside A where the call brings no ``out=``, and tells its address.
    result : tuple of int
        D's first byte and the byte past the last, relative to the pointer.
    inputs : tuple of tuple of int
        For every array that is read beside D: its place among addresses, first byte and byte past the last.
    in_place : bool
        Whether C is D itself.
    workspace_bytes : int
    decision : Decision
        Reported at every call.
    """

    launches: tuple[BoundLaunch, ...]
    ordinal: int
    current_stream: Callable[[], int]
    allocate: Callable[[Any], tuple[Any, int]]
    result: tuple[int, int]
    inputs: tuple[tuple[int, int, int], ...]
    in_place: bool
    workspace_bytes: int
    decision: Decision

    def overlaps(self, addresses: Addresses) -> bool:
        """Whether D's bytes or the workspace's meet others in another way than when the call was prepared."""
        _, _, d, c, _, work, _, _ = addresses
        if self.in_place != (c == d):
            return True
        first, past = d + self.result[0], d + self.result[1]
        if self._reads_in(first, past, addresses):
            return True
        if not work or not self.workspace_bytes:
            return False
        end = work + self.workspace_bytes
        return (first < end and work < past) or self._reads_in(work, end, addresses)

    def _reads_in(self, first: int, past: int, addresses: Addresses) -> bool:
        for place, low, high in self.inputs:
            at = addresses[place]
            if at + low < past and first < at + high:
                return True
        return False

    def with_result(self, a: Any, addresses: Addresses, stream: int) -> tuple[Any, Addresses]:
        """A new result beside A, and the addresses with its own; None where it is not as was prepared for."""
        device.refuse_capture(stream, self.ordinal, "the result would be allocated; pass out=")
        out, to_out = self.allocate(a)
        with_out = (*addresses[:2], to_out, *addresses[3:])
        # It overlaps no array that exists; what a caller's workspace overlaps is looked at together.
        as_prepared = not to_out & 15 and not (addresses[_WORKSPACE] and self.overlaps(with_out))
        return out if as_prepared else None, with_out

    def launch_with_workspace(self, stream: int, addresses: Addresses) -> None:
        """Queue the launches; their workspace is taken and given back in the order of the stream."""
        workspace = device.borrow(self.workspace_bytes, self.ordinal, stream)
        with_workspace = (*addresses[:_WORKSPACE], workspace, *addresses[_WORKSPACE + 1 :])
        try:
            for launch in self.launches:
                launch.queue(stream, with_workspace)
        finally:
            device.give_back(workspace, self.ordinal, stream)


class _Seen:
    """A call at addresses, which overlap in no new way where its D is one of them.

    Attributes
    ----------
    again : int
        How often it was met again without being found as one that repeats.
    """

    __slots__ = ("addresses", "again", "facts", "warm")

    def __init__(self, facts: Facts, addresses: Addresses, warm: _WarmCall) -> None:
        self.facts, self.addresses, self.warm = facts, addresses, warm
        self.again = 0

    def is_worth_keeping(self) -> bool:
        """Whether to keep the call as one that repeats.

        At the first, second, fourth … time, since new arrays at old addresses may never come again.
        """
        self.again += 1
        return not self.again & (self.again - 1)


class _Known:
    """What is remembered until everything is forgotten.

    Attributes
    ----------
    calls : dict
        By key, the oldest first.
    seen : dict
        The last call at each addresses: comparing its facts with a call's costs half of finding those in
        ``calls``, and its overlap need not be checked again.  Written without the lock: an entry that another
        thread drops or replaces costs that call one look more.
    repeats : dict
        Calls that were seen again with nothing but A, B and ``out=``; written without the lock as well.
    """

    __slots__ = ("calls", "repeats", "seen")

    def __init__(self) -> None:
        self.calls: dict[Key, _WarmCall] = {}
        self.seen: dict[Addresses, _Seen] = {}
        self.repeats: Repeats = {}

    def find(self, addresses: Addresses, facts: Facts, *, new: bool) -> tuple[_Seen | None, Key | None]:
        """The call of these facts at these addresses, else a key for it where it may be remembered.

        There is none while D overlaps in a new way, and never where an array has no facts.
        """
        if facts[-1] is None:
            return None, None
        key = (_alignments(addresses), facts)
        try:
            warm = self.calls.get(key)
        except TypeError:  # the ordinary road says what is wrong with a keyword that has no hash
            return None, None
        if warm is None:
            return None, key
        if not new and warm.overlaps(addresses):
            return None, None
        if len(self.seen) >= _CAPACITY:
            self.seen.clear()
        found = self.seen[addresses] = _Seen(facts, addresses, warm)
        return found, None


class WarmCalls:
    """The prepared calls of one process, the oldest dropped first; safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.version = 0  # of what decides kernels beside the keys
        self._known = _Known()  # replaced as a whole, so that calls under way cannot keep what was forgotten
        self.repeats = self._known.repeats

    def attempt(  # noqa: PLR0912, PLR0917  # a call at every product: parts and names would cost a tenth of it
        self, policy: Policy, a: Any, b: Any, c: Any, out: Any, bias: Any, scales: Scales | None,
        workspace: Any, stream: Any, keywords: Facts,
    ) -> tuple[Any, Key | None]:  # fmt: skip
        """Run a call like one that ran before.

        Parameters
        ----------
        a, b, c, out, bias, workspace, stream
            As the caller gave them.
        scales : tuple of arrays or None
            Of rows and of columns; None where there are neither.
        keywords : tuple
            The others' classes, since 1 is not 1.0 to integers, and after these their values, so that values
            are compared with those of their own class alone.

        Returns
        -------
        result : object
            The array; None when the call did not run.
        key : Key or None
            For :meth:`remember`, of a call that did not run; None when it cannot be a warmed one.

        Raises
        ------
        UnsupportedError
            While the stream captures a CUDA graph and the call brings no ``out=``.
        """
        kind, known, new, again = type(a), self._known, out is None, False
        if kind is type(b) and kind is type(out):
            to_a, to_b, to_out, layouts = array.LIBRARIES[kind].fingerprints(a, b, out)
        else:
            to_a, to_b, to_out, layouts = _one_by_one(a, b, out, stream)
        plain = c is None and bias is None and workspace is None and scales is None
        if plain:
            addresses: Addresses = (to_a, to_b, to_out, 0, 0, 0, 0, 0)
        else:
            addresses, layouts = _further(to_a, to_b, to_out, layouts, c, bias, workspace, scales)
        facts = (policy.number_of_grants, keywords, layouts)
        seen = known.seen.get(addresses)
        if seen is None or seen.facts != facts:
            seen, key = known.find(addresses, facts, new=new)
            if seen is None:
                return None, key
        elif plain and stream is None and kind is type(b) and kind is type(out):
            again = seen.is_worth_keeping()
        addresses, warm = seen.addresses, seen.warm
        where = warm.current_stream() if stream is None else device.stream_handle(stream)
        takes_workspace = warm.workspace_bytes and workspace is None
        if new:
            out, addresses = warm.with_result(a, addresses, where)
            if out is None:
                return None, None
        elif takes_workspace and device.is_capturing(where, warm.ordinal):
            return None, None  # a captured call that brings no workspace runs kernels that need none
        policy.report(warm.decision)
        if takes_workspace:
            warm.launch_with_workspace(where, addresses)
            return out, None
        for launch in warm.launches:
            launch.queue(where, addresses)
        if again:
            reader, launches = warm.current_stream, warm.launches
            keep(known.repeats, (a, b, out), keywords, policy, facts[0], reader, where, launches, addresses)
        return out, None

    def remember(self, key: Key, begun: Begun, version: int) -> None:
        """Keep the launches of a call that just ran, when they are few.

        Parameters
        ----------
        version : int
            What ``version`` was before the call was planned: a plan from before :meth:`forget` is not kept.
        """
        made = _prepare(begun)
        if made is None:
            return
        with self._lock:
            if version != self.version:
                return
            calls = self._known.calls
            while len(calls) >= _CAPACITY:
                calls.pop(next(iter(calls)))
            calls[key] = made

    def forget(self) -> None:
        """Drop every prepared launch: other kernels may be chosen from now on."""
        with self._lock:
            self.version += 1
            self._known = _Known()
            self.repeats = self._known.repeats


def _one_by_one(a: Any, b: Any, out: Any, stream: Any) -> tuple[int, int, int, tuple[Any, ...] | None]:
    """Addresses and facts of A, B and D of any libraries, or without D; no facts where one has none."""
    to_a, is_a = array.LIBRARIES[type(a)].fingerprint(a)
    to_b, is_b = array.LIBRARIES[type(b)].fingerprint(b)
    if out is None:  # the libraries allocate for their current stream
        to_out, is_out = _NOTHING if stream is None else _UNKNOWN
    else:
        to_out, is_out = array.LIBRARIES[type(out)].fingerprint(out)
    if is_a is None or is_b is None or is_out is None:
        return 0, 0, 0, None
    return to_a, to_b, to_out, (is_a, is_b, is_out)


def _further(  # noqa: PLR0917  # as for attempt
    to_a: int, to_b: int, to_out: int, layouts: tuple[Any, ...] | None,
    c: Any, bias: Any, workspace: Any, scales: Scales | None,
) -> tuple[Addresses, tuple[Any, ...] | None]:  # fmt: skip
    """Addresses and facts with those of the arrays that few calls have; no facts where one has none."""
    to_c, is_c = _NOTHING if c is None else array.LIBRARIES[type(c)].fingerprint(c)
    to_bias, is_bias = _NOTHING if bias is None else array.LIBRARIES[type(bias)].fingerprint(bias)
    if layouts is None or is_c is None or is_bias is None:
        return _NOWHERE, None
    if workspace is None and scales is None:
        return (to_a, to_b, to_out, to_c, to_bias, 0, 0, 0), (layouts, is_c, is_bias)
    work, (rows, cols) = workspace, scales or (None, None)
    to_work, is_work = _NOTHING if work is None else array.LIBRARIES[type(work)].fingerprint(work)
    to_rows, are_rows = _NOTHING if rows is None else array.LIBRARIES[type(rows)].fingerprint(rows)
    to_cols, are_cols = _NOTHING if cols is None else array.LIBRARIES[type(cols)].fingerprint(cols)
    if is_work is None or are_rows is None or are_cols is None:
        return _NOWHERE, None
    addresses = (to_a, to_b, to_out, to_c, to_bias, to_work, to_rows, to_cols)
    return addresses, (layouts, is_c, is_bias, is_work, are_rows, are_cols)


def _alignments(addresses: Addresses) -> int:
    """The last four bits of each address."""
    a, b, d, c, bias, work, rows, cols = addresses
    of_terms = (bias & 15) << 8 | (rows & 15) << 4 | cols & 15
    return (a & 15) << 28 | (b & 15) << 24 | (d & 15) << 20 | (c & 15) << 16 | (work & 15) << 12 | of_terms


def _prepare(begun: Begun) -> _WarmCall | None:
    call, lowering = begun.call, begun.lowering
    if lowering is None or call.a.device != "cuda" or not begun.may_allocate:
        return None  # what runs under capture is not what the next call runs
    if gpu.to_copy(call):
        return None  # nor is what copies operands that overlap D
    owner = call.a if call.out is None else call.out
    current_stream = array.stream_reader(owner)
    if current_stream is None:
        return None
    flags = gpu.unread_flags(owner.ordinal) if lowering.has_flags else 0
    launches = prepared_launches(lowering, owner.ordinal, flags)
    if not launches:
        return None
    in_place = call.c is not None and call.out is not None and call.c.pointer == call.out.pointer
    return _WarmCall(
        launches, owner.ordinal, current_stream,
        array.allocator(call.a, call.result_shape, call.problem.d.dtype),
        (0, 0) if call.out is None else _span(call.out),
        _inputs(call, in_place=in_place),
        in_place,
        lowering.workspace_bytes,
        begun.plan.decision(),
    )  # fmt: skip


def _inputs(call: Call, *, in_place: bool) -> tuple[tuple[int, int, int], ...]:
    """For every array that is read beside D: its place among addresses and its span."""
    c = None if in_place else call.c
    views = (call.a, call.b, None, c, call.bias, None, call.scale_rows, call.scale_cols)
    return tuple((place, *_span(view)) for place, view in enumerate(views) if view is not None)


def _span(view: ArrayView) -> tuple[int, int]:
    """First byte and the byte past the last, relative to the pointer."""
    first, past = view.byte_range
    return first - view.pointer, past - view.pointer
