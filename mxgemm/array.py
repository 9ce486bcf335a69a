"""Arrays in and out: any library's array as an :class:`ArrayView`, and results as the same library's array.

Nothing here copies, except byte-swapped or misaligned NumPy inputs, and no library
is imported unless an array of it was passed.  A new library is one row of ``_ROOTS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mxgemm import array_cupy, array_host, array_jax, array_protocols, array_torch, device
from mxgemm.array_view import DTYPES, ArrayView, numpy_dtype
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DTYPES",
    "LIBRARIES",
    "ArrayView",
    "Workspace",
    "acquire",
    "allocator",
    "current_stream",
    "deliver",
    "empty_like_owner",
    "fingerprint",
    "from_host",
    "launch_stream",
    "numpy",
    "numpy_dtype",
    "overlap",
    "release",
    "stream_reader",
    "to_host",
    "upload",
    "view",
    "workspace",
    "write_from_host",
]


Fingerprint = tuple[int, tuple[Any, ...] | None]
Fingerprints = tuple[int, int, int, tuple[Any, ...] | None]
Repeated = Callable[[dict[Any, Any], Any, Any, Any], Any]


@dataclass(frozen=True, slots=True)
class _Library:
    """How one library's arrays come in and go out."""

    view: Callable[..., ArrayView]
    empty: Callable[[ArrayView, tuple[int, ...], str, int | None], ArrayView]
    deliver: Callable[[ArrayView, int | None], object]
    # Gives what asks for the current stream of a device; None where the library has no such notion.
    stream_reader: Callable[[int], Callable[[], int]] | None
    fingerprint: Callable[[Any], Fingerprint]
    fingerprints: Callable[[Any, Any, Any], Fingerprints]  # of three arrays of one class
    allocator: Callable[[int, tuple[int, ...], str], Callable[[Any], tuple[Any, int]]] | None = None
    # Keep a value for three arrays, and find it again while they are as they were; together or not at all.
    keep: Callable[[dict[Any, Any], Any, Any, Any, Any], None] | None = None
    repeated: Repeated | None = None


def _no_fingerprint(_x: object) -> Fingerprint:
    return 0, None


def _no_fingerprints(_a: object, _b: object, _d: object) -> Fingerprints:
    return 0, 0, 0, None


def _owner(view: ArrayView, _stream: int | None) -> object:
    return view.owner


def _empty_numpy(_like: ArrayView, shape: tuple[int, ...], dtype: str, _stream: int | None) -> ArrayView:
    return array_host.view(array_host.empty(shape, dtype), "the result", writable=False)


_NONE = (_no_fingerprint, _no_fingerprints)
_NUMPY = _Library(array_host.view, _empty_numpy, _owner, None, *_NONE)
_CUPY = _Library(
    array_cupy.view, array_cupy.empty, _owner, array_cupy.stream_reader,
    array_cupy.fingerprint, array_cupy.fingerprints, array_cupy.allocator,
    array_cupy.keep, array_cupy.repeated,
)  # fmt: skip
_TORCH = _Library(
    array_torch.view, array_torch.empty, _owner, array_torch.stream_reader,
    array_torch.fingerprint, array_torch.fingerprints, array_torch.allocator,
    array_torch.keep, array_torch.repeated,
)  # fmt: skip
_JAX = _Library(array_jax.view, array_jax.empty, array_jax.deliver, None, *_NONE)
_OTHER = _Library(array_protocols.view, array_protocols.empty, _owner, None, *_NONE)
_BY_NAME = {"numpy": _NUMPY, "cupy": _CUPY, "torch": _TORCH, "jax": _JAX, "other": _OTHER}

# The root module of an array's class, or of a class that it derives from.
_ROOTS = {"numpy": _NUMPY, "cupy": _CUPY, "torch": _TORCH, "jax": _JAX, "jaxlib": _JAX}


class _Libraries(dict[type, _Library]):
    """The library of a class, found once."""

    def __missing__(self, cls: type) -> _Library:
        roots = (base.__module__.partition(".")[0] for base in cls.__mro__)
        self[cls] = next((_ROOTS[root] for root in roots if root in _ROOTS), _OTHER)
        return self[cls]


LIBRARIES = _Libraries()
"""By class, for calls to which a function's cost matters: has ``fingerprint`` and ``fingerprints``."""


