"""Calls that repeat one exactly: one look at the arrays and the keywords, and the launch.

What is kept belongs to one call: its arrays as they were, its keywords by identity, the policy in its state
of then, the stream.  Any difference only sends the call on to :class:`mxgemm.warm.WarmCalls`, which tells
whether it is a warmed one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxgemm import array
from mxgemm.device import BoundLaunch
from mxgemm.policy import Policy

__all__ = ["Repeats", "keep"]

# By the class of D: how one is found, and what is kept.  A repeat is (alpha, beta, transpose_a, transpose_b,
# precision, max_error, the policy, its number of grants, what reads the current stream, that stream, what
# queues the launch, its arguments, their memory): what costs a call the least to compare.
Repeats = dict[type, tuple[array.Repeated, dict[Any, Any]]]

_CAPACITY = 1024
_KEYWORDS = 10  # classes of four and six values, of a call without out_dtype, device and epilogue
# Of precision and max_error, whose values do not change while they are the same object.
_CONSTANT = frozenset({type(None), str, int, float})


def keep(  # noqa: PLR0917  # all that makes a call what it is
    repeats: Repeats, arrays: tuple[Any, Any, Any], keywords: tuple[Any, ...], policy: Policy, grants: int,
    current_stream: Callable[[], int], stream: int, launches: tuple[BoundLaunch, ...],
    addresses: tuple[int, ...],
) -> None:  # fmt: skip
    """Keep a call that was just queued, if it is of the kind that can repeat.

    Parameters
    ----------
    arrays : tuple of array
        A, B and D, of one class; there is no other.
    keywords : tuple
        As :meth:`mxgemm.warm.WarmCalls.attempt` takes them.
    grants : int
        How many the policy held when the call was recognised: a grant since then may ask for another plan.
    stream : int
        What ``current_stream`` said.
    launches : tuple of BoundLaunch
        One, whose failure leaves nothing half done.
    """
    kind = type(arrays[2])
    library = array.LIBRARIES[kind]
    if library.keep is None or library.repeated is None or len(launches) != 1:
        return
    if policy.unheard != grants or len(keywords) != _KEYWORDS or not _CONSTANT.issuperset(keywords[2:4]):
        return
    fixed = launches[0].fixed(stream, addresses)
    if fixed is None:
        return
    _, kept = repeats.setdefault(kind, (library.repeated, {}))
    if len(kept) >= _CAPACITY:
        kept.clear()
    library.keep(kept, *arrays, (*keywords[4:], policy, grants, current_stream, stream, *fixed))
