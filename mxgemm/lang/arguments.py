"""Arguments of a launch: their types, device copies of host arrays, and what goes back to the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm import array as arrays
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from mxgemm.lang.device_array import DeviceArray, layout_of, row_major
from mxgemm.lang.signatures import accepts
from mxgemm.lang.types import Scalar, Type, boolean, float64, int64, scalar_of_dtype, uint64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxgemm.lang.backend import Backend

__all__ = ["SCALAR_CLASSES", "Prepared", "as_device", "prepare", "scalar_type", "scalar_word"]

#: Classes whose values all have one type and travel as they are; integers are checked for their range.
SCALAR_CLASSES: Final = frozenset(
    {
        bool, int, float, np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
        np.uint32, np.uint64, np.float32, np.float64,
    }
)  # fmt: skip


def scalar_type(value: Any) -> Scalar | None:
    """The type of a scalar argument as Numba sees it; None when the value is no scalar."""
    if isinstance(value, np.generic):
        return scalar_of_dtype(value.dtype)
    if isinstance(value, bool):
        return boolean
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise DTypeError(f"the integer {value} does not fit 64 bits")
        return int64 if value < 2**63 else uint64
    if isinstance(value, float):
        return float64
    if (
        hasattr(value, "dtype")
        and getattr(value, "shape", None) == ()
        and type(value).__module__ == "ml_dtypes"
    ):
        return scalar_of_dtype(np.dtype(value.dtype))
    return None


def scalar_word(value: Any, t: Scalar, position: int) -> Any:
    """A scalar as a launch passes it: of exactly the parameter's width.

    Raises
    ------
    DTypeError
        When an integer parameter cannot hold the value.
    """
    if t.is_integer and t != boolean:
        low, high = (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1)) if t.is_signed else (0, 2**t.bits)
        if not low <= value < high:
            raise DTypeError(f"argument {position} is {value}, which does not fit the signature's {t}")
    converted = np.asarray(value).astype(t.dtype)[()]
    if t.is_float and t.bits == 16:
        return np.asarray(converted).view(np.uint16)[()]
    return converted


@dataclass
class Prepared:
    """Arguments ready for a launch, in parameter order."""

    types: list[Type] = field(default_factory=list)
    words: list[tuple[Any, ...]] = field(default_factory=list)
    copies: list[tuple[int, Any, DeviceArray]] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)
    read_only: list[int] = field(default_factory=list)


def prepare(backend: Backend, arguments: Sequence[Any], stream: int) -> Prepared:
    """Type every argument; host arrays are copied to the device, one copy for one array passed twice."""
    ready = Prepared()
    for position, argument in enumerate(arguments):
        if isinstance(argument, DeviceArray):
            _add_device(ready, _own(backend, argument))
            continue
        scalar = scalar_type(argument)
        if scalar is not None:
            ready.types.append(scalar)
            ready.words.append((argument,))
        elif isinstance(argument, np.ndarray):
            if not argument.flags.writeable:
                ready.read_only.append(position)
            _add_host(ready, backend, position, argument, stream)
        else:
            device_array = as_device(backend, argument)
            ready.keep.append(device_array)
            if isinstance(device_array.memory, _Foreign) and device_array.memory.read_only:
                ready.read_only.append(position)
            _order(backend, device_array.stream, stream)
            _add_device(ready, device_array)
    return ready


def _order(backend: Backend, producer: int, stream: int) -> None:
    """Make ``stream`` wait for the stream on which another library's array is ready."""
    if producer != stream:
        event = backend.create_event()
        backend.record(event, producer)
        backend.wait(event, stream)


def _own(backend: Backend, array: DeviceArray) -> DeviceArray:
    if array.backend is not backend:
        raise UnsupportedError(
            f"{array!r} cannot be used on {backend.name}; copy it with cuda.to_device there"
        )
    return array


def _add_device(ready: Prepared, array: DeviceArray) -> None:
    ready.types.append(array.array_type)
    ready.words.append(array.words)


def _add_host(ready: Prepared, backend: Backend, position: int, argument: Any, stream: int) -> None:
    for _, host, copy in ready.copies:
        if _same(host, argument):
            ready.copies.append((position, argument, copy))
            _add_device(ready, copy)
            return
    copy = upload(backend, argument, stream)
    ready.copies.append((position, argument, copy))
    _add_device(ready, copy)


