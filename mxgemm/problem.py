"""GemmProblem: what is asked, as one frozen value, without policy and without device.

D = epilogue(alpha·op(A)·op(B) + beta·C), with batches as in ``numpy.matmul``.
Transposition is folded into strides, so a :class:`Matrix` is always M×K, K×N or M×N.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mxgemm.configs import FLOAT8, Configuration, configurations_for
from mxgemm.epilogue import EpilogueSpec
from mxgemm.errors import DTypeError, ShapeError, one_of
from mxgemm.shapes import Operand, ProductShape, broadcast, contiguous, product_shape, with_matrix_axes

__all__ = [
    "GemmProblem",
    "Matrix",
    "Operand",
    "check_dtypes",
    "default_out_dtype",
    "out_dtypes",
    "pose",
    "without_vanishing_terms",
]

Scalar = float | int
NO_EPILOGUE = EpilogueSpec()


@dataclass(frozen=True, slots=True)
class Matrix:
    """One operand as the product sees it.

    Attributes
    ----------
    dtype : str
        Element type.
    rows, cols : int
        Shape after op().
    row_stride, col_stride : int
        In elements, after op(); may be negative or 0.
    batch_strides : tuple of int
        In elements, one for each batch axis of the problem; 0 where the operand broadcasts.
    """

    dtype: str
    rows: int
    cols: int
    row_stride: int
    col_stride: int
    batch_strides: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.dtype}[{self.rows}x{self.cols}, strides {self.row_stride},{self.col_stride}]"


@dataclass(frozen=True)
class GemmProblem:
    """D = epilogue(alpha·A·B + beta·C) for each index of the batch.

    Attributes
    ----------
    m, n, k : int
        Rows of D, columns of D, products of one entry.
    batch : tuple of int
        Leading axes of D; empty for one product.
    a, b, d : Matrix
        Operands (after op) and result.
    c : Matrix or None
        None when no C was given.
    alpha, beta : float or int
        As the caller gave them; rounded to the accumulator's type where they are used.
    epilogue : EpilogueSpec
    bias, scale_rows, scale_cols : Matrix or None
        The epilogue's arrays, broadcast to D by strides of 0.
    overlaps : tuple of str
        Operands whose memory D overlaps ("a", "b", "c", "bias", …): they are read before D is written.
    """

    m: int
    n: int
    k: int
    batch: tuple[int, ...]
    a: Matrix
    b: Matrix
    c: Matrix | None
    d: Matrix
    alpha: Scalar = 1
    beta: Scalar = 0
    epilogue: EpilogueSpec = NO_EPILOGUE
    bias: Matrix | None = None
    scale_rows: Matrix | None = None
    scale_cols: Matrix | None = None
    overlaps: tuple[str, ...] = ()

    @cached_property
    def products(self) -> int:
        """Number of matrices in the batch."""
        return math.prod(self.batch)

    @property
    def is_empty(self) -> bool:
        """Whether D has no entries."""
        return self.m == 0 or self.n == 0 or self.products == 0

    @property
    def reads_c(self) -> bool:
        """Whether C takes part; beta = 0 never reads it."""
        return self.c is not None and self.beta != 0

    @property
    def reads_operands(self) -> bool:
        """Whether A and B take part; alpha = 0 and K = 0 never read them."""
        return self.alpha != 0 and self.k != 0

    def __str__(self) -> str:
        batch = f"{'x'.join(map(str, self.batch))} of " if self.batch else ""
        beta = f" + {self.beta}*C" if self.reads_c else ""
        return (
            f"{batch}D[{self.m}x{self.n}] = {self.epilogue}({self.alpha}*A*B{beta}), K = {self.k}, "
            f"{self.a.dtype} x {self.b.dtype} -> {self.d.dtype}"
        )


def default_out_dtype(dtype_a: str) -> str:
    """Result type of ``out_dtype=None``: int32 for 8-bit integers, float32 for fp8, else the operands'."""
    if dtype_a in ("int8", "uint8"):
        return "int32"
    return "float32" if dtype_a in FLOAT8 else dtype_a


