"""The same values give the same bits however they lie in memory, and nothing beside them shows or changes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mxgemm as mx
from mxgemm.problem import default_out_dtype
from tests.policies import product
from tests.strategies import (
    LAYOUTS,
    Array,
    laid_out,
    layouts,
    numpy_type,
    odd_sizes,
    poison,
    same,
    seeds,
    small_integers,
    values,
)

F32 = np.float32
ROWS = (
    "int8/exact",
    "int64/exact",
    "uint16/scalar",
    "float16/native",
    "bfloat16/native",
    "float8_e5m2/native",
    "float32/scalar",
    "float32/bf16x6",
    "float32/f16x3",
    "float32/i8crt6",
    "float64/native",
)
rows = st.sampled_from(ROWS)
# Where a result can be written: native and aligned.
out_layouts = st.sampled_from(sorted(set(LAYOUTS) - {"read-only", "byte-swapped", "misaligned"}))


@given(rows, odd_sizes, seeds, st.tuples(layouts, layouts, layouts), out_layouts)
def test_layouts_do_not_change_a_bit(
    name: str, sizes: tuple[int, int, int], seed: int, inputs: tuple[str, str, str], of_out: str
) -> None:
    dtype, precision = name.split("/")
    (m, n, k), (of_a, of_b, of_c) = sizes, inputs
    result_type = default_out_dtype(dtype)
    a, b = values(dtype, (m, k), seed), values(dtype, (k, n), seed + 1)
    c, bias = values(result_type, (m, n), seed + 2), values(result_type, (n,), seed + 3)
    scalars: dict[str, Any] = {"alpha": 3, "beta": -2, "precision": precision}
    plain = product(a, b, c, epilogue=mx.epilogue.relu(bias=bias), **scalars)
    out = laid_out(np.full((m, n), 55).astype(numpy_type(result_type)), of_out)
    spec = mx.epilogue.relu(bias=laid_out(bias, of_c))
    operands = laid_out(a, of_a), laid_out(b, of_b), laid_out(c, of_c)
    found = product(*operands, out=out, epilogue=spec, **scalars)
    assert found is out
    assert same(out.copy(), plain)


@given(rows, odd_sizes, seeds, layouts, layouts)
def test_transposed_operands_give_the_bits_of_their_copies(
    name: str, sizes: tuple[int, int, int], seed: int, of_a: str, of_b: str
) -> None:
    dtype, precision = name.split("/")
    m, n, k = sizes
    a, b = values(dtype, (m, k), seed), values(dtype, (k, n), seed + 1)
    plain = product(a, b, alpha=3, precision=precision)
    stored = laid_out(a.T.copy(), of_a), laid_out(b.T.copy(), of_b)
    flagged = product(*stored, alpha=3, precision=precision, transpose_a=True, transpose_b=True)
    viewed = product(stored[0].T, stored[1].T, alpha=3, precision=precision)
    assert same(flagged, plain)
    assert same(viewed, plain)


@given(rows, seeds, st.booleans(), st.booleans(), st.booleans())
def test_broadcast_batches_give_the_bits_of_each_product(
    name: str, seed: int, repeat_a: bool, repeat_b: bool, repeat_c: bool
) -> None:
    dtype, precision = name.split("/")
    result_type = default_out_dtype(dtype)
    a, b = values(dtype, (3, 2, 5, 7), seed), values(dtype, (2, 7, 3), seed + 1)  # B has fewer batches
    c = values(result_type, (3, 1, 5, 3), seed + 2)
    if repeat_a:
        a = np.broadcast_to(a[:1, :1], a.shape)  # strides of 0
    if repeat_b:
        b = np.broadcast_to(b[0], b.shape)
    if repeat_c:
        c = np.broadcast_to(c[0, 0, 0], c.shape)
    found = product(a, b, c, alpha=3, beta=2, precision=precision)
    assert found.shape == (3, 2, 5, 3)
    for i, j in np.ndindex(3, 2):
        assert same(found[i, j], product(a[i, j], b[j], c[i, 0], alpha=3, beta=2, precision=precision))


@given(rows, odd_sizes, seeds)
def test_what_lies_just_outside_the_logical_edge_never_shows(
    name: str, sizes: tuple[int, int, int], seed: int
) -> None:
    dtype, precision = name.split("/")
    m, n, k = sizes
    kind = numpy_type(dtype)
    a, b = values(dtype, (m, k), seed), values(dtype, (k, n), seed + 1)
    large_a, large_b = (np.full(s, poison(kind), kind) for s in ((m + 2, k + 16), (k + 16, n + 2)))
    large_a[1 : m + 1, 8 : k + 8], large_b[8 : k + 8, 1 : n + 1] = a, b
    kept = large_a.copy(), large_b.copy()
    inside = large_a[1 : m + 1, 8 : k + 8], large_b[8 : k + 8, 1 : n + 1]
    found = product(*inside, alpha=2, precision=precision)
    assert same(found, product(a, b, alpha=2, precision=precision))
    assert same(large_a, kept[0])
    assert same(large_b, kept[1])


# out overlaps what is read: the result is that of operands read first


def _squares(dtype: str, seed: int) -> tuple[Array, Array, Array]:
    x, y, z = (small_integers(dtype, (9, 9), seed + i) for i in range(3))
    return x, y, z


@pytest.mark.parametrize("name", ["float32/scalar", "float32/bf16x6", "int32/exact", "float64/native"])
@pytest.mark.parametrize(
    "which", ["a", "b", "c", "bias", "a and b", "a transposed", "a reversed", "rows of c"]
)
def test_out_may_be_an_operand(name: str, which: str) -> None:
    dtype, precision = name.split("/")
    a, b, c = _squares(dtype, 5)
    bias = small_integers(dtype, (9, 9), 9)
    expected = 2 * (a @ (a if which == "a and b" else b)) + 3 * c + bias
    out = {"a": a, "b": b, "c": c, "bias": bias, "a and b": a}.get(which)
    if which == "a transposed":
        out = a.T
    if which == "a reversed":
        out = a[::-1, ::-1]
    if which == "rows of c":
        out = c[::-1]
    right = a if which == "a and b" else b
    found = product(
        a, right, c, alpha=2, beta=3, out=out, precision=precision, epilogue=mx.epilogue.identity(bias=bias)
    )
    assert found is out
    assert same(np.ascontiguousarray(found), expected)


@given(seeds, st.integers(0, 12), st.integers(0, 12), st.sampled_from(("int32/exact", "float32/scalar")))
def test_out_may_overlap_operands_by_any_shift(seed: int, shift_a: int, shift_b: int, name: str) -> None:
    dtype, precision = name.split("/")
    memory = small_integers(dtype, (48,), seed)
    a, b = memory[shift_a : shift_a + 16].reshape(4, 4), memory[shift_b + 8 : shift_b + 24].reshape(4, 4)
    out = memory[16:32].reshape(4, 4)
    outside = np.r_[memory[:16], memory[32:]]
    expected = 3 * (a @ b) - 2 * out
    product(a, b, out, alpha=3, beta=-2, out=out, precision=precision)
    assert same(out.copy(), expected)
    assert same(np.r_[memory[:16], memory[32:]], outside)


def test_an_out_in_one_batch_of_a_is_read_before_it_is_written() -> None:
    a, b, _ = _squares("float32", 11)
    stack = np.stack([a, b, a + b])
    expected = np.matmul(stack, b)
    product(stack, b.copy(), out=stack)
    assert same(stack, expected)


# Inputs of other libraries' making


def test_a_subclass_of_ndarray_gives_an_ndarray() -> None:
    class Tagged(np.ndarray[Any, Any]):
        pass

    a = np.ones((2, 2), F32).view(Tagged)
    assert type(product(a, a)) is np.ndarray


@pytest.mark.parametrize("swapped", ["a", "b", "c"])
@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
def test_byte_swapped_operands_are_read_as_their_values(swapped: str, dtype: str) -> None:
    arrays = {n: small_integers(dtype, (3, 3), i) for i, n in enumerate("abc")}
    expected = 2 * (arrays["a"] @ arrays["b"]) - 3 * arrays["c"]
    arrays[swapped] = arrays[swapped].astype(arrays[swapped].dtype.newbyteorder())
    found = product(*arrays.values(), alpha=2, beta=-3)
    assert found.dtype.isnative
    assert same(found, expected)


@pytest.mark.parametrize("layout", ["byte-swapped", "misaligned", "read-only"])
def test_an_out_that_cannot_be_written_in_place_is_refused(layout: str) -> None:
    a = np.ones((3, 3), F32)
    out = laid_out(np.full((3, 3), 55, F32), layout)
    with pytest.raises(mx.UnsupportedError, match="out is"):
        product(a, a, out=out)
    assert (out == 55).all()
