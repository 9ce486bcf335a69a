"""A problem is what was asked, as strides and types; whatever does not fit is refused by name."""

from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from mxgemm import epilogue
from mxgemm.configs import CONFIGURATIONS, configurations_for
from mxgemm.errors import DTypeError, ShapeError
from mxgemm.problem import GemmProblem, Matrix, check_dtypes, default_out_dtype, out_dtypes, pose
from mxgemm.shapes import Operand, contiguous
from tests.strategies import FLOATS, INTEGERS, Array, laid_out, matmul_shapes, operand

F32 = "float32"
# Metadata alone: cheap enough to draw more than the profile does.
many = settings(max_examples=80)


def posed(dtype: str = F32, m: int = 3, n: int = 4, k: int = 5, **asked: Any) -> GemmProblem:
    """An M×N×K problem of one element type."""
    return pose(contiguous(dtype, (m, k)), contiguous(dtype, (k, n)), **asked)[0]


def seen_through(matrix: Matrix, batch: tuple[int, ...], x: Array) -> Array:
    """What a kernel reads that starts at the first element of ``x`` and walks the strides of ``matrix``."""
    strides = tuple(s * x.itemsize for s in (*matrix.batch_strides, matrix.row_stride, matrix.col_stride))
    return as_strided(x, (*batch, matrix.rows, matrix.cols), strides)


# Strides


def _labelled(shape: tuple[int, ...], layout: str) -> Array:
    return laid_out(np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape), layout)


in_place = st.sampled_from(("row-major", "column-major", "every third, offset", "reversed", "reversed steps"))


@many
@given(matmul_shapes, in_place, in_place, st.booleans(), st.booleans())
def test_operands_are_walked_as_numpy_would(
    shapes, layout_a: str, layout_b: str, transpose_a: bool, transpose_b: bool
) -> None:
    a, b = (_labelled(s, name) for s, name in zip(shapes.input_shapes, (layout_a, layout_b), strict=True))
    swapped_a = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    swapped_b = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    # op() of the swapped view is the matrix that the shapes were drawn for.
    swaps = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    problem, _ = pose(operand(swapped_a), operand(swapped_b), **swaps)
    whole_a = np.broadcast_to(np.atleast_2d(a), (*problem.batch, problem.m, problem.k))
    whole_b = np.broadcast_to(b[:, None] if b.ndim == 1 else b, (*problem.batch, problem.k, problem.n))
    assert np.array_equal(seen_through(problem.a, problem.batch, swapped_a), whole_a)
    assert np.array_equal(seen_through(problem.b, problem.batch, swapped_b), whole_b)


@many
@given(matmul_shapes, in_place, st.data())
def test_c_out_and_bias_are_walked_as_numpy_would(shapes, layout: str, data: st.DataObject) -> None:
    a, b = (contiguous("int64", shape) for shape in shapes.input_shapes)
    shape = pose(a, b)[1]
    missing = data.draw(st.integers(0, len(shape)))
    part = tuple(data.draw(st.sampled_from((1, n))) for n in shape[missing:])
    bias, out = _labelled(part, layout), _labelled(shape, layout)
    problem, _ = pose(a, b, out_c := operand(out), beta=1, d=out_c, bias=operand(bias))
    full = (*problem.batch, problem.m, problem.n)
    assert problem.c is not None
    assert problem.bias is not None
    assert np.array_equal(seen_through(problem.d, problem.batch, out), out.reshape(full))
    assert np.array_equal(seen_through(problem.c, problem.batch, out), out.reshape(full))
    spread = np.broadcast_to(bias, shape).reshape(full)
    assert np.array_equal(seen_through(problem.bias, problem.batch, bias), spread)


def test_a_vector_is_walked_by_its_own_stride() -> None:
    a, b = Operand(F32, (5,), (3,)), Operand(F32, (5,), (-2,))
    assert pose(a, contiguous(F32, (5, 4)))[0].a.col_stride == 3
    assert pose(contiguous(F32, (3, 5)), b)[0].b.row_stride == -2


def test_the_bias_of_a_vector_result_is_a_vector() -> None:
    column = pose(contiguous(F32, (2, 3, 5)), contiguous(F32, (5,)), bias=Operand(F32, (3,), (7,)))[0].bias
    assert column is not None
    assert (column.rows, column.cols, column.row_stride, column.batch_strides) == (3, 1, 7, (0,))
    row = pose(contiguous(F32, (5,)), contiguous(F32, (5, 4)), bias=Operand(F32, (4,), (7,)))[0].bias
    assert row is not None
    assert (row.rows, row.cols, row.col_stride) == (1, 4, 7)
    with pytest.raises(ShapeError, match="bias"):
        pose(contiguous(F32, (3, 5)), contiguous(F32, (5,)), bias=contiguous(F32, (3, 1)))


@pytest.mark.parametrize("shape", [(3, 4), (1, 3, 4), (2, 3, 4)])
def test_the_batch_of_c_broadcasts(shape: tuple[int, ...]) -> None:
    problem, _ = pose(contiguous(F32, (2, 3, 5)), contiguous(F32, (5, 4)), contiguous(F32, shape), beta=1)
    assert problem.c is not None
    assert problem.c.batch_strides == ((12,) if shape[0] == 2 else (0,))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 1), (1, 1), (4, 3), (2, 3, 4)])
