"""torch tensors in and out, on the CPU and on CUDA; torch is already imported when one arrives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from mxgemm.array_host import host_view
from mxgemm.array_view import DTYPES, ArrayView, element_type_error, numpy_dtype, refuse_layout
from mxgemm.errors import UnsupportedError

__all__ = [
    "allocator",
    "current_stream",
    "empty",
    "fingerprint",
    "fingerprints",
    "keep",
    "repeated",
    "stream_reader",
    "view",
]

_Check = Callable[..., bool]

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
    if pointer == 0 and x.numel() > 0:
        raise UnsupportedError(f"{name} is a tensor whose storage was freed (its pointer is 0)")
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
        pointer = x.data_ptr()
        known = _ONE.get(pointer)
        if known is not None and known[0](x):
            return known[1]
        if pointer == 0:  # empty, or freed: to be seen anew
            return 0, None
        found = pointer, (x.device, x.shape, x.stride(), x.dtype, x.requires_grad, x.is_neg())
    except (RuntimeError, AttributeError, TypeError):  # the last of the class Tensor itself
        return 0, None
    _remember(_ONE, pointer, found, x)
    return found


def fingerprints(a: Any, b: Any, d: Any) -> tuple[int, int, int, tuple[Any, ...] | None]:
    """Pointers of three tensors and the :func:`fingerprint` facts of all; at once that takes less."""
    try:
        pointers = a.data_ptr(), b.data_ptr(), d.data_ptr()
        known = _THREE.get(pointers)
        if known is not None and known[0](a, b, d):
            return known[1]
        if 0 in pointers:  # empty, or freed: to be seen anew
            return 0, 0, 0, None
        found = (*pointers, (
            a.device, a.shape, a.stride(), a.dtype, a.requires_grad, a.is_neg(),
            b.device, b.shape, b.stride(), b.dtype, b.requires_grad, b.is_neg(),
            d.device, d.shape, d.stride(), d.dtype, d.requires_grad, d.is_neg(),
        ))  # fmt: skip
    except (RuntimeError, AttributeError, TypeError):
        return 0, 0, 0, None
    _remember(_THREE, pointers, found, a, b, d)
    return found


def keep(kept: dict[Any, Any], a: Any, b: Any, d: Any, value: Any) -> None:
    """Keep ``value`` for :func:`repeated`, where torch's guards tell tensors of these facts from others."""
    pointers = a.data_ptr(), b.data_ptr(), d.data_ptr()
    known = _THREE.get(pointers)
    if known is not None and known[0](a, b, d):
        kept[pointers] = known[0], value


def repeated(kept: dict[Any, Any], a: Any, b: Any, d: Any) -> Any:
    """What was kept for tensors at these pointers that have all the facts that those had; None otherwise."""
    try:
        known = kept.get((a.data_ptr(), b.data_ptr(), d.data_ptr()))
        return known[1] if known is not None and known[0](a, b, d) else None
    except (RuntimeError, AttributeError, TypeError):
        return None


# What was found last at each pointer, behind what tells whether tensors still have all of those facts: torch
# compares them in C++ in a fifth of the time in which Python reads them.
_ONE: dict[int, tuple[_Check, tuple[int, tuple[Any, ...]]]] = {}
_THREE: dict[tuple[int, int, int], tuple[_Check, tuple[int, int, int, tuple[Any, ...]]]] = {}
_CAPACITY = 2048


def _remember(known: dict[Any, Any], key: Any, found: Any, *tensors: Any) -> None:
    guards = _guards()
    plain = all(x.__class__ is sys.modules["torch"].Tensor for x in tensors)
    # Guards tell only different tensors, and know a class by its address.
    if guards is None or not plain or len({id(x) for x in tensors}) < len(tensors):
        return
    check = guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    if check(*tensors):
        if len(known) >= _CAPACITY:
            known.clear()
        known[key] = check, found


@lru_cache(maxsize=1)
def _guards() -> Any:
    """The class with which torch's compiler recognises tensors that it has seen; None where it is another.

    It holds no tensor and compares class, dispatch keys (which tell device types, layouts and lazy negation),
    element type, device number, whether a gradient is required, shape and strides.  It is torch's own, so it
    is asked whether it tells all that before it is used.
    """
    torch = sys.modules["torch"]
    try:
        made = torch._C._dynamo.guards.TensorGuards
        return made if _tells_tensors_apart(torch, made) else None
    except Exception:  # noqa: BLE001  # whatever another version of torch raises where it differs
        return None


def _tells_tensors_apart(torch: Any, guards: Any) -> bool:
    def make(*shape: int, **options: Any) -> Any:
        return torch.zeros(shape, **{"device": "cpu", "dtype": torch.float32, **options})

    given = [make(4, 6), make(4, 6), make(4, 6)]
    check = guards(*given, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    others = [
        make(4, 7), make(5, 6), make(24), make(6, 4).t(), make(4, 12)[:, ::2], make(4, 6, dtype=torch.int32),
        make(4, 6, device="meta"), make(4, 6, requires_grad=True), torch._neg_view(make(4, 6)),
        torch.nn.Parameter(make(4, 6), requires_grad=False), make(4, 6).to_sparse(),
    ]  # fmt: skip
    alike = check(*given) and check(*(make(4, 6) for _ in given))
    told = [check(*given[:i], other, *given[i + 1 :]) for i in range(3) for other in others]
    with torch.no_grad():
        told.append(check(*given[1:], make(4, 6, requires_grad=True)))
    return bool(alike) and not any(told)


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


def allocator(_ordinal: int, shape: tuple[int, ...], dtype: str) -> Callable[[Any], tuple[Any, int]]:
    """What makes new tensors beside a given one, from the pool of torch's current stream; with addresses."""
    torch = sys.modules["torch"]
    torch_dtype, plain = getattr(torch, dtype), (torch.Tensor, torch.nn.Parameter)

    def allocate(x: Any) -> tuple[Any, int]:
        # The quicker new_empty makes a tensor of a program's own class beside one of that class.
        if x.__class__ in plain:
            made = x.new_empty(shape, dtype=torch_dtype)
        else:
            made = torch.empty(shape, dtype=torch_dtype, device=x.device)
        return made, made.data_ptr()

    return allocate


def _on_stream(torch: Any, like: ArrayView, stream: int | None) -> Any:
    if stream is None or stream == current_stream(like.ordinal):
        return nullcontext()
    if stream == _LEGACY:
        return torch.cuda.stream(torch.cuda.default_stream(like.ordinal))
    return torch.cuda.stream(torch.cuda.ExternalStream(stream, device=like.ordinal))
