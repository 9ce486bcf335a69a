"""From a problem in canonical form to its class: what a kernel's code depends on."""

from __future__ import annotations

from collections.abc import Mapping

from mxgemm.configs import Configuration
from mxgemm.errors import UnsupportedError
from mxgemm.kernels.canonical import flip
from mxgemm.kernels.instance import EpilogueClass
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import (
    LARGEST_ALIGNMENT,
    OperandClass,
    alignment_class,
    layout_of,
    shared_alignment,
    vector_fits,
)
from mxgemm.kernels.product import BiasAxis, ProductClass
from mxgemm.kernels.table import Family
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["product_class"]


def _epilogue_class(p: GemmProblem, accumulator: str, d_alignment: int) -> EpilogueClass:
    wide = LARGEST_ALIGNMENT // max(4, SIZES[accumulator], SIZES[p.d.dtype])
    vector = wide if vector_fits(p.d, wide, d_alignment) else 1
    bias, rows, cols = (x.dtype if x else None for x in (p.bias, p.scale_rows, p.scale_cols))
    c = p.c.dtype if p.c else p.d.dtype
    return EpilogueClass(p.epilogue.activation, p.d.dtype, c, bias, rows, cols, vector)


def _operand_class(
    x: Matrix, is_a: bool, pointer_alignment: int, rounded: bool, any_stride: bool
) -> OperandClass:
    found = layout_of(x, is_a)
    if any_stride:
        along_k = abs(x.col_stride if is_a else x.row_stride) <= abs(x.row_stride if is_a else x.col_stride)
        layout = found[0] if found else "k_major" if along_k else "mn_major"
        return OperandClass(x.dtype, layout, SIZES[x.dtype])
    if found is None:
        raise UnsupportedError(f"operand {x} has no unit stride in either axis and has to be packed first")
    alignment = shared_alignment(pointer_alignment, x.dtype, (found[1], *x.batch_strides))
    return OperandClass(x.dtype, found[0], alignment_class(alignment, x.dtype, rounded))


def _piece(x: Matrix, pointer_alignment: int) -> int:
    """Entries of 16 bytes where D or C is made of such pieces, else 1."""
    piece = LARGEST_ALIGNMENT // SIZES[x.dtype]
    ascends = (x.rows <= 1 or x.row_stride > 0) and all(stride >= 0 for stride in x.batch_strides)
    # The copy engine writes whole 16-byte pieces, past the end of a row that is none.
    whole = ascends and x.cols % piece == 0
    return piece if whole and vector_fits(x, piece, pointer_alignment) else 1


def _c_piece(c: Matrix, pointer_alignment: int) -> int:
    in_pairs = c.cols % 2 == 0 and vector_fits(c, 2, pointer_alignment)
    return max(_piece(c, pointer_alignment), 2 if in_pairs else 1)


def _bias_axis(bias: Matrix, p: GemmProblem) -> BiasAxis:
    if p.m <= 1 or bias.row_stride == 0:
        return "columns"
    return "rows" if p.n <= 1 or bias.col_stride == 0 else "entries"


def product_class(
    p: GemmProblem,
    family: Family,
    configuration: Configuration,
    arch: str,
    accumulator: str,
    *,
    alignment: Mapping[str, int],
    multiprocessors: int,
) -> ProductClass:
    """The class of a problem in canonical form whose pointers are aligned to so many bytes.

    Raises
    ------
    UnsupportedError
        When an operand has no unit stride in either axis and the family needs one.
    """
    rounded = configuration.rounds_to in ("f16", "bf16")
    d_turned = p.d.row_stride == 1 and p.d.col_stride != 1
    c = None if p.c is None else flip(p.c) if d_turned else p.c
    single = d_turned and p.n == 1  # a column goes by element: the copy engine's hop would come last
    return ProductClass(
        configuration, arch, accumulator,
        _operand_class(p.a, True, alignment["a"], rounded, family.takes_inner_strides),
        _operand_class(p.b, False, alignment["b"], rounded, family.takes_inner_strides),
        _epilogue_class(p, accumulator, alignment["d"]),
        min(len(p.batch), family.batch_axes), p.k,
        reads_c=p.reads_c,
        d_piece=1 if single else _piece(flip(p.d) if d_turned else p.d, alignment["d"]),
        c_piece=_c_piece(c, alignment["c"]) if c else 1,
        d_turned=d_turned,
        bias_along=_bias_axis(p.bias, p) if p.bias else "entries",
        multiprocessors=multiprocessors,
    )  # fmt: skip