def out_dtypes(dtype_a: str, dtype_b: str, accumulator: str) -> tuple[str, ...]:
    """Result types that a product with this accumulator may have.

    The default, the accumulator's, either source type, and for integers every wider
    integer that holds the accumulator's values exactly.
    """
    wider: tuple[str, ...] = ()
    if "int" in accumulator:
        sign, bits = (
            ("uint", int(accumulator[4:])) if accumulator[0] == "u" else ("int", int(accumulator[3:]))
        )
        signs = ("uint", "int") if sign == "uint" else ("int",)
        wider = tuple(f"{s}{w}" for w in (16, 32, 64) if w > bits for s in signs)
    names = (default_out_dtype(dtype_a), accumulator, dtype_a, dtype_b, *wider)
    return tuple(dict.fromkeys(names))


def _matrix(x: Operand, batch: tuple[int, ...], what: str) -> Matrix:
    shape = (*batch, *x.shape[-2:])
    strides = broadcast(x, shape, what)
    return Matrix(x.dtype, x.shape[-2], x.shape[-1], strides[-2], strides[-1], strides[:-2])


def _integer_scalar(name: str, value: Any) -> int:
    """``value`` as a Python integer; integer products take integer scalars only."""
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{name}={value!r}: integer products take an integer {name}") from None


