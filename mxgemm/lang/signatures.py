"""Explicit signatures: ``"void(float32[:, ::1], int32)"``, tuples of types, and ``cuda.void(…)``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mxgemm.errors import DTypeError
from mxgemm.lang.types import ArrayType, Scalar, Type, as_scalar

__all__ = ["Signature", "accepts", "is_signature", "parse", "void"]


@dataclass(frozen=True)
class Signature:
    """Argument types, and what a device function returns (None: as inferred); kernels return nothing."""

    arguments: tuple[Type, ...]
    result: Scalar | None = None


class _Void:
    """``cuda.void``: calling it with argument types makes a signature."""

    def __call__(self, *arguments: Any) -> Signature:
        return Signature(tuple(argument_type(a) for a in arguments))

    def __repr__(self) -> str:
        return "void"


void = _Void()


def argument_type(value: Any) -> Type:
    """The type that one argument of a signature names: our types, Numba's, NumPy's, or text."""
    if isinstance(value, (Scalar, ArrayType)):
        return value
    text = value if isinstance(value, str) else _numba_array(value)
    if text is not None and "[" in text:
        return _array(text)
    return as_scalar(value)


def _numba_array(value: Any) -> str | None:
    """A Numba array type as text, read off its attributes; Numba itself is never imported."""
    if not type(value).__module__.startswith(("numba.", "numba_cuda.")) or not hasattr(value, "ndim"):
        return None
    axes = [":"] * value.ndim
    if value.layout == "C":
        axes[-1] = "::1"
    elif value.layout == "F":
        axes[0] = "::1"
    return f"{value.dtype}[{','.join(axes)}]"


def _array(text: str) -> ArrayType:
    found = re.fullmatch(r"\s*(\w+)\s*\[([^\]]*)\]\s*", text)
    if found is None:
        raise DTypeError(f"{text!r} is not an array type; write one as float32[:, ::1]")
    element, axes = as_scalar(found[1]), [axis.strip() for axis in found[2].split(",")]
    if not all(axis in (":", "::1") for axis in axes):
        raise DTypeError(f"{text!r}: the axes of an array type are : or ::1")
    layout = "C" if axes[-1] == "::1" else "F" if axes[0] == "::1" else "A"
    return ArrayType(element, len(axes), layout)


def accepts(declared: Type, t: Type) -> bool:
    """Whether a value of type ``t`` may stand for a declared type: arrays as they are, numbers converted.

    A float does not stand for an integer, which would cut it off.
    """
    if isinstance(t, ArrayType) and isinstance(declared, ArrayType):
        same = (t.element, t.ndim) == (declared.element, declared.ndim)
        return same and declared.layout in ("A", t.layout)
    if isinstance(t, Scalar) and isinstance(declared, Scalar):
        return not (t.is_float and declared.is_integer)
    return False


def is_signature(value: Any) -> bool:
    """Whether the first argument of ``jit`` is a signature rather than a function."""
    return isinstance(value, (str, tuple, list, Signature)) or (
        type(value).__module__.startswith(("numba.", "numba_cuda.")) and hasattr(value, "args")
    )


def parse(value: Any) -> tuple[Signature, ...]:
    """Return the signatures that ``value`` states; a list states several."""
    if isinstance(value, list):
        return tuple(signature for item in value for signature in parse(item))
    if isinstance(value, Signature):
        return (value,)
    if isinstance(value, tuple):
        return (Signature(tuple(argument_type(a) for a in value)),)
    if isinstance(value, str):
        return (_text(value),)
    returned = None if str(value.return_type) in ("none", "void") else as_scalar(value.return_type)
    return (Signature(tuple(argument_type(a) for a in value.args), returned),)


def _text(text: str) -> Signature:
    found = re.fullmatch(r"\s*(\w*)\s*\((.*)\)\s*", text, re.DOTALL)
    if found is None:
        raise DTypeError(f"{text!r} is not a signature; write one as 'void(float32[:], int32)'")
    parts = re.split(r",(?![^\[]*\])", found[2])
    result = None if found[1] in ("", "void", "none") else as_scalar(found[1])
    return Signature(tuple(argument_type(part.strip()) for part in parts if part.strip()), result)
