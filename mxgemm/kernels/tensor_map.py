"""TensorMap: a stack of matrices as Hopper's copy engine sees it, as a value without an address.

All maps have three axes, contiguous axis first: inner, outer, product of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TensorMap"]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A matrix as the copy engine sees it.

    Attributes
    ----------
    array : str
        Whose pointer it starts at: "a", "b" or "d" of the canonical problem.
    itemsize : int
        Bytes of an element.
    extents : tuple of int
        Of the matrix, in elements.
    strides : tuple of int
        Of the outer and the product axis, in bytes.
    box : tuple of int
        Extents of what one copy moves, in elements.
    swizzled : bool
        Whether 16-byte pieces of rows of 128 bytes are swizzled in shared memory.
    """

    array: str
    itemsize: int
    extents: tuple[int, int, int]
    strides: tuple[int, int]
    box: tuple[int, int, int]
    swizzled: bool = True
