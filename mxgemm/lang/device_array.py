"""``DeviceArray``: an array in a backend's memory; every way out passes ``DeviceArray.observed``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.array_dlpack import Exporter
from mxgemm.array_view import ArrayView
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from mxgemm.lang.types import ArrayType, scalar_of_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang.backend import Backend, Memory
    from mxgemm.lang.streams import Stream

#: Kinds of element that cannot take a kind of value without losing what it says.
_DISCARDS: Final = {"c": "biuf", "f": "biu", "V": "biu"}

__all__ = ["DeviceArray", "layout_of", "row_major", "set_observation_hook"]

_type_numbers: dict[tuple[Backend, ArrayType], int] = {}


def type_number(backend: Backend, t: ArrayType) -> int:
    """A small number for an array type on a backend, quick to hash; equal ones have equal numbers."""
    return _type_numbers.setdefault((backend, t), len(_type_numbers))


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> str:
    """``C``, ``F`` or ``A``, as Numba types an array; axes of extent 1 count as contiguous."""
    if 0 in shape:
        return "C"
    for layout, axes in (("C", range(len(shape) - 1, -1, -1)), ("F", range(len(shape)))):
        expected = itemsize
        for axis in axes:
            if shape[axis] != 1 and strides[axis] != expected:
                break
            expected *= shape[axis]
        else:
            return layout
    return "A"


class _Hook:
    """What is called before anything looks at a device array from outside."""

    call: Callable[[DeviceArray, str], None] | None = None


def set_observation_hook(hook: Callable[[DeviceArray, str], None] | None) -> None:
    """Register the function that every way out of a ``DeviceArray`` calls first: ``hook(array, way)``."""
    _Hook.call = hook


class DeviceArray:
    """An N-dimensional array in device memory, with views as NumPy's basic indexing gives them.

    Parameters
    ----------
    backend, memory
        Where it lies.
    offset
        Of the first element, in bytes.
    shape, strides
        Strides in bytes.
    dtype
        Element type.
    stream
        Handle of the stream that copies use.
    """

    __array_priority__ = 100

    def __init__(  # noqa: PLR0917  # what an array is; made in four places
        self,
        backend: Backend,
        memory: Memory,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype[Any],
        stream: int,
    ) -> None:
        self.backend, self.memory, self.offset = backend, memory, offset
        self.shape, self.strides, self.dtype = shape, strides, dtype
        self.stream = stream
        element = scalar_of_dtype(dtype)
        layout = layout_of(shape, strides, dtype.itemsize)
        self.array_type = ArrayType(element, len(shape), layout)
        # What a launch needs, worked out once: the type's number, and pointer, extents and strides.
        self.type_number = type_number(backend, self.array_type)
        itemsize = dtype.itemsize
        self.words = (self, memory.pointer + offset, *shape, *(s // itemsize for s in strides))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    alloc_size = nbytes

    def is_c_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        return self.array_type.layout == "C"

    def is_f_contiguous(self) -> bool:
        """Whether the elements lie in column-major order without gaps."""
        return layout_of(self.shape[::-1], self.strides[::-1], self.itemsize) == "C"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d array has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype}{list(self.shape)} on {self.backend.name})"

    def observed(self, way: str) -> None:
        """Called before anything outside looks at the elements; ``way`` names how."""
        if _Hook.call is not None:
            _Hook.call(self, way)

    def _derived(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> DeviceArray:
        return DeviceArray(self.backend, self.memory, offset, shape, strides, self.dtype, self.stream)

    def _extent(self) -> tuple[int, int]:
        """First byte and the byte past the last one, relative to the memory."""
        if self.size == 0:
            return self.offset, self.offset
        reach = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(r for r in reach if r < 0)
        return low, self.offset + sum(r for r in reach if r > 0) + self.itemsize

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copy to a new NumPy array, or to ``ary`` of the same shape and type, and wait for it."""
        self.observed("copy_to_host")
        host = self._to_host(stream)
        if ary is None:
            return np.array(host, order="K")
        if not isinstance(ary, np.ndarray):
            raise DTypeError(f"copy_to_host fills a NumPy array, not {type(ary).__name__}")
        if ary.shape != self.shape or ary.dtype != self.dtype:
            raise ShapeError(
                f"cannot copy {self!r} to {ary.dtype}{list(ary.shape)}: shape and type must agree"
            )
        ary[...] = host
        return ary

    def _to_host(self, stream: Any = 0) -> Any:
        low, past = self._extent()
        raw = self.backend.copy_out(self.memory, low, past - low, self._handle(stream))
        return np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)

    def get(self, stream: Any = 0) -> Any:
        """As ``copy_to_host``, under CuPy's name."""
        return self.copy_to_host(stream=stream)

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Copy a host or device array of the same shape and type into this one."""
        self.observed("copy_to_device")
        source = ary.copy_to_host() if isinstance(ary, DeviceArray) else np.asarray(ary)
        if source.shape != self.shape or source.dtype != self.dtype:
            raise ShapeError(
                f"cannot copy {source.dtype}{list(source.shape)} to {self!r}: shape and type must agree"
            )
        self._write(source, self._handle(stream))

    def _write(self, source: Any, stream: int) -> None:
        low, past = self._extent()
        if past == low:
            return
        dense = past - low == self.nbytes
        raw = (
            np.empty(past - low, np.uint8)
            if dense
            else self.backend.copy_out(self.memory, low, past - low, stream)
        )
        np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)[...] = source
        self.backend.copy_in(self.memory, low, raw, stream)

    def _handle(self, stream: Any) -> int:
        from mxgemm.lang.streams import handle_of

        return self.stream if stream in (0, None) else handle_of(self.backend, stream)

    def bind(self, stream: Stream) -> DeviceArray:
        """The same array, whose copies use ``stream``."""
        bound = self._derived(self.offset, self.shape, self.strides)
        bound.stream = self._handle(stream)
        return bound

    def __getitem__(self, index: Any) -> Any:
        """A view, or for a single element its value, copied to the host."""
        shape, strides, offset = _index(index, self.shape, self.strides)
        view = self._derived(self.offset + offset, shape, strides)
        parts = index if isinstance(index, tuple) else (index,)
        if not shape and all(isinstance(p, (int, np.integer)) for p in parts):
            return view.copy_to_host()[()]
        return view

    def __setitem__(self, index: Any, value: Any) -> None:
        shape, strides, offset = _index(index, self.shape, self.strides)
        view = self._derived(self.offset + offset, shape, strides)
        source = value.copy_to_host() if isinstance(value, DeviceArray) else value
        given = np.asarray(source).dtype
        if _DISCARDS.get(given.kind, "") and self.array_type.element.kind in _DISCARDS[given.kind]:
            raise DTypeError(f"{given} values do not go into {self!r}; convert them first")
        host = np.empty(shape, self.dtype)
        host[...] = source
        view.copy_to_device(host)

    @property
    def T(self) -> DeviceArray:
        """The transposed view."""
        return self.transpose()

    def transpose(self, axes: tuple[int, ...] | None = None) -> DeviceArray:
        """A view with its axes permuted, reversed by default."""
        order = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        if sorted(order) != list(range(self.ndim)):
            raise ShapeError(f"axes {order} are no permutation of {self.ndim} axes")
        return self._derived(
            self.offset, tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order)
        )

    def reshape(self, *shape: Any) -> DeviceArray:
        """A view of a contiguous array with another shape; one extent may be −1."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if not self.is_c_contiguous():
            raise ShapeError(
                f"{self!r} is not contiguous in C order, so it has no reshaped view; copy it first"
            )
        known = int(np.prod([s for s in wanted if s != -1], dtype=np.int64))
        if -1 in wanted and known:
            wanted = tuple(self.size // known if s == -1 else s for s in wanted)
        if int(np.prod(wanted, dtype=np.int64)) != self.size:
            raise ShapeError(f"cannot reshape {list(self.shape)} to {list(wanted)}")
        return self._derived(self.offset, tuple(int(s) for s in wanted), row_major(wanted, self.itemsize))

    def ravel(self) -> DeviceArray:
        """A flat view of a contiguous array."""
        return self.reshape(self.size)

    def view(self, dtype: Any) -> DeviceArray:
        """The same bytes as another element type of the same size."""
        other = np.dtype(dtype)
        if other.itemsize != self.itemsize:
            raise ShapeError(f"a view as {other} needs the element size of {self.dtype}")
        return DeviceArray(
            self.backend, self.memory, self.offset, self.shape, self.strides, other, self.stream
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.observed("__array__")
        if copy is False:
            raise ValueError("device memory becomes a NumPy array by a copy; copy=False cannot be met")
        host = np.array(self._to_host(), order="K")
        return host if dtype is None else host.astype(dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface; absent on the interpreter, whose memory is the host's."""
        if self.backend.host(self.memory) is not None:
            raise AttributeError("__cuda_array_interface__: this array lies in host memory (interpreter)")
        self.observed("__cuda_array_interface__")
        return {
            "shape": self.shape,
            "strides": None if self.is_c_contiguous() else self.strides,
            "typestr": self.dtype.str if self.dtype.kind != "V" else "<V2",
            "data": (self.memory.pointer + self.offset, False),
            "version": 3,
            "stream": self.stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0) for the interpreter, (2, ordinal) on a GPU."""
        return (1, 0) if self.backend.host(self.memory) is not None else (2, self._ordinal())

    def _ordinal(self) -> int:
        return int(self.backend.name.partition(":")[2] or 0)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """A DLPack capsule over the same memory."""
        self.observed("__dlpack__")
        host = self.backend.host(self.memory)
        if host is not None:
            array = np.ndarray(self.shape, self.dtype, host, self.offset, self.strides)
            return array.__dlpack__(**options)
        if self.dtype == np.bool_:
            raise UnsupportedError("bool arrays have no DLPack export here; view them as uint8")
        return Exporter(self._as_view(), self._order).__dlpack__(stream=stream)

    def _as_view(self) -> ArrayView:
        itemsize = self.itemsize
        return ArrayView(
            "other", "cuda", self._ordinal(), self.memory.pointer + self.offset, self.shape,
            tuple(s // itemsize for s in self.strides), self.array_type.element.name, self,
        )  # fmt: skip

    def _order(self, stream: int | None) -> None:
        """Make the consumer's stream wait for this array's; −1 asks for no order."""
        if stream == -1:
            return
        event = self.backend.create_event()
        self.backend.record(event, self.stream)
        self.backend.wait(event, stream or self.backend.default_stream)

    def __cupy_get_ndarray__(self) -> Any:
        """What CuPy's functions take this array as."""
        self.observed("__cupy_get_ndarray__")
        import cupy

        return cupy.from_dlpack(self)


def row_major(shape: tuple[int, ...], itemsize: int, order: str = "C") -> tuple[int, ...]:
    """Byte strides of a contiguous array in C or F order."""
    strides, step = [], itemsize
    for extent in shape[::-1] if order == "C" else shape:
        strides.append(step)
        step *= max(extent, 1)
    return tuple(strides[::-1] if order == "C" else strides)


def _index(index: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Any, Any, int]:
    """Shape, byte strides and byte offset of a basic index, by NumPy's own rules."""
    parts = index if isinstance(index, tuple) else (index,)
    for part in parts:
        if part is not Ellipsis and not isinstance(part, (int, np.integer, slice, type(None))):
            raise UnsupportedError(
                f"device arrays take integers, slices, … and None as indices, not {part!r}"
            )
    # An array of that shape over no memory: NumPy does the index arithmetic, nothing is read.
    model = np.lib.stride_tricks.as_strided(np.empty(0, np.uint8), shape, strides, writeable=False)
    view = model[(*parts, ...)] if Ellipsis not in parts else model[parts]
    offset = int(view.ctypes.data - model.ctypes.data) if view.size else 0
    return view.shape, view.strides, offset
