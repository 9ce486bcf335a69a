"""``@cuda.jit`` and its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mxgemm.errors import DTypeError, UnsupportedError
from mxgemm.lang.backend import CompileChoices
from mxgemm.lang.dispatch import CudaFunction
from mxgemm.lang.signatures import Signature, is_signature, parse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["jit"]

#: Options that change nothing here, with the values that ask for what always holds.
_GRANTED: Final[dict[str, tuple[Any, ...]]] = {
    "inline": (False, True, "never", "always"),
    "cache": (False, True),
    "opt": (True, 3),
    "lineinfo": (False,),
    "debug": (False, None),
    "boundscheck": (False, None),
    "link": ((), [], None),
    "bind": (True,),
    "abi": ("numba",),
    "extensions": ((), [], None),
}

_REASONS: Final[dict[str, str]] = {
    "debug": "run with MXGEMM_INTERPRETER=1, which checks bounds, races, barriers and initialisation",
    "boundscheck": "run with MXGEMM_INTERPRETER=1, which checks bounds",
    "opt": "kernels are always optimised",
    "lineinfo": "the generated source (kernel.source()) is what a profiler sees",
    "link": "device functions are Python functions under @cuda.jit(device=True)",
    "advice": "advice comes with the recogniser of matrix products, which is not there yet",
    "extensions": "arguments are numbers and arrays",
}


def jit(
    signature_or_function: Any = None,
    *,
    device: bool = False,
    fma: bool = False,
    fastmath: bool = False,
    max_registers: int | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    **options: Any,
) -> Any:
    """Make a kernel (or with ``device=True`` a device function) of a Python function.

    Parameters
    ----------
    signature_or_function
        The function, when used bare; else one signature or a list of them.
    fma
        Let the compiler contract ``a*b + c``: Numba's default. The GPU then leaves the interpreter's bits.
    fastmath
        Contraction, flushed subnormals, approximate division, square root and functions: the GPU leaves
        the interpreter's bits.
    max_registers
        Registers a thread, at most.
    launch_bounds
        Threads a block, or (threads, blocks a multiprocessor).

    Raises
    ------
    KernelSyntaxError
        For source outside the dialect: here when there is a signature, else at the first launch.
    UnsupportedError, TypeError
        For options that are refused by name, and for unknown ones.
    """
    _check(options)
    for name, value in (("device", device), ("fma", fma), ("fastmath", fastmath)):
        if not isinstance(value, bool):
            raise DTypeError(f"@cuda.jit({name}={value!r}): it is True or False")
    choices = CompileChoices(fma, fastmath, _registers(max_registers), _bounds(launch_bounds))
    signatures: tuple[Signature, ...] = ()
    if signature_or_function is not None and is_signature(signature_or_function):
        signatures = parse(signature_or_function)
    elif isinstance(signature_or_function, CudaFunction):
        return CudaFunction(signature_or_function.py_func, (), choices, device=device)
    elif callable(signature_or_function):
        return CudaFunction(signature_or_function, (), choices, device=device)
    elif signature_or_function is not None:
        raise TypeError(f"@cuda.jit takes a function or a signature, not {signature_or_function!r}")

    if not device and any(signature.result for signature in signatures):
        raise DTypeError("a kernel returns nothing: write its signature as void(…), or say device=True")

    def decorate(function: Callable[..., Any]) -> CudaFunction:
        return CudaFunction(function, signatures, choices, device=device)

    return decorate


def _registers(value: Any) -> int | None:
    if value is not None and not _is_count(value):
        raise DTypeError(f"@cuda.jit(max_registers={value!r}): it is a positive integer")
    return None if value is None else int(value)


def _bounds(value: Any) -> tuple[int, ...]:
    parts = value if isinstance(value, (tuple, list)) else () if value is None else (value,)
    if len(parts) > 2 or not all(map(_is_count, parts)):
        raise DTypeError(
            f"@cuda.jit(launch_bounds={value!r}): it is the threads of a block, or (threads, blocks a "
            "multiprocessor)"
        )
    return tuple(map(int, parts))


def _is_count(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) > 0


def _check(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name in _GRANTED and any(value is v or value == v for v in _GRANTED[name]):
            continue
        if name in _REASONS:
            raise UnsupportedError(f"@cuda.jit({name}={value!r}) is not supported: {_REASONS[name]}")
        known = "device, fma, fastmath, max_registers, launch_bounds, inline, cache"
        raise TypeError(f"@cuda.jit has no option {name}={value!r}; it has {known}")
