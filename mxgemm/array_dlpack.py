"""DLPack capsules read and written, for element types that no array library here knows all of.

The structures are those of dlpack.h, version 1.1 (https://dmlc.github.io/dlpack/latest/c_api.html).
"""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxgemm.array_view import DTYPES, ArrayView, element_type_error
from mxgemm.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CPU", "CUDA", "CUDA_HOST", "CUDA_MANAGED", "Exporter", "Tensor", "read"]

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # DLDeviceType
_READ_ONLY = 1  # DLPACK_FLAG_BITMASK_READ_ONLY
_INT, _UINT, _FLOAT, _BFLOAT, _E4M3FN, _E5M2 = 0, 1, 2, 4, 10, 12  # DLDataTypeCode

_CODES = {
    **{(_INT, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(_UINT, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(_FLOAT, bits): f"float{bits}" for bits in (16, 32, 64)},
    (_BFLOAT, 16): "bfloat16",
    (_E4M3FN, 8): "float8_e4m3fn",
    (_E5M2, 8): "float8_e5m2",
}
_CODE_OF = {name: code for code, name in _CODES.items()}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
_new = ctypes.pythonapi.PyCapsule_New
_new.argtypes, _new.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.py_object


@dataclass(frozen=True, slots=True)
class Tensor:
    """What a capsule says; valid as long as the capsule lives and nobody else consumes it."""

    device_type: int
    ordinal: int
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    readonly: bool


def read(capsule: object, name: str) -> Tensor:
    """Read a ``dltensor`` or ``dltensor_versioned`` capsule without consuming it.

    Raises
    ------
    DTypeError
        For an element type without a configuration.
    UnsupportedError
        For a capsule of another kind or one that was consumed.
    """
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _ManagedVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        return _tensor(versioned.tensor, name, readonly=bool(versioned.flags & _READ_ONLY))
    if _is_valid(capsule, b"dltensor"):
        return _tensor(_Managed.from_address(_pointer(capsule, b"dltensor")).tensor, name, readonly=False)
    raise UnsupportedError(f"{name}: __dlpack__ gave {capsule!r}; supported are unused dltensor capsules")


def _tensor(tensor: Any, name: str, *, readonly: bool) -> Tensor:
    kind = tensor.dtype
    dtype = _CODES.get((kind.code, kind.bits))
    if dtype is None or kind.lanes != 1:
        raise element_type_error(name, f"DLPack code {kind.code}, {kind.bits} bits, {kind.lanes} lanes")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else row_major(shape)
    pointer = (tensor.data or 0) + tensor.byte_offset
    device = tensor.device
    return Tensor(device.type, device.ordinal, pointer, shape, strides, dtype, readonly)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of a row-major array."""
    return tuple(itertools.accumulate((max(n, 1) for n in shape[:0:-1]), lambda x, y: x * y, initial=1))[
        ::-1
    ][: len(shape)]


class _Exported:
    """What an exported capsule points to; kept alive until its consumer calls the deleter."""

    def __init__(self, view: ArrayView) -> None:
        axes = ctypes.c_int64 * len(view.shape)
        self.view, self.shape, self.strides = view, axes(*view.shape), axes(*view.strides)
        code, bits = _CODE_OF[view.dtype]
        device = _Device(CUDA if view.device == "cuda" else CPU, view.ordinal)
        self.managed = _Managed(
            _Tensor(
                view.pointer, device, len(view.shape), _DataType(code, bits, 1), self.shape, self.strides, 0
            ),
            None,
            _release_callback,
        )


_exported: dict[int, _Exported] = {}


def _release(address: int) -> None:
    _exported.pop(address, None)


_release_callback = _Deleter(_release)


class Exporter:
    """An object with ``__dlpack__`` over a view's memory.

    Parameters
    ----------
    view : ArrayView
        Kept alive until the consumer is done with the memory.
    order : callable
        Called with the consumer's stream handle (or None), to make it wait for the data.
    """

    def __init__(self, view: ArrayView, order: Callable[[int | None], None]) -> None:
        self.view, self.order = view, order

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's device type and number."""
        return (CUDA if self.view.device == "cuda" else CPU), self.view.ordinal

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        """An unversioned capsule, which every consumer of the protocol takes."""
        self.order(stream)
        exported = _Exported(self.view)
        address = ctypes.addressof(exported.managed)
        _exported[address] = exported
        return _new(address, b"dltensor", None)


if set(_CODE_OF) != set(DTYPES):
    raise ImportError("every element type needs its DLPack code")