def test_a_matrix_of_c_does_not_broadcast(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        pose(contiguous(F32, (3, 5)), contiguous(F32, (5, 4)), contiguous(F32, shape), beta=1)
    assert str(shape) in str(caught.value)


def test_c_of_a_matrix_times_a_vector_has_the_vector_shape() -> None:
    a, x = contiguous(F32, (2, 3, 5)), contiguous(F32, (5,))
    for shape in ((3,), (1, 3), (2, 3)):
        problem, result = pose(a, x, contiguous(F32, shape), beta=1)
        assert result == (2, 3)
        assert problem.c is not None
        assert (problem.c.rows, problem.c.cols, problem.c.row_stride) == (3, 1, 1)
    for shape in ((2,), (3, 1), (2, 3, 1)):
        with pytest.raises(ShapeError):
            pose(a, x, contiguous(F32, shape), beta=1)


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 4), (1, 3, 4), (1, 4)])
def test_out_has_the_shape_of_the_result_and_no_other(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        posed(d=contiguous(F32, shape))
    assert str(shape) in str(caught.value)
    assert "(3, 4)" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("scale_rows", [(3,), (3, 1)], [(4,), (1, 3), (1,), (1, 1), (3, 4), ()]),
        ("scale_cols", [(4,), (1, 4)], [(3,), (4, 1), (1,), (1, 1), (3, 4), ()]),
    ],
)
def test_factors_are_one_a_row_or_one_a_column(name: str, good: list[Any], bad: list[Any]) -> None:
    for shape in good:
        found = getattr(posed(**{name: contiguous(F32, shape)}), name)
        rows = name == "scale_rows"
        assert ((found.row_stride != 0), (found.col_stride != 0)) == (rows, not rows)
    for shape in bad:
        with pytest.raises(ShapeError, match=name):
            posed(**{name: contiguous(F32, shape)})


def test_a_bias_that_does_not_broadcast_is_refused() -> None:
    for shape in ((3,), (4, 1), (2, 3, 4), (3, 5)):
        with pytest.raises(ShapeError, match="bias"):
            posed(bias=contiguous(F32, shape))


# Sizes that a 32-bit index does not hold


def test_sizes_beyond_32_bits_are_described() -> None:
    a = Operand("int8", (70_000, 2**21 + 1, 3), (3 * (2**21 + 1), 3, 1))
    problem, shape = pose(a, contiguous("int8", (3, 11_111)))
    assert problem.products * problem.m * problem.n > 2**31
    assert problem.d.batch_strides == ((2**21 + 1) * 11_111,)
    assert shape == (70_000, 2**21 + 1, 11_111)


# Element types


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *((name, "int32" if name in ("int8", "uint8") else name) for name in INTEGERS),
        *((name, name) for name in ("float16", "bfloat16", "float32", "float64")),
        *((name, "float32") for name in ("float8_e4m3fn", "float8_e5m2")),
    ],
)
def test_the_default_type_of_the_result(dtype: str, result: str) -> None:
    assert default_out_dtype(dtype) == result
    assert posed(dtype).d.dtype == result


WIDER = {
    "int8": {"int64"},
    "uint8": {"int64"},
    "int16": {"int32", "int64"},
    "uint16": {"uint32", "int32", "uint64", "int64"},
    "int32": {"int64"},
    "uint32": {"uint64", "int64"},
    "int64": set(),
    "uint64": set(),
}


@pytest.mark.parametrize("row", CONFIGURATIONS, ids=lambda row: row.name)
def test_the_result_has_the_default_the_accumulators_or_a_sources_type_or_a_wider_integer(row) -> None:
    for a, b in product(row.source_types, repeat=2):
        expected = {default_out_dtype(a), row.accumulator, a, b} | WIDER.get(a, set())
        assert set(out_dtypes(a, b, row.accumulator)) == expected


