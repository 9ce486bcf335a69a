"""Orientation: the product as it stands and its transpose, which suit tiles and unit differently."""

from __future__ import annotations

from mxgemm.kernels.canonical import Canonical, transpose
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["orientations"]

_FEW = 32  # rows: the narrowest tiles have 16 and 32 columns


def orientations(form: Canonical) -> tuple[Canonical, ...]:
    """The same product as it stands and as its transpose; no bit changes.

    The first is what would be chosen without a model: few rows become few columns, so that the unit's 64
    rows are used.  Of float32 operands only A may lie along another axis than K, so that B becomes A where
    it does; where both do, the smaller becomes B, which is arranged.

    The other one follows where it stores D, and reads C, in the same way, and would not arrange an operand
    of many float32 rows that the first reads through registers.  Both scales at once are applied rows first,
    an order that the transpose would turn.
    """
    p = form.problem
    if p.scale_rows is not None and p.scale_cols is not None:
        return (form,)
    turned = Canonical(transpose(p), not form.transposed)
    narrow = min(p.m, p.n) <= _FEW
    turns = p.m < p.n if narrow else p.a.dtype == "float32" and _wants_b_first(p)
    first, other = (turned, form) if turns else (form, turned)
    alike = _is_alike_either_way(p) and (narrow or not _is_read_as_it_lies_by_one(p))
    return (first, other) if alike else (first,)


def _is_read_as_it_lies_by_one(p: GemmProblem) -> bool:
    """Whether one of two float32 operands lies along K, so that one form arranges what the other need not."""
    found = (layout_of(p.a, True), layout_of(p.b, False))
    along_k = [layout is not None and layout[0] == "k_major" for layout in found]
    return p.a.dtype == "float32" and along_k[0] != along_k[1]


def _wants_b_first(p: GemmProblem) -> bool:
    of_a, of_b = layout_of(p.a, True), layout_of(p.b, False)
    if of_b is None or of_b[0] == "k_major":
        return False
    return of_a is None or of_a[0] == "k_major" or p.m < p.n


def _is_alike_either_way(p: GemmProblem) -> bool:
    """Whether D, and C if there is one, can be moved in bulk along either axis of a tile: not so bytes."""
    if SIZES[p.d.dtype] == 1 or _contiguous_axis(p.d) is None:
        return False
    like_d = p.c is None or (p.c.dtype == p.d.dtype and _contiguous_axis(p.c) == _contiguous_axis(p.d))
    return like_d or not p.reads_c


def _contiguous_axis(x: Matrix) -> str | None:
    """The one axis of unit stride; None where both have it, or neither."""
    if (x.row_stride == 1) == (x.col_stride == 1):
        return None
    return "rows" if x.row_stride == 1 else "columns"
