"""Orientation: the product as it stands or its transpose, whichever suits the unit."""

from __future__ import annotations

from mxgemm.kernels.canonical import Canonical, transpose
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem

__all__ = ["upright"]

_FEW = 32  # rows: the narrowest tiles have 16 and 32 columns


def upright(form: Canonical) -> Canonical:
    """The same product in the better of its two orientations; no bit changes.

    Few rows become few columns, so that the unit's 64 rows are used.  Of float32 operands only A may lie
    along another axis than K, so that B becomes A where it does; where both do, the smaller becomes B,
    which is arranged.  Both scales at once are applied rows first, an order that the transpose would turn.
    """
    p = form.problem
    if p.scale_rows is not None and p.scale_cols is not None:
        return form
    narrow = min(p.m, p.n) <= _FEW
    turns = p.m < p.n if narrow else p.a.dtype == "float32" and _wants_b_first(p)
    return Canonical(transpose(p), not form.transposed) if turns else form


def _wants_b_first(p: GemmProblem) -> bool:
    of_a, of_b = layout_of(p.a, True), layout_of(p.b, False)
    if of_b is None or of_b[0] == "k_major":
        return False
    return of_a is None or of_a[0] == "k_major" or p.m < p.n