def _same(a: Any, b: Any) -> bool:
    facts = [(x.ctypes.data, x.shape, x.strides, x.dtype) for x in (a, b)]
    return bool(facts[0] == facts[1])


def check_written(ready: Prepared, written: frozenset[int]) -> None:
    """Refuse arrays that a kernel writes and cannot: read-only ones, and host arrays with two copies.

    Raises
    ------
    DTypeError
        For a read-only array.
    ShapeError
        For arrays that share memory: each has its own copy on the device.
    """
    for position in written.intersection(ready.read_only):
        raise DTypeError(f"argument {position} is a read-only array that the kernel writes; pass a copy")
    for i, (position, host, copy) in enumerate(ready.copies):
        for other_position, other, other_copy in ready.copies[i + 1 :]:
            if copy is other_copy or not (position in written or other_position in written):
                continue
            if np.shares_memory(host, other):
                raise ShapeError(
                    f"arguments {position} and {other_position} share host memory and the kernel writes "
                    "one of them; copy the whole array with cuda.to_device and pass views of the device array"
                )


def upload(backend: Backend, source: Any, stream: int) -> DeviceArray:
    """A device copy of a host array; an array with gaps becomes contiguous in C order."""
    dtype = source.dtype
    scalar_of_dtype(dtype)
    order = "F" if layout_of(source.shape, source.strides, dtype.itemsize) == "F" else "C"
    dense = np.asarray(source, order=order)  # type: ignore[call-overload]  # order is "C" or "F"
    memory = backend.allocate(dense.nbytes, stream)
    strides = row_major(source.shape, dtype.itemsize, order)
    array = DeviceArray(backend, memory, 0, source.shape, strides, dtype, stream)
    raw = dense.reshape(-1, order=order).view(np.uint8)
    if raw.size:
        backend.copy_in(memory, 0, raw, stream)
    return array


class _Foreign:
    """Memory of another library's array, kept alive."""

    def __init__(self, pointer: int, owner: Any, *, read_only: bool) -> None:
        self.pointer, self.owner, self.read_only = pointer, owner, read_only


def as_device(backend: Backend, value: Any) -> DeviceArray:
    """Another library's device array as a ``DeviceArray`` over the same memory.

    Raises
    ------
    TypeError
        When ``value`` is no array and no scalar of the dialect.
    """
    if not hasattr(value, "__cuda_array_interface__") and not hasattr(value, "__dlpack__"):
        raise DTypeError(
            f"{value!r} cannot be a kernel argument; supported: Python and NumPy numbers (the items of a "
            "tuple one by one), NumPy arrays, device arrays of any library with __dlpack__ or "
            "__cuda_array_interface__"
        )
    if np.dtype(getattr(value, "__cuda_array_interface__", {"typestr": "f4"})["typestr"]) == np.bool_:
        return _bools(backend, value)
    seen = arrays.view(value, "an argument")
    dtype = arrays.numpy_dtype(seen.dtype)
    strides = tuple(s * dtype.itemsize for s in seen.strides)
    if seen.host is not None:
        raise UnsupportedError(f"{seen} lies in host memory; pass it as a NumPy array (numpy.from_dlpack)")
    stream = backend.default_stream if seen.stream is None else seen.stream
    memory = _Foreign(seen.pointer, seen, read_only=seen.readonly)
    return DeviceArray(backend, memory, 0, seen.shape, strides, dtype, stream)


def _bools(backend: Backend, value: Any) -> DeviceArray:
    """A bool array, which matrix products have no use for and kernels do, through its interface."""
    interface = value.__cuda_array_interface__
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or row_major(shape, 1)
    stream = interface.get("stream") or backend.default_stream
    pointer, read_only = interface["data"]
    owner = _Foreign(pointer, value, read_only=bool(read_only))
    return DeviceArray(backend, owner, 0, shape, tuple(strides), np.dtype(np.bool_), stream)


def coerce(t: Type, declared: Type, position: int) -> Type:
    """Check an argument type against a declared one.

    Raises
    ------
    DTypeError
        When an array's element type, number of axes or layout does not fit, or a float meets an integer.
    """
    if accepts(declared, t):
        return declared
    raise DTypeError(f"argument {position} is {t}, the signature says {declared}")
