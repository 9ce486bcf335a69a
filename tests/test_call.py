"""Reading a call: arrays become views, the place is decided, nothing is computed and nothing copied."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxgemm import epilogue
from mxgemm.array import ArrayView
from mxgemm.call import host_operands, read_call
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from tests.strategies import laid_out, layouts, matmul_shapes

F32 = np.float32
# Metadata alone: cheap enough to draw more than the profile does.
many = settings(max_examples=80)
A, B = np.ones((3, 5), F32), np.ones((5, 4), F32)


# Host operands


@many
@given(matmul_shapes, layouts, layouts, st.booleans(), st.booleans())
def test_operands_are_numpys_with_op_and_batches_applied(
    shapes, layout_a: str, layout_b: str, transpose_a: bool, transpose_b: bool
) -> None:
    a, b = (np.arange(np.prod(s, dtype=int), dtype=np.int64).reshape(s) for s in shapes.input_shapes)
    swapped_a = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    swapped_b = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    operands = laid_out(swapped_a, layout_a), laid_out(swapped_b, layout_b)
    call = read_call(*operands, transpose_a=transpose_a, transpose_b=transpose_b)
    found = host_operands(call)
    product = np.matmul(found.a, found.b)
    assert product.shape == (*call.problem.batch, call.problem.m, call.problem.n)
    assert np.array_equal(product.reshape(call.result_shape), np.matmul(a, b))


def test_operands_on_the_host_are_not_copied() -> None:
    c, bias = np.ones((3, 4), F32), np.ones(4, F32)
    found = host_operands(read_call(A.T, B, c, beta=1, transpose_a=True, epilogue=epilogue.relu(bias=bias)))
    for seen, given_array in ((found.a, A), (found.b, B), (found.c, c), (found.bias, bias)):
        assert np.shares_memory(seen, given_array)


@pytest.mark.parametrize(
    ("a", "b", "bias"),
    [
        ((3, 5), (5, 4), (4,)),
        ((3, 5), (5, 4), (3, 1)),
        ((3, 5), (5, 4), (3, 4)),
        ((2, 3, 5), (5, 4), (2, 1, 4)),
        ((2, 3, 5), (5, 4), (1,)),
        ((3, 5), (5,), (3,)),
        ((2, 3, 5), (5,), (2, 3)),
        ((2, 3, 5), (5,), (3,)),
        ((5,), (5, 4), (4,)),
        ((5,), (2, 5, 4), (2, 1)),
    ],
)
def test_c_and_bias_meet_the_entries_that_numpy_would_add_them_to(
    a: tuple[int, ...], b: tuple[int, ...], bias: tuple[int, ...]
) -> None:
    left, right = np.zeros(a, np.int64), np.zeros(b, np.int64)
    expected = np.matmul(left, right)
    addend = np.arange(expected.size, dtype=np.int64).reshape(expected.shape)
    more = 100 * np.arange(1, 1 + np.prod(bias, dtype=int), dtype=np.int64).reshape(bias)
    call = read_call(left, right, addend, beta=1, epilogue=epilogue.identity(bias=more))
    found = host_operands(call)
    assert found.c is not None
    assert found.bias is not None
    assert found.c.shape == found.bias.shape == (*call.problem.batch, call.problem.m, call.problem.n)
    assert np.array_equal((found.c + found.bias).reshape(call.result_shape), addend + more)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 3)])
def test_the_batch_of_c_broadcasts_for_a_vector_too(shape: tuple[int, ...]) -> None:
    c = np.arange(np.prod(shape), dtype=F32).reshape(shape)
    found = host_operands(read_call(np.ones((2, 3, 5), F32), np.ones(5, F32), c, beta=1))
    assert found.c is not None
    assert np.array_equal(found.c[..., 0], np.broadcast_to(c, (2, 3)))


@pytest.mark.parametrize("rows", [(3,), (3, 1)])
@pytest.mark.parametrize("cols", [(4,), (1, 4)])
def test_factors_lie_along_rows_and_columns(rows: tuple[int, ...], cols: tuple[int, ...]) -> None:
    r, c = np.array([1, 2, 3], F32).reshape(rows), np.array([1, 10, 100, 1000], F32).reshape(cols)
    spec = epilogue.identity(scale_rows=r, scale_cols=c)
    found = host_operands(read_call(np.ones((2, 3, 5), F32), B, epilogue=spec))
    assert found.scale_rows is not None
    assert found.scale_cols is not None
    assert np.array_equal(found.scale_rows * found.scale_cols, np.broadcast_to(np.outer(r, c), (2, 3, 4)))


# Alias facts


def test_overlaps_name_the_operands_whose_memory_d_overlaps() -> None:
    x = np.ones((4, 4), F32)
    assert read_call(x, B[:4, :4], out=x).problem.overlaps == ("a",)
    assert read_call(x, x, out=x).problem.overlaps == ("a", "b")
    assert read_call(x, x, x, beta=1, out=np.empty_like(x)).problem.overlaps == ()
    assert read_call(B[:4, :4], x.copy(), x, beta=1, out=x[::-1]).problem.overlaps == ("c",)
    halves = np.ones((8, 4), F32)
    assert read_call(halves[:4], x, out=halves[4:]).problem.overlaps == ()


def test_a_bias_that_d_overlaps_is_named() -> None:
    x = np.ones((4, 4), F32)
    found = read_call(B[:4, :4], B[:4, :4].copy(), out=x, epilogue=epilogue.relu(bias=x[1]))
    assert found.problem.overlaps == ("bias",)


# Element types


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("float32", "float32"),
        (np.float32, "float32"),
        (np.dtype("float16"), "float16"),
        ("f2", "float16"),
        (float, "float64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        ("bfloat16", "bfloat16"),
        (np.dtype(ml_dtypes.float8_e5m2), "float8_e5m2"),
    ],
)
def test_out_dtype_is_read_from_names_and_type_objects(asked: object, found: str) -> None:
    assert read_call(A, B, out_dtype=asked).problem.d.dtype == found


@pytest.mark.parametrize("asked", ["float12", bool, complex, "U3", object(), 7, {}, ">f4", [("x", "f4")]])
def test_an_unknown_out_dtype_is_refused_with_the_known(asked: object) -> None:
    with pytest.raises(DTypeError, match=r"out_dtype=.*float8_e5m2.*float64"):
        read_call(A, B, out_dtype=asked)


# Places


@pytest.mark.parametrize(
    ("device", "backend"), [(None, "cpu:sm_90"), ("cpu", "cpu:sm_90"), ("cpu:sm_75", "cpu:sm_75")]
)
def test_numpy_arrays_run_on_the_cpu_model(device: str | None, backend: str) -> None:
    assert read_call(A, B, device=device).capabilities.backend == backend


@pytest.mark.parametrize(
    "device", ["gpu", "sm_90", "", 0, b"cpu", "cudax", "cuda:", "cuda:x", "cpu:", "cpu:90"]
)
def test_an_unknown_device_is_refused_with_the_known(device: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_call(A, B, device=device)
    assert repr(device) in str(caught.value)
    assert "cpu" in str(caught.value)


@pytest.mark.parametrize("device", [None, "cpu", "cuda"])
def test_arrays_in_different_places_are_refused_by_name(device: str | None) -> None:
    elsewhere = ArrayView("cupy", "cuda", 1, 4096, (3, 4), (4, 1), "float32", None)
    with pytest.raises(UnsupportedError, match=r"a on cpu, b on cpu, out on cuda:1\).*cpu or cuda:1"):
        read_call(A, B, out=elsewhere, device=device)


def test_cuda_without_a_device_is_refused_by_name(no_device: str | None) -> None:
    if no_device is None:
        pytest.skip("there is a device")
    with pytest.raises(UnsupportedError, match=r"(?i)cuda"):
        read_call(A, B, device="cuda")


# Refusals


@pytest.mark.parametrize("spec", [epilogue.relu, "relu", epilogue.relu().spec, 3])
def test_an_epilogue_comes_from_mx_epilogue(spec: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"mxgemm\.epilogue"):
        read_call(A, B, epilogue=spec)


@pytest.mark.parametrize("name", ["a", "b", "c", "out", "bias", "scale_rows", "scale_cols"])
def test_a_refused_array_is_named(name: str) -> None:
    shapes = {"a": (3, 5), "b": (5, 4), "bias": (4,), "scale_rows": (3,), "scale_cols": (4,)}
    arrays: dict[str, Any] = {n: np.ones(shapes.get(n, (3, 4)), F32) for n in (*shapes, "c", "out")}
    arrays[name] = arrays[name].astype(complex)
    spec = epilogue.identity(**{n: arrays[n] for n in ("bias", "scale_rows", "scale_cols")})
    with pytest.raises(DTypeError) as caught:
        read_call(arrays["a"], arrays["b"], arrays["c"], beta=1, out=arrays["out"], epilogue=spec)
    shown = name.upper() if name in "abc" else name
    assert str(caught.value).startswith(f"{shown} has element type complex128")


def test_a_read_only_out_is_refused_and_read_only_inputs_are_not() -> None:
    frozen = [x.copy() for x in (A, B, np.ones((3, 4), F32))]
    for x in frozen:
        x.flags.writeable = False
    read_call(frozen[0], frozen[1], frozen[2], beta=1)
    with pytest.raises(UnsupportedError, match="out is read-only"):
        read_call(A, B, out=frozen[2])


def test_an_out_whose_elements_share_memory_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(16, F32), (3, 4), (4, 4))
    with pytest.raises(UnsupportedError, match="share memory"):
        read_call(A, B, out=out)


def test_out_of_another_shape_or_type_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(4, 3\).*\(3, 4\)"):
        read_call(A, B, out=np.empty((4, 3), F32))
    with pytest.raises(DTypeError, match=r"float64.*float32"):
        read_call(A, B, out=np.empty((3, 4)), out_dtype="float32")


def test_inputs_lists_what_is_read() -> None:
    call = read_call(A, B, np.ones((3, 4), F32), beta=1, epilogue=epilogue.relu(bias=np.ones(4, F32)))
    assert [name for name, _ in call.inputs()] == ["a", "b", "c", "bias"]


@pytest.mark.parametrize("flag", ["N", "T", None, 1, 0.0])
@pytest.mark.parametrize("side", ["transpose_a", "transpose_b"])
def test_a_transposition_is_true_or_false(side: str, flag: Any) -> None:
    """BLAS's "N" would count as true."""
    with pytest.raises(UnsupportedError, match=f"{side}={flag!r} is neither True nor False"):
        read_call(A, B, **{side: flag})
    read_call(A, B, **{side: np.False_})