def view(x: object, name: str = "A", *, writable: bool = False) -> ArrayView:
    """See any library's array as an :class:`ArrayView`, without a copy.

    Parameters
    ----------
    x : object
        A NumPy, CuPy, torch or JAX array, or an object with ``__dlpack__`` or ``__cuda_array_interface__``.
    name : str
        What the errors call it: "A", "out", "bias".
    writable : bool
        Whether a result goes there: refuses what cannot be written in place.

    Raises
    ------
    DTypeError
        For object, bool, complex and string arrays and other element types without a configuration.
    ShapeError
        For Python scalars.
    UnsupportedError
        For masked arrays, ``numpy.matrix``, torch tensors that require a gradient, sparse or lazily
        negated tensors, JAX tracers and sharded arrays, read-only or overlapping ``out``, JAX
        ``out``, and things that are no arrays.
    """
    # Specifications of arrays that do not exist yet come as views already.
    return x if isinstance(x, ArrayView) else LIBRARIES[type(x)].view(x, name, writable=writable)


def fingerprint(x: object) -> Fingerprint:
    """Pointer and hashable facts of a CuPy or torch array, in under a microsecond.

    The facts decide everything that :func:`view` checks, so a call prepared for them needs only the
    pointer.  They are None for every other array: take :func:`view`.
    """
    return LIBRARIES[type(x)].fingerprint(x)


def empty_like_owner(
    like: ArrayView, shape: tuple[int, ...], dtype: str, *, stream: int | None = None
) -> ArrayView:
    """A new uninitialised row-major array of the library and device of ``like``.

    Parameters
    ----------
    stream : int, optional
        The stream that will write it, so that the library's memory pool reuses it in order.

    Raises
    ------
    DTypeError
        When that library has no such element type.
    """
    return _BY_NAME[like.library].empty(like, shape, dtype, stream)


def deliver(result: ArrayView, stream: int | None = None) -> object:
    """What the caller gets for ``result``, once the work that writes it is queued on ``stream``."""
    return _BY_NAME[result.library].deliver(result, stream)


def numpy(host: ArrayView) -> np.ndarray[Any, Any]:
    """The NumPy array over a host view's memory; bfloat16 and fp8 with their ml_dtypes types.

    Raises
    ------
    UnsupportedError
        For device memory: :func:`to_host` copies it.
    """
    if host.host is None:
        raise UnsupportedError(f"{host} is device memory; copy it to the host first")
    return host.host


def to_host(source: ArrayView, stream: int | None = None) -> np.ndarray[Any, Any]:
    """The array on the host: host views themselves, device data copied after what ``stream`` holds."""
    if source.host is not None:
        return source.host
    first, past = source.byte_range
    at = current_stream(source) if stream is None else stream
    data = device.copy_to_host(first, past - first, source.ordinal, at)
    strides = tuple(s * source.itemsize for s in source.strides)
    return np.ndarray(source.shape, numpy_dtype(source.dtype), data, source.pointer - first, strides)


def from_host(array: np.ndarray[Any, Any], like: ArrayView, *, stream: int | None = None) -> ArrayView:
    """Copy a host array to a new array of the library and device of ``like``."""
    return write_from_host(
        array, empty_like_owner(like, array.shape, _dtype_of(array), stream=stream), stream=stream
    )


def write_from_host(
    array: np.ndarray[Any, Any], target: ArrayView, *, stream: int | None = None
) -> ArrayView:
    """Copy a host array into ``target``, of the same shape and element type, and into no byte beside it."""
    if target.host is not None:
        target.host[...] = array
        return target
    at = current_stream(target) if stream is None else stream
    for offset, run in _contiguous_runs(array, target.strides):
        device.copy_to_device(target.pointer + offset * target.itemsize, run, target.ordinal, at)
    return target


def _contiguous_runs(
    array: np.ndarray[Any, Any], strides: tuple[int, ...]
) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """Pieces of ``array`` that are contiguous where ``strides`` puts them, with offsets; both in elements."""
    axes = sorted(range(array.ndim), key=lambda axis: (-abs(strides[axis]), axis))
    ordered, at = array.transpose(axes), [strides[axis] for axis in axes]
    inner, length = array.ndim, 1
    while inner and (at[inner - 1] == length or ordered.shape[inner - 1] == 1):
        inner -= 1
        length *= ordered.shape[inner]
    for index in np.ndindex(ordered.shape[:inner]):
        yield sum(i * s for i, s in zip(index, at, strict=False)), np.ascontiguousarray(ordered[index])


