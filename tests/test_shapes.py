"""Shape rules are numpy.matmul's, on metadata alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from mxgemm.errors import ShapeError
from mxgemm.shapes import Operand, broadcast, contiguous, product_shape, with_matrix_axes
from tests.strategies import matmul_shapes, operand

# Metadata alone: cheap enough to draw more than the profile does.
many = settings(max_examples=80)


def meta(shape: tuple[int, ...]) -> Operand:
    return contiguous("float32", shape)


@many
@given(matmul_shapes)
def test_the_result_has_the_shape_of_numpy_matmul(shapes) -> None:
    a, b = shapes.input_shapes
    found = product_shape(meta(a), meta(b))
    assert found.result == np.matmul(np.zeros(a), np.zeros(b)).shape
    assert found.full == (*found.batch, found.a.shape[-2], found.b.shape[-1])


@many
@given(st.lists(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3), min_size=2, max_size=2))
def test_what_numpy_matmul_refuses_is_refused(shapes: list[tuple[int, ...]]) -> None:
    a, b = shapes
    try:
        expected = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(ShapeError):
            product_shape(meta(a), meta(b))
    else:
        assert product_shape(meta(a), meta(b)).result == expected


@many
@given(matmul_shapes, st.booleans(), st.booleans())
def test_transposition_swaps_the_last_two_axes_of_matrices_alone(shapes, left: bool, right: bool) -> None:
    a, b = (np.zeros(shape) for shape in shapes.input_shapes)
    stored_a = a.swapaxes(-1, -2).copy() if left and a.ndim > 1 else a
    stored_b = b.swapaxes(-1, -2).copy() if right and b.ndim > 1 else b
    found = product_shape(operand(stored_a), operand(stored_b), left, right)
    assert found.result == np.matmul(a, b).shape


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ((3, 4), (5, 6), ("3x4", "5x6")),
        ((4,), (5, 6), ("1x4", "5x6")),
        ((2, 3, 4), (3, 4, 5), ("(2,)", "(3,)")),
        ((), (3, 3), ("A", "0-dimensional", "alpha")),
        ((3, 3), (), ("B", "0-dimensional", "alpha")),
    ],
)
def test_a_refusal_names_both_shapes(a: tuple[int, ...], b: tuple[int, ...], words: tuple[str, ...]) -> None:
    with pytest.raises(ShapeError) as caught:
        product_shape(meta(a), meta(b))
    for word in words:
        assert word in str(caught.value)


def test_a_batch_of_one_and_a_missing_batch_axis_broadcast() -> None:
    assert product_shape(meta((5, 1, 3, 4)), meta((7, 4, 2))).batch == (5, 7)
    assert product_shape(meta((0, 3, 4)), meta((1, 4, 2))).batch == (0,)


@many
@given(array_shapes(max_dims=3, max_side=3), array_shapes(max_dims=4, max_side=3), st.booleans())
def test_broadcast_gives_numpys_strides(own: tuple[int, ...], to: tuple[int, ...], by_columns: bool) -> None:
    x = np.empty(own, np.float32, order="F" if by_columns else "C")
    try:
        expected = np.broadcast_to(x, to)
    except ValueError:
        with pytest.raises(ShapeError, match="bias"):
            broadcast(operand(x), to, "bias")
        return
    found = broadcast(operand(x), to, "bias")
    # A stride along an axis of extent 1 is never walked; NumPy leaves it as it likes.
    assert [s for s, n in zip(found, to, strict=True) if n > 1] == [
        s // 4 for s, n in zip(expected.strides, to, strict=True) if n > 1
    ]


@many
@given(matmul_shapes)
def test_dropped_axes_come_back_where_matmul_removed_them(shapes) -> None:
    found = product_shape(*(meta(shape) for shape in shapes.input_shapes))
    assert with_matrix_axes(meta(found.result), found).shape == found.full


def test_dropped_axes_come_back_below_a_batch_that_broadcasts() -> None:
    column = product_shape(meta((5, 3, 4)), meta((4,)))
    assert with_matrix_axes(meta((3,)), column).shape == (3, 1)
    row = product_shape(meta((4,)), meta((5, 4, 2)))
    assert with_matrix_axes(meta((1, 2)), row).shape == (1, 1, 2)


@many
@given(array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
def test_contiguous_describes_a_new_array(shape: tuple[int, ...]) -> None:
    new = np.empty(shape, np.float32)
    found = contiguous("float32", shape)
    assert (found.dtype, found.shape) == ("float32", shape)
    if new.size:
        walked = [s for s, n in zip(found.strides, shape, strict=True) if n > 1]
        assert walked == [s // 4 for s, n in zip(new.strides, shape, strict=True) if n > 1]
