"""gemm() on NumPy arrays: element types, scalars, absent terms, batches, out, and what is refused."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mxgemm as mx
from mxgemm.configs import CONFIGURATIONS, ELEMENT_TYPES, Configuration, has_unit
from mxgemm.problem import default_out_dtype, out_dtypes
from tests.policies import outcome, policy_with, product, under
from tests.strategies import (
    INTEGERS,
    matmul_shapes,
    numpy_type,
    odd_sizes,
    same,
    seeds,
    small_integers,
    values,
    wrapped,
)

F32 = np.float32
ON_HOPPER = [row for row in CONFIGURATIONS if has_unit(row.unit, "sm_90")]
each_row = pytest.mark.parametrize("row", ON_HOPPER, ids=lambda row: row.name)
# One row of each kind of arithmetic; every row runs in test_gemm_reference.py.
KINDS = (
    "float16/native",
    "float32/bf16x6",
    "float32/f16x3",
    "float32/i8crt8",
    "float32/scalar",
    "float64/native",
)
each_kind = pytest.mark.parametrize(
    "row", [row for row in ON_HOPPER if row.name in KINDS], ids=lambda row: row.name
)


# Values


@given(odd_sizes, seeds, st.sampled_from(INTEGERS), st.sampled_from(("exact", "scalar")))
def test_integers_are_those_of_arbitrary_precision(
    sizes: tuple[int, int, int], seed: int, dtype: str, precision: str
) -> None:
    m, n, k = sizes
    a, b = values(dtype, (m, k), seed), values(dtype, (k, n), seed + 1)
    out_dtype = default_out_dtype(dtype)
    c = values(out_dtype, (m, n), seed + 2)
    exact = -3 * (a.astype(object) @ b.astype(object)) + 5 * c.astype(object)
    found = product(a, b, c, alpha=-3, beta=5, precision=precision)
    assert same(found, wrapped(exact, out_dtype))


@pytest.mark.parametrize("dtype", [name for name in INTEGERS if name not in ("int64", "uint64")])
@pytest.mark.parametrize("precision", ["exact", "scalar"])
def test_wider_integers_are_exact_in_their_own_width(dtype: str, precision: str) -> None:
    a, b = np.full((2, 37), np.iinfo(dtype).max, dtype), np.full((37, 3), np.iinfo(dtype).max, dtype)
    a[0] = np.iinfo(dtype).min
    exact = 3 * (a.astype(object) @ b.astype(object))
    accumulator = "int32" if dtype in ("int8", "uint8") else dtype
    for out_dtype in out_dtypes(dtype, dtype, accumulator):
        found = product(a, b, alpha=3, precision=precision, out_dtype=out_dtype)
        assert same(found, wrapped(exact, out_dtype)), out_dtype


@pytest.mark.parametrize("pair", [("int8", "uint8"), ("uint8", "int8")])
def test_mixed_8_bit_integers(pair: tuple[str, str]) -> None:
    a, b = values(pair[0], (17, 129), 1), values(pair[1], (129, 5), 2)
    exact = a.astype(object) @ b.astype(object)
    assert same(product(a, b, precision="exact"), wrapped(exact, "int32"))
    for out_dtype in pair:
        assert same(product(a, b, precision="exact", out_dtype=out_dtype), wrapped(exact, out_dtype))


def test_mixed_fp8_gives_float32_and_either_source_type() -> None:
    a, b = small_integers("float8_e4m3fn", (5, 40), 1, 2), small_integers("float8_e5m2", (40, 3), 2, 1)
    exact = a.astype(F32) @ b.astype(F32)
    for precision in ("native", "scalar"):
        assert same(product(a, b, precision=precision), exact)
        for out_dtype in ("float8_e4m3fn", "float8_e5m2"):
            found = product(a, b, precision=precision, out_dtype=out_dtype)
            assert same(found, exact.astype(numpy_type(out_dtype)))


@pytest.mark.parametrize(
    ("a", "b"), [("float16", "bfloat16"), ("int8", "int16"), ("float32", "float64"), ("int8", "float32")]
)
def test_other_mixes_are_refused_by_name(a: str, b: str) -> None:
    with pytest.raises(mx.DTypeError, match=f"{a} and {b} do not mix"):
        product(np.ones((2, 2), numpy_type(a)), np.ones((2, 2), numpy_type(b)))


@each_row
def test_every_allowed_type_of_the_result_holds_small_integers_exactly(row: Configuration) -> None:
    for b_type in row.source_types:
        a = small_integers(row.source_types[0], (3, 37), 3, 1)
        b = small_integers(b_type, (37, 5), 4, 1)
        a[:, 8:] = 0  # at most 8 terms, so that fp8 holds every sum
        exact = a.astype(np.int64) @ b.astype(np.int64)
        for out_dtype in out_dtypes(row.source_types[0], b_type, row.accumulator):
            found = product(a, b, precision=row.precision, out_dtype=out_dtype)
            assert same(found, exact.astype(numpy_type(out_dtype))), out_dtype


def test_to_fp8_saturates_keeps_nan_and_raises_the_flag() -> None:
    a = np.array([[400.0, 448.0], [1.0, 1.0]]).astype(ml_dtypes.float8_e4m3fn)
    b = np.array([[2.0, np.nan], [1.0, 0.0]]).astype(ml_dtypes.float8_e4m3fn)
    found = outcome(a, b, alpha=-1, out_dtype="float8_e4m3fn")
    assert found.array[0, 0] == -448
    assert np.isnan(found.array[:, 1].astype(F32)).all()
    assert found.array[1, 0] == -3
    assert found.outcome.flags == ("fp8-overflow",)
    assert outcome(a[1:], b, out_dtype="float8_e4m3fn").outcome.flags == ()
    assert outcome(a, b).outcome.flags == ()


def test_operands_beyond_float16_overflow_to_inf_and_raise_the_flag() -> None:
    a, b = np.array([[65520.0, 1.0], [65519.0, 1.0]], F32), np.ones((2, 1), F32)
    found = outcome(a, b, precision="f16")
    assert found.array.ravel().tolist() == [np.inf, 65505.0]
    assert found.outcome.flags == ("operand-overflow",)
    assert outcome(a[1:], b, precision="f16").outcome.flags == ()
    for precision in ("bf16", "f16x3", "scalar"):
        assert outcome(a, b, precision=precision).outcome.flags == ()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_results_are_rounded_once_from_the_accumulator(dtype: str) -> None:
    kind = numpy_type(dtype)
    tiny = float(ml_dtypes.finfo(kind).eps)
    a, b = np.array([[1, 1, 1]], kind), np.array([[1], [tiny / 2], [tiny / 64]], kind)
    exact = 1 + tiny / 2 + tiny / 64  # just above the middle of two neighbours
    for precision in ("native", "scalar"):
        assert product(a, b, precision=precision)[0, 0] == 1 + tiny
        assert product(a, b, precision=precision, out_dtype="float32")[0, 0] == exact


# Scalars


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_integer_scalars_wrap_modulo_the_accumulator(dtype: str) -> None:
    a, b = values(dtype, (3, 5), 5), values(dtype, (5, 2), 6)
    c = values(default_out_dtype(dtype), (3, 2), 7)
    for precision in ("exact", "scalar"):
        alpha, beta = 2**70 + 3, -(2**65) + 7
        exact = alpha * (a.astype(object) @ b.astype(object)) + beta * c.astype(object)
        found = product(a, b, c, alpha=alpha, beta=beta, precision=precision)
        assert same(found, wrapped(exact, str(c.dtype)))


def test_scalars_and_bias_are_rounded_to_the_accumulators_type_first() -> None:
    one = np.ones((1, 1), F32)
    alpha = 1 + 2.0**-24 + 2.0**-50  # nearest float32 is 1 + 2^-23
    tripled = np.full((1, 1), 3, F32)
    assert product(tripled, one, alpha=alpha)[0, 0] == F32(3) * F32(alpha)
    assert product(tripled, one, alpha=alpha)[0, 0] != F32(3 * alpha)
    assert product(one, one, tripled, alpha=0, beta=alpha)[0, 0] == F32(3) * F32(alpha)
    bias = np.array([2.0**-24 + 2.0**-50])  # with 1 in float64: above the middle; rounded first: the middle
    assert product(one, one, epilogue=mx.epilogue.identity(bias=bias))[0, 0] == 1


def test_huge_integer_scalars_of_floats_round_once_or_overflow() -> None:
    one = np.ones((1, 1), F32)
    # Rounded to float64 first it would be the middle of two float32, and go down.
    assert product(one, one, alpha=2**53 + 2**29 + 1)[0, 0] == 2.0**53 + 2.0**30
    assert product(one, one, alpha=-(10**400))[0, 0] == -np.inf


@each_kind
@pytest.mark.parametrize("alpha", [0, 0.0, -0.0])
def test_alpha_of_nothing_reads_neither_operand(row: Configuration, alpha: float) -> None:
    kind = numpy_type(row.source_types[0])
    a, b = np.full((3, 5), np.nan, kind), np.full((5, 4), np.inf, kind)
    c = small_integers(default_out_dtype(str(kind)), (3, 4), 8)
    assert same(product(a, b, c, alpha=alpha, beta=2, precision=row.precision), (2 * c).astype(c.dtype))
    zeros = product(a, b, alpha=alpha, precision=row.precision)
    assert same(zeros, np.zeros_like(c))


@each_kind
@pytest.mark.parametrize("beta", [0, -0.0])
def test_beta_of_nothing_never_reads_c(row: Configuration, beta: float) -> None:
    kind = numpy_type(row.source_types[0])
    a, b = small_integers(str(kind), (3, 5), 9), small_integers(str(kind), (5, 4), 10)
    c = np.full((3, 4), np.nan, numpy_type(default_out_dtype(str(kind))))
    c[0] = np.inf
    without = product(a, b, alpha=1.5, precision=row.precision)
    assert same(product(a, b, c, alpha=1.5, beta=beta, precision=row.precision), without)
    assert np.isfinite(without).all()


@pytest.mark.parametrize("scalar", [2.0**-150, 1e-60, -1e-60])
def test_a_scalar_that_rounds_to_nothing_is_absent(scalar: float) -> None:
    poisoned, ones = np.full((2, 2), np.nan, F32), np.ones((2, 2), F32)
    assert same(product(poisoned, ones, ones, alpha=scalar, beta=3), 3 * ones)
    assert same(product(ones, ones, poisoned, alpha=3, beta=scalar), 6 * ones)
    assert np.isnan(product(poisoned.astype(float), ones.astype(float), alpha=scalar)).all()


@pytest.mark.parametrize("scalar", [float("nan"), float("inf")])
def test_scalars_that_are_not_finite_take_part(scalar: float) -> None:
    ones = np.ones((2, 2), F32)
    assert same(product(ones, ones, alpha=scalar), np.full((2, 2), scalar, F32))
    assert same(product(ones, ones, ones, beta=scalar), np.full((2, 2), scalar, F32))


def test_an_absent_term_is_not_added_so_negative_zero_survives() -> None:
    negative = np.array([[-0.0]], F32)
    one = np.ones((1, 1), F32)
    # beta·C alone, and the bias alone.
    assert np.signbit(product(one, one, negative, alpha=0, beta=1))[0, 0]
    assert np.signbit(product(one, one, alpha=0, epilogue=mx.epilogue.identity(bias=negative)))[0, 0]
    # A matrix unit's zero is +0, so the sign comes from alpha.
    assert np.signbit(product(np.zeros((1, 1), F32), one, alpha=-1, precision="bf16x9"))[0, 0]
    # Present and zero, it is added: −0 + 0 = +0.
    assert not np.signbit(product(np.zeros((1, 1), F32), one, negative, beta=1))[0, 0]
    assert not np.signbit(product(one, one, alpha=0))[0, 0]


# Shapes


@given(
    matmul_shapes,
    seeds,
    st.sampled_from(("int64/scalar", "int8/exact", "float32/bf16x3", "float64/native")),
)
def test_shapes_and_batches_are_those_of_matmul(shapes: Any, seed: int, name: str) -> None:
    dtype, precision = name.split("/")
    a, b = (small_integers(dtype, shape, seed + i) for i, shape in enumerate(shapes.input_shapes))
    expected = np.matmul(a.astype(np.int64), b.astype(np.int64))
    found = product(a, b, alpha=3, precision=precision)
    assert found.shape == expected.shape
    assert same(np.asarray(found), np.asarray(3 * expected).astype(default_out_dtype(dtype)))


@given(matmul_shapes, seeds, st.booleans(), st.booleans(), st.data())
def test_transposition_c_and_out_in_every_shape(
    shapes: Any, seed: int, transpose_a: bool, transpose_b: bool, data: st.DataObject
) -> None:
    a, b = (small_integers("int32", shape, seed + i) for i, shape in enumerate(shapes.input_shapes))
    shape = np.matmul(a, b).shape
    axes = 2 - (a.ndim == 1) - (b.ndim == 1)
    matrix = shape[len(shape) - axes :]
    batch = tuple(data.draw(st.sampled_from((1, n))) for n in shape[: len(shape) - axes])
    out = np.full(shape, 77, np.int32)
    c = small_integers("int32", (*batch, *matrix), seed + 2)
    swapped_a = a.swapaxes(-1, -2) if transpose_a and a.ndim > 1 else a
    swapped_b = b.swapaxes(-1, -2) if transpose_b and b.ndim > 1 else b
    found = product(
        swapped_a, swapped_b, c, alpha=2, beta=-3, transpose_a=transpose_a, transpose_b=transpose_b, out=out,
        precision="exact",
    )  # fmt: skip
    assert np.array_equal(found, 2 * np.matmul(a, b) - 3 * c)
    assert found is out


@pytest.mark.parametrize("scalar", [np.array(2.0), np.float64(2)])
def test_a_scalar_is_no_operand(scalar: object) -> None:
    with pytest.raises(mx.ShapeError, match="0-dimensional"):
        product(scalar, np.ones((1, 1)))


def test_a_0_dimensional_result_can_be_checked() -> None:
    a, b = np.array([1, 2, 3], F32), np.array([4, 5, 6], F32)
    assert mx.check(np.float32(32), a, b, precision="scalar")
    assert not mx.check(np.float32(33), a, b, precision="scalar")


def test_a_vector_by_a_vector_is_0_dimensional() -> None:
    found = product(np.array([1, 2, 3], F32), np.array([4, 5, 6], F32), alpha=2)
    assert (found.shape, found.dtype, float(found)) == ((), F32, 64.0)


@pytest.mark.parametrize("sizes", [(0, 4, 5), (3, 0, 5), (0, 0, 0), (3, 4, 0), (0, 4, 0)])
@pytest.mark.parametrize("row", ON_HOPPER[::5], ids=lambda row: row.name)
def test_empty_operands_give_the_shape_and_zeros(row: Configuration, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    kind = numpy_type(row.source_types[0])
    out_type = numpy_type(default_out_dtype(row.source_types[0]))
    found = product(np.ones((m, k), kind), np.ones((k, n), kind), precision=row.precision)
    assert same(found, np.zeros((m, n), out_type) if k == 0 else np.empty((m, n), out_type))


# out


@each_row
def test_out_is_returned_filled_and_nothing_beside_it_is_written(row: Configuration) -> None:
    kind = numpy_type(default_out_dtype(row.source_types[0]))
    a, b = small_integers(row.source_types[0], (3, 7), 11), small_integers(row.source_types[0], (7, 5), 12)
    frame = np.full((8, 12), 55, kind)
    out = frame[1:7:2, 10:0:-2]
    found = product(a, b, alpha=2, out=out, precision=row.precision)
    assert found is out
    assert same(out.copy(), product(a, b, alpha=2, precision=row.precision))
    rest = np.ones(frame.shape, bool)
    rest[1:7:2, 10:0:-2] = False
    assert (frame[rest] == 55).all()


BAD: dict[str, dict[str, Any]] = {
    "a shape that does not fit": {"b": np.ones((4, 4), F32)},
    "an element type": {"a": np.ones((3, 5), bool)},
    "C of another shape": {"c": np.ones((4, 3), F32), "beta": 1},
    "C of another type": {"c": np.ones((3, 4)), "beta": 1},
    "a bias that does not broadcast": {"epilogue": mx.epilogue.relu(bias=np.ones(3, F32))},
    "an epilogue of another kind": {"epilogue": "relu"},
    "alpha": {"alpha": "2"},
    "a precision that does not exist": {"precision": "fp12"},
    "a precision without a unit": {"precision": "f64", "device": "cpu:sm_80"},
    "a precision that was not accepted": {"precision": "f16"},
    "a budget that nothing meets": {"precision": None, "max_error": 1e-300},
    "a device": {"device": "tpu"},
    "a verification level": {"verify": "thoroughly"},
    "a stream on the CPU": {"stream": 0},
    "a workspace on the CPU": {"workspace": np.empty(1, np.uint8)},
    "out_dtype": {"out_dtype": "float16"},
}


@pytest.mark.parametrize("what", BAD)
def test_out_is_untouched_when_a_call_is_refused(what: str) -> None:
    out = np.full((3, 4), 55, F32)
    asked: dict[str, Any] = {"a": np.ones((3, 5), F32), "b": np.ones((5, 4), F32), "precision": "scalar"}
    asked |= BAD[what] | {"out": out}
    with under(policy_with()), pytest.raises(mx.MxgemmError):
        mx.gemm(asked.pop("a"), asked.pop("b"), **asked)
    assert (out == 55).all()


def test_out_is_untouched_when_the_product_itself_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: Any, **_more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("mxgemm.units.run", interrupted)
    out = np.full((3, 4), 55, F32)
    with pytest.raises(KeyboardInterrupt):
        product(np.ones((3, 5), F32), np.ones((5, 4), F32), out=out)
    assert (out == 55).all()


def test_inputs_are_not_written() -> None:
    shapes = [(3, 5), (5, 4), (3, 4), (4,), (3,), (4,)]
    given_arrays = [small_integers("float32", shape, seed) for seed, shape in enumerate(shapes)]
    a, b, c, bias, rows, cols = given_arrays
    kept = [x.copy() for x in given_arrays]
    spec = mx.epilogue.relu(bias=bias, scale_rows=rows, scale_cols=cols)
    for precision in ("scalar", "f16x3", "bf16"):
        product(a, b, c, alpha=2, beta=3, epilogue=spec, precision=precision)
    for before, after in zip(kept, given_arrays, strict=True):
        assert same(before, after)


# Refusals by name


@pytest.mark.parametrize(("name", "value"), [("stream", 0), ("stream", object()), ("workspace", 1)])
def test_stream_and_workspace_are_for_gpus(name: str, value: object) -> None:
    with pytest.raises(mx.UnsupportedError, match=f"{name}= is for GPUs; on cpu:sm_90"):
        product(np.ones((2, 2), F32), np.ones((2, 2), F32), **{name: value})


@pytest.mark.parametrize("level", ["sample", "freivalds", "", True, 3])
def test_other_levels_of_verification_are_refused_with_the_known(level: object) -> None:
    with pytest.raises(mx.UnsupportedError, match=r"verify=.*full"):
        product(np.ones((2, 2), F32), np.ones((2, 2), F32), verify=level)


@pytest.mark.parametrize("face", [mx.gemm, mx.gemm_outcome, mx.explain])
def test_a_misspelt_keyword_is_an_error(face: Any) -> None:
    ones = np.ones((2, 2), np.int8)
    with pytest.raises(TypeError, match="precison"):
        face(ones, ones, precison="f16")
    with pytest.raises(TypeError, match="precison"):
        mx.gemm_grouped([(ones, ones)], precison="f16")


def test_errors_are_of_one_tree_and_of_the_builtin_that_fits() -> None:
    for error, builtin in (
        (mx.ShapeError, ValueError),
        (mx.DTypeError, TypeError),
        (mx.PolicyError, PermissionError),
        (mx.UnsupportedError, ValueError),
        (mx.KernelSyntaxError, SyntaxError),
        (mx.CompilationError, RuntimeError),
        (mx.VerificationError, ArithmeticError),
    ):
        assert issubclass(error, mx.MxgemmError)
        assert issubclass(error, builtin)
    for warning in (mx.MatrixProductAdvice, mx.AccuracyWarning, mx.PerformanceAdvice):
        assert issubclass(warning, mx.MxgemmWarning)


# Architectures


@pytest.mark.parametrize(
    ("arch", "found"), [("sm_70", 1.0), ("sm_80", 1 + 3 * 2.0**-23), ("sm_90", 1 + 4 * 2.0**-23)]
)
def test_an_architecture_decides_the_bits(arch: str, found: float) -> None:
    a = np.full((1, 9), 2.0**-12, np.float16)
    a[0, 0] = 1.0
    # 1 and eight 2^-24: Volta drops each one, Ampere keeps the seven of the first group of 8 and converts
    # towards zero, Hopper adds all nine at once.
    result = product(a, a, transpose_b=True, precision="native", out_dtype="float32", device=f"cpu:{arch}")
    assert result[0, 0] == found


def test_cpu_models_hopper() -> None:
    a, b = values("float16", (5, 70), 13), values("float16", (70, 3), 14)
    default = product(a, b, precision="native")
    for device in ("cpu", "cpu:sm_90"):
        assert same(product(a, b, precision="native", device=device), default)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_scalar_is_the_same_on_every_architecture(dtype: str) -> None:
    a, b = values(dtype, (3, 37), 15), values(dtype, (37, 2), 16)
    hopper = product(a, b)
    assert same(product(a, b, device="cpu:sm_70"), hopper)
    assert same(product(a, b, device="cpu:sm_120"), hopper)


def test_hoppers_float64_units_give_the_bits_of_scalar() -> None:
    a, b = values("float64", (7, 65), 17), values("float64", (65, 4), 18)
    assert same(product(a, b, precision="native"), product(a, b, precision="scalar"))


# Order of summation: bits do not depend on what else is computed


@each_kind
def test_one_product_has_one_result_wherever_it_stands(row: Configuration) -> None:
    dtype = row.source_types[0]
    a, b = values(dtype, (9, 150), 19), values(dtype, (150, 70), 20)
    whole = product(a, b, precision=row.precision)
    if row.scaling == "none":  # a scale belongs to a row, so it may be cut; a column's too
        assert same(product(a[2:5], b[:, 65:], precision=row.precision), whole[2:5, 65:])
    assert same(product(a[4:5], b, precision=row.precision), whole[4:5])
    assert same(product(np.stack([a, a]), b, precision=row.precision)[1], whole)
    assert same(product(a, b, precision=row.precision), whole)


def test_the_float32_scalar_is_a_chain_of_fused_multiply_adds() -> None:
    a, b = np.array([[1 + 2.0**-12, -1.0]], F32), np.array([[1 + 2.0**-12], [1 + 2.0**-11]], F32)
    # (1 + 2^-12)² = 1 + 2^-11 + 2^-24 is rounded; −(1 + 2^-11) fused onto it leaves what is left of it.
    rounded = F32((1 + 2.0**-12) ** 2)
    assert product(a, b)[0, 0] == float(rounded) - (1 + 2.0**-11)
    flipped = product(a[:, ::-1], b[::-1])[0, 0]
    assert flipped == 2.0**-24  # the other order of k keeps it: the product is not rounded before the sum
    assert math.isclose(float(product(a.astype(float), b.astype(float))[0, 0]), 2.0**-24)
