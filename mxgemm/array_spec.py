"""ArraySpec: what an array will look like, for compiling ahead of the first call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mxgemm.array_view import DTYPES, ArrayView
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError, one_of
from mxgemm.shapes import contiguous

__all__ = ["ArraySpec", "as_view"]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Shape, element type and strides of a device array that does not exist yet.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
        Element type by name, for example "bfloat16".
    strides : tuple of int, optional
        In elements; row-major when left out.
    alignment : int
        Bytes, a power of two up to 16, to which the pointer will be aligned.
    ordinal : int
        CUDA device.

    Raises
    ------
    DTypeError, ShapeError, UnsupportedError
        For an unknown element type, a shape that is none, strides that do not fit it, another alignment.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    alignment: int = 16
    ordinal: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise DTypeError(
                f"element type {self.dtype} is not supported; supported are {one_of(tuple(DTYPES))}"
            )
        if self.shape.__class__ is not tuple or any(extent < 0 for extent in self.shape):
            raise ShapeError(f"shape {self.shape} is no tuple of extents >= 0")
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ShapeError(f"strides {self.strides} do not fit shape {self.shape}")
        if self.alignment not in (1, 2, 4, 8, 16):
            raise UnsupportedError(f"alignment={self.alignment}: supported are 1, 2, 4, 8 and 16 bytes")

    @property
    def view(self) -> ArrayView:
        """A view without memory, at an address that no array has, aligned as promised."""
        strides = contiguous(self.dtype, self.shape).strides if self.strides is None else self.strides
        pointer = (id(self) << 64) + self.alignment
        return ArrayView("other", "cuda", self.ordinal, pointer, self.shape, strides, self.dtype, self)


def as_view(x: Any) -> Any:
    """The view of an ArraySpec; everything else as it is."""
    return x.view if isinstance(x, ArraySpec) else x
