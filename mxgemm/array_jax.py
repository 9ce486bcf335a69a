"""JAX arrays in and out; JAX is already imported when one arrives."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mxgemm import array_dlpack, array_host, device
from mxgemm.array_protocols import from_dlpack
from mxgemm.array_view import ArrayView, dtype_name, element_type_error, numpy_dtype
from mxgemm.errors import DTypeError, UnsupportedError

__all__ = ["deliver", "empty", "view"]


class _Result(NamedTuple):
    """Memory that becomes a JAX array on ``place`` once it is written."""

    place: Any
    memory: Any


def view(x: Any, name: str, *, writable: bool) -> ArrayView:
    """See a JAX array of one device.

    Raises
    ------
    DTypeError, ShapeError
        As for NumPy arrays.
    UnsupportedError
        For tracers, sharded and donated arrays, and for any JAX ``out``.
    """
    jax = sys.modules["jax"]
    if isinstance(x, jax.core.Tracer):
        raise UnsupportedError(
            f"{name} is a JAX tracer; call mxgemm outside jit and grad, or through jax.pure_callback"
        )
    if not isinstance(x, jax.Array):
        array_host.refuse_non_array(x, name)
    if writable:
        raise UnsupportedError(
            f"{name} is a JAX array, which is immutable; leave {name}= away and take the result"
        )
    if not isinstance(x.dtype, np.dtype):
        raise element_type_error(name, str(x.dtype))
    dtype_name(x.dtype, name)
    if x.is_deleted():
        raise UnsupportedError(f"{name} is a JAX array whose memory was donated or deleted")
    if len(x.devices()) != 1:
        raise UnsupportedError(
            f"{name} is a JAX array over {len(x.devices())} devices; gather it on one: "
            "jax.device_put(x, device)"
        )
    if _place(x).platform == "cpu":
        return array_host.host_view("jax", x, np.asarray(x), name, writable=False)
    return replace(from_dlpack("jax", x, name, writable=False), readonly=True)


def _place(owner: Any) -> Any:
    return owner.place if isinstance(owner, _Result) else next(iter(owner.devices()))


def empty(like: ArrayView, shape: tuple[int, ...], dtype: str, stream: int | None) -> ArrayView:
    """Memory that :func:`deliver` turns into a JAX array on the device of ``like``.

    Raises
    ------
    DTypeError
        For a 64-bit result while JAX has 64-bit types turned off.
    """
    if numpy_dtype(dtype).itemsize == 8 and not sys.modules["jax"].config.jax_enable_x64:
        raise DTypeError(
            f"the result is {dtype}, which JAX would truncate; turn 64-bit types on: "
            'jax.config.update("jax_enable_x64", True)'
        )
    place = _place(like.owner)
    if like.device == "cpu":
        memory = array_host.empty(shape, dtype)
        return array_host.host_view("jax", _Result(place, memory), memory, "the result", writable=False)
    nbytes = int(np.prod(shape, dtype=np.int64)) * numpy_dtype(dtype).itemsize
    buffer = device.allocate(nbytes, like.ordinal, device.LEGACY if stream is None else stream)
    strides = array_dlpack.row_major(shape)
    return ArrayView(
        "jax", "cuda", like.ordinal, buffer.pointer, shape, strides, dtype, _Result(place, buffer)
    )


def deliver(result: ArrayView, stream: int | None) -> object:
    """The JAX array over a written result: on CUDA without a copy, JAX waiting for ``stream``."""
    jax = sys.modules["jax"]
    if not isinstance(result.owner, _Result):
        return result.owner
    if result.host is not None:
        return jax.device_put(result.host, result.owner.place)
    written_on = device.LEGACY if stream is None else stream
    result.owner.memory.done(written_on)

    def order(consumer: int | None) -> None:
        if consumer is None:
            device.synchronize(written_on, result.ordinal)
        elif consumer != -1:  # DLPack: -1 asks for no ordering
            device.order_after(consumer, written_on, result.ordinal)

    return jax.dlpack.from_dlpack(array_dlpack.Exporter(result, order))
