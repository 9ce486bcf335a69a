"""Operands as a kernel sees them: the axis with unit stride, and the alignment that copies may use."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

from mxgemm.kernels.names import SIZES
from mxgemm.problem import Matrix

__all__ = [
    "LARGEST_ALIGNMENT",
    "LEAST_ASYNC",
    "OperandClass",
    "PackedForm",
    "alignment_class",
    "layout_of",
    "shared_alignment",
    "vector_fits",
]

Layout = Literal["k_major", "mn_major"]

LARGEST_ALIGNMENT = 16
"""Bytes of the widest copy; more alignment brings nothing."""


LEAST_ASYNC = 4
"""Bytes of the narrowest cp.async."""


class OperandClass(NamedTuple):
    """What the code for one operand depends on.

    Attributes
    ----------
    dtype : str
        Element type in memory.
    layout : str
        "k_major": unit stride along K; "mn_major": along M (of A) or N (of B).
    alignment : int
        Bytes to which the pointer, the outer stride and the batch strides are all aligned, at most 16.
    """

    dtype: str
    layout: Layout
    alignment: int

    def __str__(self) -> str:
        return f"{self.dtype} {self.layout} {self.alignment}"


class PackedForm(NamedTuple):
    """How a family wants an operand that it cannot read as it lies.

    Attributes
    ----------
    along_k : bool or None
        Whether K becomes the contiguous axis, else the other one; None takes that of the smaller stride.
    aligned : bool
        Whether rows are padded to whole 16-byte pieces.
    """

    along_k: bool | None = None
    aligned: bool = False


def _extent_and_stride(x: Matrix, along_k: bool, is_a: bool) -> tuple[int, int]:
    rows_run_along_k = not is_a
    return (x.rows, x.row_stride) if along_k == rows_run_along_k else (x.cols, x.col_stride)


def layout_of(x: Matrix, is_a: bool) -> tuple[Layout, int] | None:
    """The axis with unit stride and the stride of the other; None when neither has it.

    An axis of one entry has whatever stride suits; a true unit stride is preferred.
    """
    depth, depth_stride = _extent_and_stride(x, True, is_a)
    width, width_stride = _extent_and_stride(x, False, is_a)
    if depth_stride == 1 and depth > 1:
        return "k_major", width_stride if width > 1 else 0
    if width_stride == 1 and width > 1:
        return "mn_major", depth_stride if depth > 1 else 0
    if depth <= 1:
        return "k_major", width_stride if width > 1 else 0
    if width <= 1:
        return "mn_major", depth_stride
    return None


def shared_alignment(pointer_alignment: int, dtype: str, strides: Iterable[int]) -> int:
    """Largest power of two, at most 16, that divides the pointer and every stride in bytes."""
    common = math.gcd(pointer_alignment, LARGEST_ALIGNMENT, *(abs(s) * SIZES[dtype] for s in strides))
    return common & -common


def alignment_class(alignment: int, dtype: str, rounded: bool) -> int:
    """The copy that an alignment allows: 16, 8 or 4 bytes, or 1 for elements off a 4-byte boundary.

    Operands that are rounded on the way (``rounded``) know only 16 and 4.
    """
    if rounded:
        return 16 if alignment >= 16 else 4
    return alignment if alignment >= max(LEAST_ASYNC, SIZES[dtype]) else 1


def vector_fits(x: Matrix, vector: int, pointer_alignment: int) -> bool:
    """Whether ``vector`` neighbouring entries of a row are one aligned piece, in every row and matrix."""
    if x.col_stride != 1 or x.cols < vector:
        return False
    strides = (*((x.row_stride,) if x.rows > 1 else ()), *x.batch_strides)
    piece = vector * SIZES[x.dtype]
    return piece <= LARGEST_ALIGNMENT and shared_alignment(pointer_alignment, x.dtype, strides) % piece == 0
