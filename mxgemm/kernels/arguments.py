"""Launch arguments: every one 8 bytes, pointers first, so that a warmed call changes only those."""

from __future__ import annotations

import numpy as np

from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.operands import layout_of
from mxgemm.problem import GemmProblem, Matrix, Scalar

__all__ = ["constant_arguments", "pointer_names"]

MODE_PRODUCT, MODE_C, MODE_C_CONTIGUOUS = 1, 2, 4
_SMALL = range(128)  # values of every accumulator: nothing to round
_POINTERS = frozenset({"a", "b", "c", "d", "bias", "scale_rows", "scale_cols", "flags"})


def pointer_names(instance: KernelInstance) -> tuple[str, ...]:
    """Names of the leading parameters, which are addresses."""
    return tuple(name for _, name in instance.parameters if name in _POINTERS)


def constant_arguments(
    instance: KernelInstance, p: GemmProblem, c_is_contiguous: bool
) -> tuple[int | float, ...]:
    """What follows the pointers: fixed for a problem in canonical form.

    Parameters
    ----------
    instance : KernelInstance
    p : GemmProblem
    c_is_contiguous : bool
        Whether C can be read in pieces of the epilogue's vector.
    """
    values = _values(instance, p, c_is_contiguous)
    return tuple(values[name] for _, name in instance.parameters if name not in _POINTERS)


def _scalar(value: Scalar, accumulator: str) -> int | float:
    """Rounded to the accumulator's type; unsigned 64-bit values travel as the signed ones of their bits."""
    if value.__class__ is int and value in _SMALL:
        return value if "int" in accumulator else float(value)
    from mxgemm.units.convert import round_scalar  # most products have scalars of 0 and 1 alone

    rounded = round_scalar(value, accumulator).item()
    if "int" not in accumulator:
        return float(rounded)
    return rounded - 2**64 if rounded >= 2**63 else int(rounded)


def _bound(value: Scalar, accumulator: str) -> int | float:
    """A clamp bound; integers saturate where the others would wrap."""
    if "int" in accumulator:
        limits = np.iinfo(accumulator)
        value = min(max(int(value), int(limits.min)), int(limits.max))
    return _scalar(value, accumulator)


def _operand_strides(x: Matrix, is_a: bool, any_stride: bool, layout: str) -> tuple[int, int]:
    """Strides of the outer axis and of the axis that the layout names."""
    if not any_stride:
        found = layout_of(x, is_a)
        return (found[1] if found else 0), 1
    along_k, along_width = (x.col_stride, x.row_stride) if is_a else (x.row_stride, x.col_stride)
    return (along_width, along_k) if layout == "k_major" else (along_k, along_width)


def _values(instance: KernelInstance, p: GemmProblem, c_is_contiguous: bool) -> dict[str, int | float]:
    acc, any_stride = instance.accumulator, instance.takes_inner_strides
    a_outer, a_inner = _operand_strides(p.a, True, any_stride, instance.a.layout)
    b_outer, b_inner = _operand_strides(p.b, False, any_stride, instance.b.layout)
    mode = MODE_PRODUCT * p.reads_operands | MODE_C * p.reads_c | MODE_C_CONTIGUOUS * c_is_contiguous
    values: dict[str, int | float] = {
        "m": p.m, "n": p.n, "k": p.k, "depth": p.a.cols, "products": p.products, "mode": int(mode),
        "a_outer": a_outer, "a_inner": a_inner, "b_outer": b_outer, "b_inner": b_inner,
        "c_row": p.c.row_stride if p.c else 0, "c_col": p.c.col_stride if p.c else 0,
        "d_row": p.d.row_stride, "d_col": p.d.col_stride,
        "alpha": _scalar(p.alpha, acc), "beta": _scalar(p.beta, acc),
        "low": _bound(p.epilogue.lo, acc), "high": _bound(p.epilogue.hi, acc),
        "bias_row": p.bias.row_stride if p.bias else 0, "bias_col": p.bias.col_stride if p.bias else 0,
        "scale_row": p.scale_rows.row_stride if p.scale_rows else 0,
        "scale_col": p.scale_cols.col_stride if p.scale_cols else 0,
    }  # fmt: skip
    for axis, extent in enumerate(p.batch):
        values[f"batch{axis}_extent"] = extent
        for name in ("a", "b", "c", "d", "bias"):
            x: Matrix | None = getattr(p, name)
            values[f"batch{axis}_{name}"] = x.batch_strides[axis] if x else 0
    return values