def _real_scalar(name: str, value: Any) -> Scalar:
    """``value`` as a Python float, or as an int when it is one."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, str | bytes | complex) or kind == "c":
        raise DTypeError(f"{name}={value!r} is not a real number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise DTypeError(f"{name}={value!r} is not a real number that float64 holds") from None


def _scalar(name: str, value: Any, integer: bool) -> Scalar:
    return _integer_scalar(name, value) if integer else _real_scalar(name, value)


def _check_epilogue(spec: EpilogueSpec, integer: bool) -> None:
    if not integer:
        return
    if spec.activation not in ("identity", "relu", "clamp") or spec.has_scale_rows or spec.has_scale_cols:
        raise DTypeError(f"epilogue {spec} on integers: supported are identity, relu, clamp and bias")
    if spec.activation == "clamp" and not (isinstance(spec.lo, int) and isinstance(spec.hi, int)):
        raise DTypeError(f"epilogue {spec} on integers: the bounds must be integers")


def check_dtypes(problem: GemmProblem, configuration: Configuration) -> None:
    """Check the types of D, C and the epilogue's arrays against a configuration's accumulator.

    Raises
    ------
    DTypeError
        Naming the types that are supported.
    """
    allowed = out_dtypes(problem.a.dtype, problem.b.dtype, configuration.accumulator)
    if problem.d.dtype not in allowed:
        raise DTypeError(
            f"out_dtype {problem.d.dtype} is not supported for {configuration.name}; "
            f"supported are {one_of(allowed)}"
        )
    if problem.c is not None and problem.c.dtype not in (problem.d.dtype, configuration.accumulator):
        names = one_of(tuple(dict.fromkeys((problem.d.dtype, configuration.accumulator))))
        raise DTypeError(
            f"C has type {problem.c.dtype}; it must have the result's or the accumulator's: {names}"
        )


def without_vanishing_terms(problem: GemmProblem, accumulator: str) -> GemmProblem:
    """``problem`` with an alpha or beta of 0 where it rounds to 0 in the accumulator's type.

    Scalars are rounded first, and a term whose scalar is 0 is absent: not read, not added.
    """

    def rounded(scalar: Scalar) -> Scalar:
        # Half of float32's least subnormal is a tie, and goes to the even 0.
        return 0 if accumulator == "float32" and abs(scalar) <= 2.0**-150 else scalar

    if rounded(problem.alpha) == problem.alpha and rounded(problem.beta) == problem.beta:
        return problem
    return replace(problem, alpha=rounded(problem.alpha), beta=rounded(problem.beta))


def pose(
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    *,
    d: Operand | None = None,
    alpha: Any = 1,
    beta: Any = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out_dtype: str | None = None,
    epilogue: EpilogueSpec | None = None,
    bias: Operand | None = None,
    scale_rows: Operand | None = None,
    scale_cols: Operand | None = None,
    overlaps: tuple[str, ...] = (),
) -> tuple[GemmProblem, tuple[int, ...]]:
    """Check what is asked and return it as a problem, with D's shape as the caller sees it.

    Parameters
    ----------
    a, b, c, d, bias, scale_rows, scale_cols : Operand
        Metadata of the arguments; ``d`` is None when the result is to be allocated (C order).

    Raises
    ------
    ShapeError, DTypeError
        As :func:`product_shape`; C or ``out`` of another shape; a type outside the table.
    """
    configurations = configurations_for(a.dtype, b.dtype)
    integer = configurations[0].is_integer
    spec = epilogue or NO_EPILOGUE
    _check_epilogue(spec, integer)
    shape = product_shape(a, b, transpose_a, transpose_b)
    wanted = out_dtype or (d.dtype if d is not None else default_out_dtype(a.dtype))
    if d is not None:
        _check_out(d, shape.result, wanted)
    target = d or contiguous(wanted, shape.result)
    problem = GemmProblem(
        shape.full[-2], shape.full[-1], shape.a.shape[-1], shape.batch,
        _matrix(shape.a, shape.batch, "A"), _matrix(shape.b, shape.batch, "B"),
        None if c is None else _result_like(c, shape),
        _matrix(with_matrix_axes(target, shape), shape.batch, "out"),
        _scalar("alpha", alpha, integer), _scalar("beta", beta, integer), spec,
        _bias(bias, shape, integer), _scale(scale_rows, shape, "scale_rows"),
        _scale(scale_cols, shape, "scale_cols"), overlaps,
    )  # fmt: skip
    return problem, shape.result


def _check_out(d: Operand, shape: tuple[int, ...], dtype: str) -> None:
    if d.dtype != dtype:
        raise DTypeError(f"out has type {d.dtype} and out_dtype asks for {dtype}")
    if d.shape != shape:
        raise ShapeError(f"out has shape {d.shape}; this product needs {shape}")


def _result_like(c: Operand, shape: ProductShape) -> Matrix:
    full = with_matrix_axes(c, shape)
    if full.shape[-2:] != shape.full[-2:] or len(full.shape) > len(shape.full):
        raise ShapeError(
            f"C has shape {c.shape}; it must have the result's shape {shape.result} (its batch may broadcast)"
        )
    return _matrix(full, shape.batch, "C")


def _check_kind(x: Operand, what: str, integer: bool) -> None:
    if ("int" in x.dtype) != integer:
        raise DTypeError(
            f"{what} has type {x.dtype}; {'integer' if integer else 'float'} products take the like"
        )


def _bias(x: Operand | None, shape: ProductShape, integer: bool) -> Matrix | None:
    """The bias broadcasts to D as the caller sees it, so that A·x + bias works for 1-d operands too."""
    if x is None:
        return None
    _check_kind(x, "bias", integer)
    spread = Operand(x.dtype, shape.result, broadcast(x, shape.result, "bias"))
    return _matrix(with_matrix_axes(spread, shape), shape.batch, "bias")


def _scale(x: Operand | None, shape: ProductShape, what: str) -> Matrix | None:
    if x is None:
        return None
    _check_kind(x, what, integer=False)
    rows, cols = shape.full[-2:]
    accepted = ((rows,), (rows, 1)) if what == "scale_rows" else ((cols,), (1, cols))
    if x.shape not in accepted:
        raise ShapeError(f"{what} has shape {x.shape}; supported are {accepted[0]} and {accepted[1]}")
    if what == "scale_rows" and len(x.shape) == 1:
        x = Operand(x.dtype, (rows, 1), (x.strides[0], 0))
    strides = broadcast(x, shape.full, what)
    return Matrix(x.dtype, rows, cols, strides[-2], strides[-1], strides[:-2])
