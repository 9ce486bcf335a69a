"""Warmed calls: a GPU product like one that ran before needs only its pointers and its launches.

A call is recognised by all that decides its plan and its kernels: shapes, strides, element
types and pointer alignments of its arrays, its keywords, and how many grants the policy
holds (they are one-way, so their number tells their state).  What is kept holds no array.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxgemm import array, device
from mxgemm.array import ArrayView
from mxgemm.policy import Decision, Policy
from mxgemm.road import Begun

if TYPE_CHECKING:
    from mxgemm.warm_launches import Prepared

__all__ = ["WarmCalls"]

Key = tuple[Any, ...]

_CAPACITY = 4096
_NOTHING: tuple[int, tuple[Any, ...] | None] = (0, ())  # what stands for an array that is not there
_UNKNOWN: tuple[int, tuple[Any, ...] | None] = (0, None)  # and for one that is in no key


@dataclass(slots=True)
class _WarmCall:
    """The prepared launches of one call.

    Attributes
    ----------
    launches : tuple
        In order, each with the addresses that it takes.
    ordinal : int
        The device.
    current_stream : callable
        Of the library whose stream it is.
    allocate : callable
        Makes the result beside A where the call brings no ``out=``.
    spans : tuple of int
        For A, B, D and C: first byte and the byte past the last, relative to the pointer.
    in_place : bool
        Whether C is D itself.
    workspace_bytes : int
    flags : int
        Address of a word that nobody reads.
    decision : Decision
        Reported at every call.
    apart : tuple of int
        The pointers last found to overlap in no new way, which repeated calls need not check again.
    """

    launches: tuple[Prepared, ...]
    ordinal: int
    current_stream: Callable[[], int]
    allocate: Callable[[Any], Any]
    spans: tuple[int, int, int, int, int, int, int, int]
    in_place: bool
    workspace_bytes: int
    flags: int
    decision: Decision
    apart: tuple[int, ...] = ()

    def overlaps(self, addresses: tuple[int, ...]) -> bool:
        """Whether D's bytes or the workspace's meet others in another way than when the call was prepared."""
        a, b, d, c = addresses[:4]
        if self.in_place != (c == d):
            return True
        a_first, a_past, b_first, b_past, d_first, d_past, c_first, c_past = self.spans
        first, past = d + d_first, d + d_past
        if (a + a_first < past and first < a + a_past) or (b + b_first < past and first < b + b_past):
            return True
        if c and not self.in_place and c + c_first < past and first < c + c_past:
            return True
        if addresses[4] and self._workspace_meets(addresses):
            return True
        self.apart = addresses
        return False

    def _workspace_meets(self, addresses: tuple[int, ...]) -> bool:
        work = addresses[4]
        past = work + self.workspace_bytes
        spans = zip(addresses, self.spans[::2], self.spans[1::2], strict=False)
        return work < past and any(at + first < past and work < at + end for at, first, end in spans)

    def launch_with_workspace(self, stream: int, addresses: tuple[int, ...]) -> None:
        """Queue the launches; their workspace is taken and given back in the order of the stream."""
        workspace = device.borrow(self.workspace_bytes, self.ordinal, stream)
        with_workspace = (*addresses[:4], workspace, *addresses[5:])
        try:
            for queue, pick in self.launches:
                queue(stream, pick(with_workspace))
        finally:
            device.give_back(workspace, self.ordinal, stream)


class WarmCalls:
    """The prepared calls of one process, the oldest dropped first; safe from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.version = 0  # of what decides kernels beside the keys
        self._calls: dict[Key, _WarmCall] = {}

    def attempt(  # noqa: PLR0917  # a call at every product: names would cost a tenth of it
        self, policy: Policy, a: Any, b: Any, c: Any, out: Any, workspace: Any, stream: Any, keywords: Key
    ) -> tuple[Any, Key | None]:
        """Run a call like one that ran before.

        Parameters
        ----------
        a, b, c, out, workspace, stream, keywords
            As the caller gave them; keywords with the classes of scalars, since 1 is not 1.0 to integers.

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
        # Written out: this runs at every call, and a loop over the arrays costs a microsecond more.
        read = array.READERS
        to_a, is_a = read[type(a)](a)
        to_b, is_b = read[type(b)](b)
        to_c, is_c = _NOTHING if c is None else read[type(c)](c)
        if out is None:  # the libraries allocate for their current stream
            to_out, is_out = _NOTHING if stream is None else _UNKNOWN
        else:
            to_out, is_out = read[type(out)](out)
        to_work, is_work = _NOTHING if workspace is None else read[type(workspace)](workspace)
        aligned = (to_a & 15) << 16 | (to_b & 15) << 12 | (to_out & 15) << 8 | (to_c & 15) << 4 | to_work & 15
        key = (policy.number_of_grants, aligned, is_a, is_b, is_out, is_c, is_work, keywords)
        try:
            warm = self._calls.get(key)
        except TypeError:  # the ordinary road says what is wrong with a keyword that has no hash
            return None, None
        if warm is None:
            return None, None if None in (is_a, is_b, is_c, is_out, is_work) else key
        where = warm.current_stream() if stream is None else device.stream_handle(stream)
        takes_workspace = warm.workspace_bytes and workspace is None
        new = out is None
        if new:
            device.refuse_capture(where, warm.ordinal, "the result would be allocated; pass out=")
            to_out, _ = array.fingerprint(out := warm.allocate(a))
            if to_out & 15:
                return None, None
        elif takes_workspace and device.is_capturing(where, warm.ordinal):
            return None, None  # a captured call that brings no workspace runs kernels that need none
        addresses = (to_a, to_b, to_out, to_c, to_work, warm.flags, 0)
        if (to_work or not new) and warm.apart != addresses and warm.overlaps(addresses):
            return None, None
        policy.report(warm.decision)
        if takes_workspace:
            warm.launch_with_workspace(where, addresses)
        else:
            for queue, pick in warm.launches:
                queue(where, pick(addresses))
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
            while len(self._calls) >= _CAPACITY:
                self._calls.pop(next(iter(self._calls)))
            self._calls[key] = made

    def forget(self) -> None:
        """Drop every prepared launch: other kernels may be chosen from now on."""
        with self._lock:
            self.version += 1
            self._calls.clear()


def _prepare(begun: Begun) -> _WarmCall | None:
    call, lowering = begun.call, begun.lowering
    if lowering is None or call.a.device != "cuda" or not begun.may_allocate:
        return None  # what runs under capture is not what the next call runs
    from mxgemm import gpu
    from mxgemm.warm_launches import prepared_launches

    if gpu.to_copy(call):
        return None  # nor is what copies operands that overlap D
    owner = call.a if call.out is None else call.out
    current_stream = array.stream_reader(owner)
    if current_stream is None:
        return None
    launches = prepared_launches(lowering, owner.ordinal)
    if not launches:
        return None
    views = (call.a, call.b, call.out, call.c)
    return _WarmCall(
        launches, owner.ordinal, current_stream,
        array.allocator(call.a, call.result_shape, call.problem.d.dtype),
        tuple(x for v in views for x in _span(v)),  # type: ignore[arg-type]  # four pairs
        call.c is not None and call.out is not None and call.c.pointer == call.out.pointer,
        lowering.workspace_bytes,
        gpu.unread_flags(owner.ordinal) if lowering.has_flags else 0,
        begun.plan.decision(),
    )  # fmt: skip


def _span(view: ArrayView | None) -> tuple[int, int]:
    """First byte and the byte past the last, relative to the pointer."""
    if view is None:
        return 0, 0
    first, past = view.byte_range
    return first - view.pointer, past - view.pointer
