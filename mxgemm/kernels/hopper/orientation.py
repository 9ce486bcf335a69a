"""Orientation: a product with few rows runs as its transpose, so that the unit's 64 rows are used."""

from __future__ import annotations

from mxgemm.kernels.canonical import Canonical, transpose

__all__ = ["upright"]

_FEW = 32  # rows: the narrowest tiles have 16 and 32 columns


def upright(form: Canonical) -> Canonical:
    """The same product with no fewer rows than columns where one of them is small; no bit changes.

    Both scales at once are applied rows first, an order that the transpose would turn round.
    """
    p = form.problem
    if p.m > _FEW or p.n <= p.m or (p.scale_rows is not None and p.scale_cols is not None):
        return form
    return Canonical(transpose(p), not form.transposed)
