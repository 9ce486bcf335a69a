"""Types of the kernel dialect: scalars, arrays and tuples, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from mxgemm.errors import DTypeError

__all__ = [
    "ARRAY_SPACES",
    "NUMBA_NAMES",
    "SCALARS",
    "ArrayType",
    "Scalar",
    "TupleType",
    "Type",
    "as_scalar",
    "boolean",
    "element_dtype",
    "float16",
    "float32",
    "float64",
    "int32",
    "int64",
    "is_type_object",
    "scalar_of_dtype",
    "uint32",
    "uint64",
]


@dataclass(frozen=True)
class Scalar:
    """A scalar type; ``kind`` is ``b`` (bool), ``i``, ``u`` or ``f``, ``bits`` its width."""

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any) -> Any:
        """Convert in host code (``cuda.float32(1)``), or make a signature (``cuda.float32(cuda.int32)``)."""
        if arguments and all(isinstance(argument, (Scalar, ArrayType)) for argument in arguments):
            from mxgemm.lang.signatures import Signature

            return Signature(arguments, self)
        return self.dtype.type(*arguments)

    def __getitem__(self, axes: Any) -> ArrayType:
        """``float32[:, ::1]``: an array type; a step of 1 on the last (first) axis says C (F) layout."""
        slices = axes if isinstance(axes, tuple) else (axes,)
        if not all(isinstance(axis, slice) for axis in slices):
            raise DTypeError(f"{self.name}[…] takes slices, one an axis, for example {self.name}[:, ::1]")
        layout = "A"
        if slices[-1].step == 1:
            layout = "C"
        elif slices[0].step == 1:
            layout = "F"
        return ArrayType(self, len(slices), layout)

    @property
    def is_integer(self) -> bool:
        """True for integers and bool."""
        return self.kind in "biu"

    @property
    def is_float(self) -> bool:
        """True for the four floating-point types."""
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        """True for signed integers and, as Numba counts it, bool."""
        return self.kind in "bi"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy element type."""
        return _DTYPES[self.name]

    @property
    def itemsize(self) -> int:
        """Bytes an element."""
        return _DTYPES[self.name].itemsize


boolean: Final = Scalar("bool", "b", 8)
int8: Final = Scalar("int8", "i", 8)
int16: Final = Scalar("int16", "i", 16)
int32: Final = Scalar("int32", "i", 32)
int64: Final = Scalar("int64", "i", 64)
uint8: Final = Scalar("uint8", "u", 8)
uint16: Final = Scalar("uint16", "u", 16)
uint32: Final = Scalar("uint32", "u", 32)
uint64: Final = Scalar("uint64", "u", 64)
float16: Final = Scalar("float16", "f", 16)
bfloat16: Final = Scalar("bfloat16", "f", 16)
float32: Final = Scalar("float32", "f", 32)
float64: Final = Scalar("float64", "f", 64)

SCALARS: Final[dict[str, Scalar]] = {
    t.name: t
    for t in (
        boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, bfloat16, float32, float64,
    )
}  # fmt: skip

_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    name: np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name) for name in SCALARS
}
_BY_DTYPE: Final[dict[np.dtype[Any], Scalar]] = {_DTYPES[name]: t for name, t in SCALARS.items()}

#: Numba's other names of the scalar types.
NUMBA_NAMES: Final[dict[str, str]] = {
    "boolean": "bool", "bool_": "bool", "b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32",
    "i8": "int64", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "f4": "float32",
    "f8": "float64", "intp": "int64", "uintp": "uint64", "intc": "int32", "uintc": "uint32",
    "ssize_t": "int64", "size_t": "uint64", "double": "float64", "byte": "uint8", "uchar": "uint8",
    "char": "int8", "short": "int16", "ushort": "uint16", "int_": "int64", "uint": "uint64",
    "long_": "int64", "ulong": "uint64", "longlong": "int64", "ulonglong": "uint64",
}  # fmt: skip

#: Other spellings in signatures and dtypes.
_ALIASES: Final[dict[str, str]] = {
    **NUMBA_NAMES,
    "f2": "float16", "float": "float64", "int": "int64", "long": "int64", "__nv_bfloat16": "bfloat16",
}  # fmt: skip

ARRAY_SPACES: Final = ("global", "shared", "local", "constant")


@dataclass(frozen=True)
class ArrayType:
    """An array: element type, number of axes, layout and memory space.

    ``layout`` is ``C``, ``F`` or ``A`` (any strides). ``shape`` is fixed for shared, local and
    constant arrays, and None for arrays that are arguments; a dynamic shared array has shape (-1,).
    """

    element: Scalar
    ndim: int
    layout: str = "C"
    space: str = "global"
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.shape is not None:
            extent = ", ".join("dynamic" if s < 0 else str(s) for s in self.shape)
            return f"{self.space} {self.element}[{extent}]"
        axes = [":"] * self.ndim
        if axes and self.layout != "A":
            axes[-1 if self.layout == "C" else 0] = "::1"
        return f"{self.element}[{', '.join(axes)}]"


@dataclass(frozen=True)
class TupleType:
    """A tuple of scalars (what a device function may return)."""

    items: tuple[Scalar, ...]

    def __str__(self) -> str:
        return f"({', '.join(str(t) for t in self.items)})"


Type = Scalar | ArrayType | TupleType


def element_dtype(element: Scalar) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type."""
    return element.dtype


def scalar_of_dtype(dtype: np.dtype[Any]) -> Scalar:
    """Return the scalar type of a NumPy dtype, or raise DTypeError naming what is supported."""
    found = _BY_DTYPE.get(dtype.newbyteorder("=") if dtype.byteorder in "<>" else dtype)
    if found is None or (dtype.byteorder == ">"):
        raise DTypeError(f"{dtype} is not an element type of the dialect; supported: {', '.join(SCALARS)}")
    return found


def is_type_object(value: Any) -> bool:
    """True when ``value`` names a scalar type: ours, NumPy's, Numba's, ``int``, ``float`` or ``bool``."""
    if isinstance(value, (Scalar, np.dtype)) or value in (int, float, bool):
        return True
    if isinstance(value, type) and issubclass(value, (np.generic, ml_dtypes.bfloat16)):
        return True
    return _numba_name(value) is not None


def as_scalar(value: Any) -> Scalar:
    """Return the scalar type that ``value`` names.

    Accepts the dialect's types, NumPy dtypes and scalar classes, Numba type objects, ``int``,
    ``float``, ``bool`` and strings.

    Raises
    ------
    DTypeError
        When ``value`` names no scalar type of the dialect.
    """
    if isinstance(value, Scalar):
        return value
    name = value if isinstance(value, str) else _numba_name(value)
    if name is not None:
        name = _ALIASES.get(name, name)
        if name in SCALARS:
            return SCALARS[name]
        raise DTypeError(f"{name} is not a type of the dialect; supported: {', '.join(SCALARS)}")
    try:
        dtype = np.dtype(value)
    except TypeError as error:
        raise DTypeError(f"{value!r} is not a type; supported: {', '.join(SCALARS)}") from error
    return scalar_of_dtype(dtype)


def _numba_name(value: Any) -> str | None:
    """Return the name of a Numba scalar type object; Numba itself is never imported."""
    if type(value).__module__.startswith(("numba.", "numba_cuda.")):
        name = getattr(value, "name", None)
        if isinstance(name, str) and _ALIASES.get(name, name) in SCALARS:
            return name
    return None
