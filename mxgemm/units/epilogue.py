"""From P to D: the epilogue's roundings in their stated sequence (:mod:`mxgemm.epilogue`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.problem import GemmProblem
from mxgemm.units.activations import activate
from mxgemm.units.convert import round_scalar, saturates, to_accumulator, to_output
from mxgemm.units.formats import numpy_dtype, widen

__all__ = ["Extras", "finish"]

Array = NDArray[Any]

BLOCK_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class Extras:
    """What enters after the product, each (M, N) or None when absent."""

    c: Array | None = None
    bias: Array | None = None
    scale_rows: Array | None = None
    scale_cols: Array | None = None


Block = tuple[slice, slice]


def _scaled_product(p: Array, problem: GemmProblem, extras: Extras, block: Block) -> Array:
    """U = rnd(alpha·P), or rnd(rnd(rnd(alpha·P)·rows)·cols)."""
    kind = p.dtype.name
    u = p[block]
    if problem.alpha != 1:
        u = u * round_scalar(problem.alpha, kind)
    for scale in (extras.scale_rows, extras.scale_cols):
        if scale is not None:
            u = u * to_accumulator(scale[block], kind)
    return u


def _sum(p: Array | None, problem: GemmProblem, extras: Extras, block: Block, kind: str) -> Array | None:
    """S' = rnd(rnd(U + V) + bias), where a term that is absent is not added; None when all are absent."""
    terms = []
    if p is not None:
        terms.append(_scaled_product(p, problem, extras, block))
    if problem.reads_c and extras.c is not None:
        terms.append(to_accumulator(extras.c[block], kind) * round_scalar(problem.beta, kind))
    if extras.bias is not None:
        terms.append(to_accumulator(extras.bias[block], kind))
    return reduce(np.add, terms) if terms else None


def _blocks(rows: int, columns: int) -> Iterator[Block]:
    width = min(max(columns, 1), BLOCK_ENTRIES)
    height = BLOCK_ENTRIES // width
    for i in range(0, rows, height):
        for j in range(0, columns, width):
            yield slice(i, min(i + height, rows)), slice(j, min(j + width, columns))


def finish(p: Array | None, problem: GemmProblem, extras: Extras, kind: str, out: Array) -> bool:
    """Write D block by block: of one product, or of several below each other.

    Parameters
    ----------
    p : (M, N) array of type ``kind``, or None
        None when A and B take no part (alpha = 0 or K = 0).
    problem : GemmProblem
        Gives alpha, beta, the activation and the result's type.
    extras : Extras
        (M, N) arrays of any accepted types.
    kind : str
        The accumulator's type.
    out : (M, N) array
        D, of ``problem.d.dtype``.

    Returns
    -------
    bool
        Whether the conversion to fp8 saturated.
    """
    spec = problem.epilogue
    saturated = False
    with np.errstate(all="ignore"):
        for block in _blocks(*out.shape):
            total = _sum(p, problem, extras, block, kind)
            if total is None:
                total = np.zeros(out[block].shape, numpy_dtype(kind))
            total = activate(total, spec.activation, spec.lo, spec.hi)
            if out.dtype.name.startswith("float8") and total.dtype != out.dtype:
                saturated = saturated or saturates(widen(total), problem.d.dtype)
            out[block] = to_output(total, problem.d.dtype)
    return saturated
