"""torch tensors in and out, on the CPU and on CUDA; torch is already imported when one arrives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from mxgemm.array_host import host_view
from mxgemm.array_view import DTYPES, ArrayView, element_type_error, numpy_dtype, refuse_layout
from mxgemm.errors import UnsupportedError

__all__ = ["allocator", "current_stream", "empty", "fingerprint", "stream_reader", "view"]

_LEGACY = 1  # CUDA's handle of the legacy default stream, which torch calls 0

# Element types that NumPy lacks cross as integers of the same width.
_CARRIERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


def view(x: Any, name: str, *, writable: bool) -> ArrayView:
    """See a torch tensor.

    Raises
    ------
    DTypeError, ShapeError
        As for NumPy arrays.
    UnsupportedError
        For tensors that require a gradient, sparse, nested, lazily negated and storage-less
        tensors, and devices other than the CPU and CUDA.
    """
    torch = sys.modules["torch"]
    if not isinstance(x, torch.Tensor):
        raise UnsupportedError(
            f"{name} is a torch object of class {type(x).__qualname__}; supported are tensors"
        )
    _refuse_tensor(torch, x, name)
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise element_type_error(name, str(x.dtype))
    try:
        host = _as_numpy(torch, x, dtype) if x.device.type == "cpu" else None
        pointer = x.data_ptr()
    except RuntimeError as error:
        raise UnsupportedError(
            f"{name} is a {type(x).__qualname__} without storage of its own; pass a plain tensor"
        ) from error
    if host is not None:
        return host_view("torch", x, host, name, writable=writable)
    found = ArrayView("torch", "cuda", x.device.index, pointer, tuple(x.shape), tuple(x.stride()), dtype, x)
    return refuse_layout(found, name, writable=writable)


def _refuse_tensor(torch: Any, x: Any, name: str) -> None:
    if x.requires_grad:
        raise UnsupportedError(
            f"{name} is a torch tensor with requires_grad=True and mxgemm records no gradient; "
            f"pass {name}.detach()"
        )
    if x.layout is not torch.strided or x.is_nested:
        raise UnsupportedError(
            f"{name} has torch layout {x.layout}; supported are dense tensors: {name}.to_dense()"
        )
    if x.is_neg():
        raise UnsupportedError(f"{name} is a lazily negated torch tensor; pass {name}.resolve_neg()")
    hip = x.device.type == "cuda" and torch.version.hip is not None
    if hip or x.device.type not in ("cpu", "cuda"):
        where = "ROCm" if hip else x.device.type
        raise UnsupportedError(f"{name} is a torch tensor on {where}; supported are the CPU and CUDA devices")


def _as_numpy(torch: Any, x: Any, dtype: str) -> Any:
    carrier = _CARRIERS.get(dtype)
    if carrier is None:
        return x.numpy()
    return x.view(getattr(torch, carrier)).numpy().view(numpy_dtype(dtype))


def fingerprint(x: Any) -> tuple[int, tuple[Any, ...] | None]:
    """Pointer, and the facts that :func:`view` depends on; None without storage or strides."""
    try:
        return x.data_ptr(), (x.device, x.shape, x.stride(), x.dtype, x.requires_grad, x.is_neg())
    except (RuntimeError, AttributeError, TypeError):  # the last of the class Tensor itself
        return 0, None


def current_stream(ordinal: int) -> int:
    """Handle of torch's current stream on a device."""
    return stream_reader(ordinal)()


def stream_reader(ordinal: int) -> Callable[[], int]:
    """What gives :func:`current_stream` of one device."""
    torch = sys.modules["torch"]
    # What torch's compiled code asks: torch.cuda.current_stream makes an object of a class in Python.
    asks = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if asks is None:
        return lambda: torch.cuda.current_stream(ordinal).cuda_stream or _LEGACY
    return lambda: asks(ordinal) or _LEGACY


def empty(like: ArrayView, shape: tuple[int, ...], dtype: str, stream: int | None) -> ArrayView:
    """A new tensor on the device of ``like``, from the allocator's pool of ``stream``.

    Raises
    ------
    DTypeError
        When this torch has no such element type.
    """
    torch = sys.modules["torch"]
    torch_dtype = getattr(torch, dtype, None)
    if torch_dtype is None:
        raise element_type_error(f"the result (torch {torch.__version__})", dtype)
    if like.device == "cpu":
        return view(torch.empty(shape, dtype=torch_dtype), "the result", writable=False)
    with _on_stream(torch, like, stream):
        made = torch.empty(shape, dtype=torch_dtype, device=f"cuda:{like.ordinal}")
    return view(made, "the result", writable=False)


def allocator(_ordinal: int, shape: tuple[int, ...], dtype: str) -> Callable[[Any], Any]:
    """What makes new tensors beside a given one, from the pool of torch's current stream."""
    torch = sys.modules["torch"]
    torch_dtype, plain = getattr(torch, dtype), (torch.Tensor, torch.nn.Parameter)

    def allocate(x: Any) -> Any:
        # The quicker new_empty makes a tensor of a program's own class beside one of that class.
        if x.__class__ in plain:
            return x.new_empty(shape, dtype=torch_dtype)
        return torch.empty(shape, dtype=torch_dtype, device=x.device)

    return allocate


def _on_stream(torch: Any, like: ArrayView, stream: int | None) -> Any:
    if stream is None or stream == current_stream(like.ordinal):
        return nullcontext()
    if stream == _LEGACY:
        return torch.cuda.stream(torch.cuda.default_stream(like.ordinal))
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=like.ordinal))
