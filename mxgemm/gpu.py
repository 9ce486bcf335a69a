"""run on the GPU: a planned call becomes compiled kernels, pointers and launches.

Nothing here decides numerics: :mod:`mxgemm.kernels` chose the kernel, which gives the bits
of the CPU model.  Inputs that the result overlaps are packed into workspace first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from mxgemm import array, device
from mxgemm.array import ArrayView
from mxgemm.call import Call
from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels import KernelInstance, Lowering, lower, signature
from mxgemm.kernels import remembered as choices
from mxgemm.plan import Plan
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand, contiguous
from mxgemm.units.results import FLOAT8_OVERFLOW, OPERAND_OVERFLOW

if TYPE_CHECKING:
    from mxgemm.kernels import PackInstance

__all__ = [
    "DeviceRun",
    "alignments",
    "compile_ahead",
    "kernels_of",
    "lower_call",
    "run_device",
    "to_copy",
    "unread_flags",
]

_FLAGS = {1: OPERAND_OVERFLOW, 2: FLOAT8_OVERFLOW}
_FLAG_BYTES = 4


def as_uploaded(call: Call) -> Call:
    """``call`` with host arrays posed as the row-major copies that :func:`upload` will make of them."""
    if call.a.host is None:
        return call

    def copied(view: ArrayView | None) -> Operand | None:
        return None if view is None else contiguous(view.dtype, view.shape)

    problem, _ = pose(
        contiguous(call.a.dtype, call.a.shape),
        contiguous(call.b.dtype, call.b.shape),
        copied(call.c),
        alpha=call.problem.alpha,
        beta=call.problem.beta,
        transpose_a=call.transpose_a,
        transpose_b=call.transpose_b,
        out_dtype=call.problem.d.dtype,
        epilogue=call.problem.epilogue,
        bias=copied(call.bias),
        scale_rows=copied(call.scale_rows),
        scale_cols=copied(call.scale_cols),
    )
    return call._replace(problem=problem)


def upload(call: Call, ordinal: int, stream: int) -> Call:
    """Copy host arrays to new device memory; ``out`` stays on the host and is written last."""
    if call.a.host is None:
        return call
    copies: dict[str, Any] = {name: array.upload(view, ordinal, stream) for name, view in call.inputs()}
    return call._replace(**copies)


def new_result(call: Call, ordinal: int, stream: int) -> ArrayView:
    """New device memory for D: of A's library, or nobody's where A came from the host."""
    dtype, shape = call.problem.d.dtype, call.result_shape
    if call.a.host is None:
        device.refuse_capture(stream, ordinal, "the result would be allocated; pass out=")
        return array.empty_like_owner(call.a, shape, dtype, stream=stream)
    operand = contiguous(dtype, shape)
    memory = device.allocate(math.prod(shape) * array.numpy_dtype(dtype).itemsize, ordinal, stream)
    return ArrayView("numpy", "cuda", ordinal, memory.pointer, shape, operand.strides, dtype, memory)


def lower_call(
    call: Call, made: Plan, *, may_allocate: bool = True, remembered: bool = True
) -> tuple[Plan, Lowering]:
    """Choose the kernel for a planned call; the Plan then names it and the workspace.

    Parameters
    ----------
    may_allocate : bool
        Whether there can be workspace: not while a stream captures a CUDA graph without ``workspace=``.
    remembered : bool
        Whether a choice that autotune measured counts.
    """
    lowering = _lowered(
        made.problem,
        made.configuration,
        call.capabilities.arch,
        str(made.problem.epilogue),
        alignments(call),
        (call.capabilities.name, call.capabilities.multiprocessors),
        to_copy(call),
        may_allocate=may_allocate,
        version=choices.version() if remembered else None,
    )
    named = replace(
        made, kernel=lowering.instance, workspace_bytes=lowering.workspace_bytes, notes=lowering.notes
    )
    return named, lowering


@lru_cache(maxsize=4096)
def _lowered(  # noqa: PLR0917 — a cache key in order
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    _epilogue: str,
    alignment: tuple[tuple[str, int], ...],
    on: tuple[str, int],
    copied: frozenset[str],
    *,
    may_allocate: bool,
    version: int | None,
) -> Lowering:
    """Remember the kernel of a problem, which depends on nothing else.

    The epilogue's text tells clamp(-0.0, …) from clamp(0.0, …), which are equal as numbers; ``on`` is a
    device's name and multiprocessors, and ``version`` tells what autotune had measured, if that counts.
    """
    pointers = dict(alignment)
    words = "" if version is None else signature(problem, configuration, arch, pointers, copied)
    preferred = None if version is None else choices.find(choices.Key(*on, words))
    return lower(
        problem,
        configuration,
        arch,
        alignment=pointers,
        multiprocessors=on[1],
        copied=copied,
        may_allocate=may_allocate,
        preferred=preferred,
    )


def pointers_of(call: Call, out: ArrayView | None) -> list[tuple[str, ArrayView]]:
    """Every array of the call by the name that kernels know it by."""
    return [*call.inputs(), *([("d", out)] if out is not None else [])]


def alignments(call: Call) -> tuple[tuple[str, int], ...]:
    """Bytes, at most 16, that each array's pointer is aligned to, by the name that kernels know it by.

    None for a product of host arrays: their copies, and its result, are whole allocations.
    """
    if call.a.host is not None:
        return ()
    return tuple((name, _alignment(view)) for name, view in pointers_of(call, call.out))


def _alignment(view: ArrayView) -> int:
    """Bytes, at most 16, that the pointer is aligned to."""
    return math.gcd(view.pointer, 16)


def to_copy(call: Call) -> frozenset[str]:
    """Overlapped inputs to copy first: all but a C that is D itself, whose entries are read just before."""
    problem = call.problem
    in_place = (
        call.c is not None
        and call.out is not None
        and call.c.pointer == call.out.pointer
        and problem.c == problem.d
    )
    return frozenset(problem.overlaps) - ({"c"} if in_place else frozenset())


def kernels_of(lowering: Lowering, ordinal: int, stream: int | None) -> dict[str, device.CompiledKernel]:
    """Every kernel of a lowering, compiled and loaded, by its entry.

    Raises
    ------
    UnsupportedError
        When ``stream`` is capturing a CUDA graph and a kernel is not loaded yet.
    """
    if lowering.form.problem.is_empty:
        return {}
    found = {kernel.entry: _compiled(kernel, ordinal, stream) for kernel in lowering.kernels}
    if lowering.has_flags and not (stream is not None and device.is_capturing(stream, ordinal)):
        unread_flags(ordinal)  # a later call may be captured, and must then allocate nothing
    return found


def _compiled(
    kernel: KernelInstance | PackInstance, ordinal: int, stream: int | None
) -> device.CompiledKernel:
    where: dict[str, Any] = {"ordinal": ordinal, "shared_bytes": kernel.shared_bytes}
    source = _source(kernel)
    if stream is not None and not device.is_compiled(source, kernel.entry, **where):
        device.refuse_capture(
            stream, ordinal, "the kernel is not compiled yet; call mxgemm.prepare(...) first"
        )
    return device.compiled(source, kernel.entry, **where)


@lru_cache(maxsize=1024)
def _source(kernel: KernelInstance | PackInstance) -> str:
    return kernel.source()


def compile_ahead(lowering: Lowering, ordinal: int) -> None:
    """Compile and load everything that a lowering launches, and what a captured call may run instead."""
    kernels_of(lowering, ordinal, None)
    if lowering.without_workspace is not None:
        kernels_of(lowering.without_workspace(), ordinal, None)


class DeviceRun(NamedTuple):
    """A result on the device, queued on a stream, and how to ask what happened to values."""

    view: ArrayView
    stream: int
    read_flags: Callable[[], tuple[str, ...]]


def run_device(
    call: Call, lowering: Lowering, out: ArrayView, stream: int, workspace: ArrayView | None, *, observe: bool
) -> DeviceRun:
    """Queue the launches of a lowered call that write ``out``.

    Parameters
    ----------
    observe : bool
        Whether somebody will ask for the flags; otherwise nothing is allocated for them.

    Raises
    ------
    UnsupportedError
        Under capture, when something would have to be compiled or allocated.
    """
    ordinal = out.ordinal
    kernels = kernels_of(lowering, ordinal, stream)
    array.acquire(stream, [view for _, view in pointers_of(call, out)])
    flags = _Flags(ordinal, stream, wanted=observe) if lowering.has_flags else None
    pointers = {name: view.pointer for name, view in pointers_of(call, out)}
    memory = _workspace(lowering, workspace, pointers_of(call, out), stream)
    for launch in lowering.launches(pointers, workspace=memory.pointer, flags=flags.pointer if flags else 0):
        kernel = kernels[launch.instance.entry]
        device.launch(
            kernel, launch.grid, (launch.instance.threads,), stream, launch.arguments,
            maps=launch.maps, pointers=launch.pointers, programmatic=launch.instance.programmatic,
        )  # fmt: skip
    memory.done(stream)
    if flags:
        flags.done()
    _release_copies([*pointers_of(call, out)], stream)
    array.release(stream, out)
    return DeviceRun(out, stream, flags.read if flags else tuple)


def _workspace(
    lowering: Lowering, given: ArrayView | None, views: list[tuple[str, ArrayView]], stream: int
) -> array.Workspace:
    """Memory for the copies of a product of these arrays, its result the last.

    Raises
    ------
    UnsupportedError
        Where the caller's meets one of them.
    """
    if not lowering.workspace_bytes:
        return array.Workspace(0)
    found = array.workspace(given, lowering.workspace_bytes, views[-1][1].ordinal, stream)
    for name, view in views if given is not None else ():
        first, past = view.byte_range
        if max(first, found.pointer) < min(past, found.pointer + lowering.workspace_bytes):
            raise UnsupportedError(f"workspace shares memory with {name}; bring memory of its own")
    return found


def _release_copies(views: list[tuple[str, ArrayView]], stream: int) -> None:
    """Memory that :func:`upload` and :func:`new_result` made may go once the stream has passed here."""
    for _, view in views:
        if (view.library, view.device) == ("numpy", "cuda"):
            memory: device.Buffer = view.owner  # type: ignore[assignment]  # of such views, always
            memory.done(stream)


class _Flags:
    """A word in device memory in which kernels set bits; read when somebody asks."""

    def __init__(self, ordinal: int, stream: int, *, wanted: bool) -> None:
        self._ordinal, self._stream = ordinal, stream
        self._observed = wanted and not device.is_capturing(stream, ordinal)
        self._memory = device.allocate_zeroed(_FLAG_BYTES, ordinal, stream) if self._observed else None
        self.pointer = self._memory.pointer if self._memory else unread_flags(ordinal)

    def done(self) -> None:
        """Say that the launches that set bits are queued."""
        if self._memory:
            self._memory.done(self._stream)

    def read(self) -> tuple[str, ...]:
        """The names of the bits that are set; waits for the stream."""
        if self._memory is None:
            raise UnsupportedError(
                "flags were not recorded: the product was captured into a CUDA graph or ran without Outcome"
            )
        word = device.copy_to_host(self._memory.pointer, _FLAG_BYTES, self._ordinal, self._stream)
        bits = int(word.view("uint32")[0])
        return tuple(name for bit, name in _FLAGS.items() if bits & bit)


@lru_cache(maxsize=64)
def _unread(ordinal: int) -> device.Buffer:
    return device.allocate_zeroed(_FLAG_BYTES, ordinal, device.LEGACY)


def unread_flags(ordinal: int) -> int:
    """Address of a word that kernels may set bits in and nobody reads."""
    return _unread(ordinal).pointer
