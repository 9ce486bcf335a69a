"""Arrays of libraries without an adapter: ``__dlpack__`` and ``__cuda_array_interface__``."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxgemm import array_cupy, array_dlpack, array_host, device
from mxgemm.array_view import ArrayView, dtype_name, element_strides, refuse_layout
from mxgemm.errors import UnsupportedError

__all__ = ["empty", "from_dlpack", "view"]

_HOST = (array_dlpack.CPU, array_dlpack.CUDA_HOST)
_CUDA = (array_dlpack.CUDA, array_dlpack.CUDA_MANAGED)


def view(x: Any, name: str, *, writable: bool) -> ArrayView:
    """See an object through the protocol it has, DLPack first.

    Raises
    ------
    DTypeError, ShapeError
        As for NumPy arrays.
    UnsupportedError
        For objects without a protocol, masked ones, and devices other than the CPU and CUDA.
    """
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return from_dlpack("other", x, name, writable=writable)
    if hasattr(x, "__cuda_array_interface__"):
        return _from_cuda_array_interface(x, name, writable=writable)
    array_host.refuse_non_array(x, name)
    raise AssertionError  # refuse_non_array always raises


def from_dlpack(library: str, x: Any, name: str, *, writable: bool) -> ArrayView:
    """See an object with ``__dlpack__``; device data are made ready on the legacy default stream."""
    device_type = int(x.__dlpack_device__()[0])
    if device_type not in _HOST + _CUDA:
        raise UnsupportedError(
            f"{name} lives on DLPack device type {device_type}; supported are the CPU (1, 3) and CUDA (2, 13)"
        )
    stream = device.LEGACY if device_type in _CUDA else None
    capsule = _capsule(x, stream)
    found = array_dlpack.read(capsule, name)
    if stream is None:
        memory = array_host.memory_at(
            found.pointer, found.shape, found.strides, found.dtype, (x, capsule), readonly=found.readonly
        )
        return array_host.host_view(library, x, memory, name, writable=writable)
    seen = ArrayView(
        library, "cuda", found.ordinal, found.pointer, found.shape, found.strides, found.dtype, x,
        readonly=found.readonly, stream=stream, lifetime=capsule,
    )  # fmt: skip
    return refuse_layout(seen, name, writable=writable)


def _capsule(x: Any, stream: int | None) -> object:
    """A capsule with flags where the producer knows them, else one of before version 1."""
    try:
        return x.__dlpack__(stream=stream, max_version=(1, 1))
    except TypeError:
        return x.__dlpack__(stream=stream)


def _from_cuda_array_interface(x: Any, name: str, *, writable: bool) -> ArrayView:
    """Version 3 of the interface: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise UnsupportedError(f"{name} has a mask; mxgemm reads every element: fill it first")
    dtype_object: np.dtype[Any] = np.dtype(interface["typestr"])
    dtype = dtype_name(dtype_object, name)
    if not dtype_object.isnative:
        raise UnsupportedError(
            f"{name} is byte-swapped device data ({interface['typestr']}); convert it first"
        )
    shape, (pointer, readonly) = tuple(interface["shape"]), interface["data"]
    byte_strides = interface.get("strides")
    strides = (
        array_dlpack.row_major(shape)
        if byte_strides is None
        else element_strides(tuple(byte_strides), dtype_object.itemsize, name)
    )
    ordinal = device.ordinal_of(pointer) if pointer else 0
    stream = interface.get("stream")
    found = ArrayView(
        "other",
        "cuda",
        ordinal,
        pointer or 0,
        shape,
        strides,
        dtype,
        x,
        readonly=bool(readonly),
        stream=stream,
    )
    return refuse_layout(found, name, writable=writable)


def empty(like: ArrayView, shape: tuple[int, ...], dtype: str, stream: int | None) -> ArrayView:
    """A new array through the owner's array-API namespace; without one a NumPy or CuPy array.

    Raises
    ------
    UnsupportedError
        For device memory when neither the owner nor CuPy can allocate.
    """
    owner: Any = like.owner
    namespace: Any = owner.__array_namespace__() if hasattr(owner, "__array_namespace__") else None
    element_type = getattr(namespace, dtype, None)
    if element_type is not None:
        made = namespace.empty(shape, dtype=element_type, device=owner.device)
        return view(made, "the result", writable=True)
    if like.device == "cpu":
        return array_host.view(array_host.empty(shape, dtype), "the result", writable=False)
    try:
        import cupy  # noqa: F401  # array_cupy takes it from sys.modules
    except ImportError as error:
        raise UnsupportedError(
            f"{type(owner).__qualname__} offers no way to allocate a result and CuPy is not installed; "
            "pass out="
        ) from error
    return array_cupy.empty(like, shape, dtype, stream)
