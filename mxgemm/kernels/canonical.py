"""The form that kernels are written for: D row-major where it can be, and few batch axes.

D with unit row stride is computed as its transpose, Dᵀ = BᵀAᵀ: every product of the two
factors commutes, so no bit changes.  Batch axes that every operand steps through alike
are merged; axes of one entry vanish.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from mxgemm.problem import GemmProblem, Matrix

__all__ = ["ARRAYS", "Canonical", "canonical", "flip", "transpose"]

ARRAYS = ("a", "b", "c", "d", "bias", "scale_rows", "scale_cols")
"""The arrays of a problem, by their fields' names."""

_TRANSPOSED = {"a": "b", "b": "a", "scale_rows": "scale_cols", "scale_cols": "scale_rows"}


class Canonical(NamedTuple):
    """A problem in the kernels' form.

    Attributes
    ----------
    problem : GemmProblem
    transposed : bool
        Whether A and B (and row and column scales) changed places.
    """

    problem: GemmProblem
    transposed: bool

    def caller_name(self, name: str) -> str:
        """Which of the caller's arrays plays the part ``name``."""
        return _TRANSPOSED.get(name, name) if self.transposed else name


def flip(x: Matrix) -> Matrix:
    """The transpose."""
    return Matrix(x.dtype, x.cols, x.rows, x.col_stride, x.row_stride, x.batch_strides)


def transpose(p: GemmProblem) -> GemmProblem:
    """Dᵀ = BᵀAᵀ: no bit changes unless rows and columns are both scaled, which are applied rows first."""
    spec = replace(
        p.epilogue, has_scale_rows=p.epilogue.has_scale_cols, has_scale_cols=p.epilogue.has_scale_rows
    )
    arrays: dict[str, Any] = {
        name: None if (x := getattr(p, _TRANSPOSED.get(name, name))) is None else flip(x) for name in ARRAYS
    }
    return replace(p, m=p.n, n=p.m, epilogue=spec, **arrays)


def _prefers_transpose(p: GemmProblem) -> bool:
    # Both scales at once are applied rows first, an order that the transpose would turn round.
    if p.m == 1 or (p.scale_rows is not None and p.scale_cols is not None):
        return False
    if p.n == 1:
        return True
    return p.d.row_stride == 1 and p.d.col_stride != 1


def _merged_axes(p: GemmProblem) -> list[tuple[int, list[int]]]:
    """(extent, stride of each array) of the batch axes, outermost first, merged where all strides allow."""
    arrays = [x for x in (getattr(p, name) for name in ARRAYS) if x is not None]
    merged: list[tuple[int, list[int]]] = []
    for axis, extent in enumerate(p.batch):
        strides = [x.batch_strides[axis] if x.batch_strides else 0 for x in arrays]
        if extent == 1:
            continue
        if merged and all(out == step * extent for out, step in zip(merged[-1][1], strides, strict=True)):
            merged[-1] = (merged[-1][0] * extent, strides)
        else:
            merged.append((extent, strides))
    return merged


def canonical(p: GemmProblem) -> Canonical:
    """Bring a problem into the kernels' form; values and order of every sum stay as they are."""
    transposed = _prefers_transpose(p)
    if transposed:
        p = transpose(p)
    axes = _merged_axes(p)
    names = [name for name in ARRAYS if getattr(p, name) is not None]
    arrays: dict[str, Any] = {
        name: replace(getattr(p, name), batch_strides=tuple(strides[i] for _, strides in axes))
        for i, name in enumerate(names)
    }
    return Canonical(replace(p, batch=tuple(extent for extent, _ in axes), **arrays), transposed)
