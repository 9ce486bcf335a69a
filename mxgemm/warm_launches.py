"""The launches of a lowering with their pointers left open, so that a warmed call only fills them in."""

from __future__ import annotations

from collections.abc import Callable

from mxgemm import device, gpu
from mxgemm.kernels import Launch, Lowering
from mxgemm.kernels.canonical import ARRAYS

__all__ = ["prepared_launches"]

Pick = Callable[[tuple[int, ...]], tuple[int, ...]]

_MOST = 16  # launches: a longer batch costs more on the device than the ordinary road on the host
# What a launch takes addresses of: those of a call in its order, the word for flags; the last is no address.
_NAMES = ("a", "b", "d", "c", "bias", "workspace", "scale_rows", "scale_cols", "flags", "")
_NONE = len(_NAMES) - 1


def prepared_launches(lowering: Lowering, ordinal: int, flags: int) -> tuple[device.BoundLaunch, ...]:
    """Every launch, in order.

    Parameters
    ----------
    lowering : Lowering
    ordinal : int
        The device, on which its kernels are loaded.
    flags : int
        Address of the word in which kernels set flags.

    Returns
    -------
    tuple of BoundLaunch
        Each ``queue`` takes a stream and the addresses of A, B, D, C, the bias, the workspace, the row and
        the column scales, in this order.  Empty when there is nothing to launch or too much to keep.
    """
    made = _asked_twice(lowering)
    if not 0 < len(made) <= _MOST:
        return ()
    kernels = gpu.kernels_of(lowering, ordinal, None)
    return tuple(_prepared(kernels[one.instance.entry], one, other, flags) for one, other in made)


# Addresses that differ from each other, and from those of the second time by different amounts.
_FIRST = {name: (i + 1) << 40 for i, name in enumerate(_NAMES[:-1])}
_SECOND = {name: at + ((i + 1) << 32) for i, (name, at) in enumerate(_FIRST.items())}
_PLACE_OF = {_SECOND[name] - _FIRST[name]: _NAMES.index(name) for name in _FIRST}


def _asked_twice(lowering: Lowering) -> list[tuple[Launch, Launch]]:
    """The same launches at different addresses: the arguments that differ are the pointers."""
    form = lowering.form
    present = [form.caller_name(name) for name in ARRAYS if getattr(form.problem, name) is not None]
    times = [
        lowering.launches({name: at[name] for name in present}, workspace=at["workspace"], flags=at["flags"])
        for at in (_FIRST, _SECOND)
    ]
    found: list[tuple[Launch, Launch]] = []
    for pair in zip(*times, strict=True):
        found.append(pair)
        if len(found) > _MOST:
            break
    return found


def _prepared(kernel: device.CompiledKernel, one: Launch, other: Launch, flags: int) -> device.BoundLaunch:
    # A scalar is no address, and the difference of two NaNs or infinities is no number.
    pairs = zip(one.arguments, other.arguments, strict=True)
    moved = [0 if isinstance(x, float) else int(y) - x for x, y in pairs]
    count = max((i + 1 for i, by in enumerate(moved) if by), default=0)
    # A pointer that does not move is that of an absent array.
    places = [_PLACE_OF.get(by, _NONE) for by in moved[:count]]
    offsets = [int(x) - _FIRST.get(_NAMES[place], 0) for x, place in zip(one.arguments, places, strict=False)]
    return device.BoundLaunch(
        kernel, one.grid, (one.instance.threads,), count, one.arguments[count:], one.maps,
        programmatic=one.instance.programmatic, pick=_picker(places, offsets, flags),
    )  # fmt: skip


def _picker(places: list[int], offsets: list[int], flags: int) -> Pick:
    """What takes a launch's pointers from the addresses of a call."""
    steps, others = list(zip(places, offsets, strict=True)), (flags, 0)

    def pick(addresses: tuple[int, ...]) -> tuple[int, ...]:
        every = addresses + others
        return tuple([every[place] + offset for place, offset in steps])

    return pick
