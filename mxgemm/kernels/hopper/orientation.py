"""Orientation: a product with few rows runs as its transpose, so that the unit's 64 rows are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mxgemm.kernels.canonical import Canonical
from mxgemm.problem import Matrix

__all__ = ["upright"]

_FEW = 32  # rows: the narrowest tiles have 16 and 32 columns
_PARTNERS = {"a": "b", "b": "a", "scale_rows": "scale_cols", "scale_cols": "scale_rows"}
_ARRAYS = ("a", "b", "c", "d", "bias", "scale_rows", "scale_cols")


def upright(form: Canonical) -> Canonical:
    """The same product with no fewer rows than columns where one of them is small; no bit changes.

    Both scales at once are applied rows first, an order that the transpose would turn round.
    """
    p = form.problem
    if p.m > _FEW or p.n <= p.m or (p.scale_rows is not None and p.scale_cols is not None):
        return form
    spec = replace(
        p.epilogue, has_scale_rows=p.epilogue.has_scale_cols, has_scale_cols=p.epilogue.has_scale_rows
    )
    arrays: dict[str, Any] = {name: _flipped(getattr(p, _PARTNERS.get(name, name))) for name in _ARRAYS}
    return Canonical(replace(p, m=p.n, n=p.m, epilogue=spec, **arrays), not form.transposed)


def _flipped(x: Matrix | None) -> Matrix | None:
    return x and Matrix(x.dtype, x.cols, x.rows, x.col_stride, x.row_stride, x.batch_strides)