def upload(source: ArrayView, ordinal: int, stream: int) -> ArrayView:
    """Copy a host view to new device memory that belongs to nobody else, row-major."""
    array = np.ascontiguousarray(numpy(source))
    memory = device.allocate(array.nbytes, ordinal, stream)
    device.copy_to_device(memory.pointer, array, ordinal, stream)
    strides = tuple(s // array.itemsize for s in array.strides)
    return ArrayView("numpy", "cuda", ordinal, memory.pointer, array.shape, strides, source.dtype, memory)


def _dtype_of(array: np.ndarray[Any, Any]) -> str:
    return next(name for name, dtype in DTYPES.items() if dtype == array.dtype)


def current_stream(of: ArrayView) -> int:
    """Handle of the current stream of the library that owns ``of``, on its device.

    A library without one counts with the stream that the producer named, else with the legacy default stream.
    """
    read = stream_reader(of)
    if read is None:
        return device.LEGACY if of.stream is None else of.stream
    return read()


def stream_reader(of: ArrayView) -> Callable[[], int] | None:
    """What gives :func:`current_stream` again and again; None where the library has no such notion."""
    own = _BY_NAME[of.library].stream_reader
    return None if own is None or of.device == "cpu" else own(of.ordinal)


def launch_stream(stream: object | None, out: ArrayView | None, a: ArrayView) -> int:
    """The stream of a product: ``stream=``, else of ``out``'s owner, else of A's.

    Raises
    ------
    UnsupportedError
        For a ``stream=`` that is no CUDA stream.
    """
    if stream is not None:
        return device.stream_handle(stream)
    return current_stream(a if out is None else out)


def allocator(like: ArrayView, shape: tuple[int, ...], dtype: str) -> Callable[[Any], tuple[Any, int]]:
    """What makes arrays as :func:`empty_like_owner` does, for the current stream, beside one it is given.

    It returns the array and its address and keeps neither; its library is one with a :func:`fingerprint`.
    """
    make = _BY_NAME[like.library].allocator
    if make is None:
        raise UnsupportedError(f"{like.library} arrays have no fingerprint; use empty_like_owner")
    return make(like.ordinal, shape, dtype)


def acquire(stream: int, views: Iterable[ArrayView]) -> None:
    """Make ``stream`` wait for the streams on which producers said that their data are ready."""
    for one in views:
        if one.stream is not None and one.stream != stream:
            device.order_after(stream, one.stream, one.ordinal)


def release(stream: int, out: ArrayView) -> None:
    """Make the stream that ``out``'s producer named wait for the result queued on ``stream``."""
    if out.stream is not None and out.stream != stream:
        device.order_after(out.stream, stream, out.ordinal)


class Workspace(NamedTuple):
    """Device memory for packed operands, the caller's or ours.

    Attributes
    ----------
    pointer : int
    memory : Buffer or None
        None when the caller brought it.
    """

    pointer: int
    memory: device.Buffer | None = None

    def done(self, stream: int) -> None:
        """Say that everything that uses it is queued on ``stream``; else freeing waits for the device."""
        if self.memory is not None:
            self.memory.done(stream)


def workspace(given: ArrayView | None, needed: int, ordinal: int, stream: int) -> Workspace:
    """The memory for packed operands: the caller's, checked, else new memory in the order of ``stream``.

    Parameters
    ----------
    given : ArrayView or None
        The caller's ``workspace=``.
    needed : int
        Bytes.

    Raises
    ------
    DTypeError
        When it is not uint8.
    ShapeError
        When it is too small.
    UnsupportedError
        When it lies elsewhere, is not contiguous or starts off a 16-byte boundary, and without one while
        the stream captures a CUDA graph.
    """
    if given is not None:
        return Workspace(_checked_workspace(given, needed, ordinal))
    device.refuse_capture(stream, ordinal, f"operands must be packed: pass workspace= of {needed} uint8")
    memory = device.allocate(needed, ordinal, stream)
    return Workspace(memory.pointer, memory)


def _checked_workspace(given: ArrayView, needed: int, ordinal: int) -> int:
    if given.dtype != "uint8":
        raise DTypeError(f"workspace has element type {given.dtype}; it must be uint8")
    if given.backend != f"cuda:{ordinal}":
        raise UnsupportedError(f"workspace lies on {given.backend}; the product runs on cuda:{ordinal}")
    if given.byte_range[1] - given.byte_range[0] != math.prod(given.shape) or given.pointer % 16:
        raise UnsupportedError("workspace must be contiguous and start on a 16-byte boundary")
    if math.prod(given.shape) < needed:
        raise ShapeError(f"workspace holds {math.prod(given.shape)} bytes; this product needs {needed}")
    return given.pointer


def overlap(a: ArrayView, b: ArrayView) -> bool:
    """Whether the byte ranges of two arrays meet."""
    (first_a, past_a), (first_b, past_b) = a.byte_range, b.byte_range
    same_memory = (a.device, a.ordinal) == (b.device, b.ordinal)
    return same_memory and max(first_a, first_b) < min(past_a, past_b)