@pytest.mark.parametrize(
    ("dtype", "wrong"), [(F32, "float16"), (F32, "float64"), ("int8", "int16"), ("int8", F32)]
)
def test_another_type_of_the_result_is_refused_with_the_supported(dtype: str, wrong: str) -> None:
    row = configurations_for(dtype, dtype)[0]
    with pytest.raises(DTypeError) as caught:
        check_dtypes(posed(dtype, out_dtype=wrong), row)
    assert wrong in str(caught.value)
    for name in out_dtypes(dtype, dtype, row.accumulator):
        assert name in str(caught.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8"])
def test_c_has_the_results_or_the_accumulators_type(dtype: str) -> None:
    row = configurations_for(dtype, dtype)[0]
    for out_dtype in out_dtypes(dtype, dtype, row.accumulator):
        for c_type in (*FLOATS, *INTEGERS):
            asked = posed(dtype, c=contiguous(c_type, (3, 4)), beta=1, out_dtype=out_dtype)
            if c_type in (out_dtype, row.accumulator):
                check_dtypes(asked, row)
            else:
                with pytest.raises(DTypeError, match=f"C has type {c_type}"):
                    check_dtypes(asked, row)


def test_out_and_out_dtype_must_agree() -> None:
    assert posed("float16", d=contiguous(F32, (3, 4))).d.dtype == F32
    with pytest.raises(DTypeError, match=r"float32.*float16"):
        posed("float16", d=contiguous(F32, (3, 4)), out_dtype="float16")


@pytest.mark.parametrize(
    ("dtype", "bias"), [(F32, "int32"), ("int32", F32), ("int8", "float16"), ("bfloat16", "uint8")]
)
def test_a_bias_is_of_the_kind_of_the_product(dtype: str, bias: str) -> None:
    with pytest.raises(DTypeError, match=f"bias has type {bias}"):
        posed(dtype, bias=contiguous(bias, (4,)))


@pytest.mark.parametrize("spec", [epilogue.gelu(), epilogue.gelu("tanh"), epilogue.silu()])
def test_integers_take_no_transcendental_epilogue(spec: epilogue.Epilogue) -> None:
    with pytest.raises(DTypeError, match="identity, relu, clamp and bias"):
        posed("int8", epilogue=spec.spec)
    posed(F32, epilogue=spec.spec)


def test_integers_take_no_factors_and_no_fractional_bounds() -> None:
    ones = np.ones(3, np.float32)
    with pytest.raises(DTypeError, match="identity, relu, clamp and bias"):
        posed("int8", epilogue=epilogue.relu(scale_rows=ones).spec)
    with pytest.raises(DTypeError, match="identity, relu, clamp and bias"):
        posed("int8", epilogue=epilogue.relu(scale_cols=ones).spec)
    with pytest.raises(DTypeError, match="bounds must be integers"):
        posed("int8", epilogue=epilogue.clamp(0.5, 6).spec)
    posed("int8", epilogue=epilogue.clamp(np.int64(0), 6).spec)


def test_factors_are_floats() -> None:
    with pytest.raises(DTypeError, match="scale_rows has type int32"):
        posed(scale_rows=contiguous("int32", (3,)))


# Scalars


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [2.0, 0.5, np.float32(1), "2", None, 1j, Fraction(2), np.ones(3, int)])
def test_integer_products_take_integer_scalars(name: str, value: object) -> None:
    with pytest.raises(DTypeError, match=f"{name}="):
        posed("int32", **{name: value})


@pytest.mark.parametrize("value", [-3, np.int8(-3), np.array(-3), 2**70])
def test_integers_of_any_kind_are_integer_scalars(value: Any) -> None:
    found = posed("int32", alpha=value).alpha
    assert type(found) is int
    assert found == int(value)


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize(
    "value", ["2", b"2", None, 1j, np.complex64(1), [1.0], np.ones(3), np.ones((1, 1)), Fraction(10**400)]
)
def test_float_products_take_real_scalars(name: str, value: object) -> None:
    with pytest.raises(DTypeError, match=f"{name}="):
        posed(F32, **{name: value})


@pytest.mark.parametrize(
    "value", [1.5, np.float16(1.5), np.array(1.5, np.float32), Fraction(3, 2), Decimal("1.5")]
)
def test_reals_of_any_kind_are_float_scalars(value: Any) -> None:
    assert posed(F32, alpha=value).alpha == 1.5


def test_what_is_read_depends_on_the_scalars() -> None:
    c = contiguous(F32, (3, 4))
    assert posed(c=c, beta=2).reads_c
    assert not posed(c=c).reads_c
    assert not posed(c=c, beta=-0.0).reads_c
    assert not posed(beta=2).reads_c
    assert posed().reads_operands
    assert not posed(alpha=0).reads_operands
    assert not posed(k=0).reads_operands
    assert posed(alpha=float("nan")).reads_operands


# The value


def test_a_problem_is_frozen_and_prints_itself() -> None:
    problem = posed(alpha=2, c=contiguous(F32, (3, 4)), beta=3, epilogue=epilogue.relu().spec)
    with pytest.raises(FrozenInstanceError):
        problem.m = 7  # type: ignore[misc]  # the point of the test
    assert str(problem) == "D[3x4] = relu(2*A*B + 3*C), K = 5, float32 x float32 -> float32"
    batched = pose(contiguous("int8", (2, 6, 3, 5)), contiguous("uint8", (5, 4)))[0]
    assert str(batched) == "2x6 of D[3x4] = identity(1*A*B), K = 5, int8 x uint8 -> int32"


@pytest.mark.parametrize(
    ("sizes", "empty"), [((0, 4, 5), True), ((3, 0, 5), True), ((3, 4, 0), False), ((3, 4, 5), False)]
)
def test_empty_means_that_the_result_has_no_entries(sizes: tuple[int, int, int], empty: bool) -> None:
    assert posed(F32, *sizes).is_empty == empty


def test_a_batch_of_none_is_empty() -> None:
    assert pose(contiguous(F32, (0, 3, 5)), contiguous(F32, (5, 4)))[0].is_empty
