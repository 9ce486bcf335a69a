"""How a launch's arguments lie in memory: each in a slot of its own, written as the kernel's parameter."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from mxgemm.errors import DTypeError

__all__ = ["ScalarLayout"]

SLOT = 16  # bytes for each argument: the largest is complex128

# How struct writes the classes whose bits it keeps; NumPy's narrow floats go as bytes, NaNs included.
_CODES: dict[type, str] = {
    bool: "?", int: "q", float: "d", np.bool_: "?", np.float64: "d",
    np.int8: "b", np.int16: "h", np.int32: "i", np.int64: "q",
    np.uint8: "B", np.uint16: "H", np.uint32: "I", np.uint64: "Q",
}  # fmt: skip


class ScalarLayout:
    """The slots of arguments of given classes.

    Parameters
    ----------
    kinds : tuple of type
        Python's int, float and bool, and scalars of NumPy (ml_dtypes included) and ctypes.

    Raises
    ------
    DTypeError
        For another class.
    """

    __slots__ = ("_as_bytes", "_pack", "nbytes")

    def __init__(self, kinds: tuple[type, ...]) -> None:
        self._as_bytes = tuple(i for i, kind in enumerate(kinds) if kind not in _CODES)
        codes = [_CODES.get(kind) or f"{_bytes_of(kind)}s" for kind in kinds]
        form = "".join(f"{code}{SLOT - struct.calcsize(f'={code}')}x" for code in codes)
        self._pack = struct.Struct(f"={form}").pack_into
        self.nbytes = SLOT * len(kinds)

    def places(self, first: int) -> range:
        """Addresses of the slots, of which the first lies at ``first``."""
        return range(first, first + self.nbytes, SLOT)

    def write(self, memory: Any, arguments: tuple[Any, ...]) -> None:
        """Put the arguments into ``nbytes`` bytes of memory."""
        if self._as_bytes:
            values = list(arguments)
            for i in self._as_bytes:
                value = values[i]
                values[i] = value.tobytes() if isinstance(value, np.generic) else bytes(value)
            arguments = tuple(values)
        try:
            self._pack(memory, 0, *arguments)
        except struct.error:  # an int from 2**63 on, an address say, goes as the signed one of its bits
            self._pack(memory, 0, *map(_signed, arguments))


def _signed(value: Any) -> Any:
    return value - 2**64 if type(value) is int and 2**63 <= value < 2**64 else value


def _bytes_of(kind: type) -> int:
    """Size of a class of scalars that is written as it lies in memory."""
    if issubclass(kind, np.generic) and kind is not np.longdouble:
        dtype = np.dtype(kind)
        if dtype.kind in "iufcV" and 0 < dtype.itemsize <= SLOT:
            return dtype.itemsize
    if issubclass(kind, ctypes._SimpleCData) and ctypes.sizeof(kind) <= 8:
        return ctypes.sizeof(kind)
    raise DTypeError(
        f"an argument of a kernel has type {kind.__name__}; supported are int, float, bool, and scalars of "
        "NumPy and ctypes"
    )
