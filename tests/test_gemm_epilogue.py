"""The epilogue is a sequence of single roundings, the same for every configuration."""

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm import epilogue
from mxgemm.problem import default_out_dtype
from mxgemm.units.activations import ULPS
from tests.policies import product
from tests.reference.integers import KINDS, rounded
from tests.strategies import INTEGERS, Array, numpy_type, same, seeds, values, wrapped

F32 = np.float32
FORMATS = {"float16": "f16", "bfloat16": "bf16", "float32": "float32", "float64": "float64"}
ROWS = (
    "float16/native",
    "bfloat16/scalar",
    "float32/scalar",
    "float32/bf16x3",
    "float32/tf32",
    "float64/native",
)
M, N, K = 3, 5, 11


def nearest(value: Fraction, dtype: str) -> Fraction:
    """``value`` rounded once, to nearest even."""
    return Fraction(rounded(value, KINDS[FORMATS[dtype]]))


def exact(x: Any) -> Fraction:
    return Fraction(float(x))


def one_entry(p: Any, kind: str, out_dtype: str, asked: dict[str, Any], position: Any) -> Fraction:
    """D of one entry by DESIGN's sequence; ``asked`` holds what takes part."""
    u = nearest(nearest(exact(asked["alpha"]), kind) * exact(p), kind)
    for factor, index in (("rows", position[0]), ("cols", position[1])):
        if factor in asked:
            u = nearest(u * nearest(exact(asked[factor][index]), kind), kind)
    s = u
    if "c" in asked:
        v = nearest(nearest(exact(asked["beta"]), kind) * exact(asked["c"][position]), kind)
        s = nearest(u + v, kind)
    if "bias" in asked:
        s = nearest(s + nearest(exact(asked["bias"][position]), kind), kind)
    if asked["activation"] == "relu":
        s = max(s, Fraction(0))
    if asked["activation"] == "clamp":
        s = min(max(s, nearest(exact(asked["lo"]), kind)), nearest(exact(asked["hi"]), kind))
    return nearest(s, out_dtype)


@given(
    seeds,
    st.sampled_from(ROWS),
    st.sets(st.sampled_from(("c", "bias", "rows", "cols"))),
    st.sampled_from(("identity", "relu", "clamp")),
    st.booleans(),
)
def test_every_step_rounds_once_in_the_stated_sequence(
    seed: int, name: str, present: set[str], activation: str, wide: bool
) -> None:
    dtype, precision = name.split("/")
    kind = "float64" if dtype == "float64" else "float32"
    out_dtype = kind if wide else dtype
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(numpy_type(dtype)) for shape in ((M, K), (K, N)))
    p = product(a, b, precision=precision, out_dtype=kind)
    # Of about P's size and of all digits, given in float64 where a rounding is due first.
    arrays = {
        "c": rng.standard_normal((M, N)).astype(numpy_type(out_dtype)),
        "bias": rng.standard_normal((M, N)),
        "rows": rng.standard_normal(M),
        "cols": rng.standard_normal(N),
    }
    asked: dict[str, Any] = {n: x for n, x in arrays.items() if n in present}
    asked |= {"alpha": rng.standard_normal(), "beta": rng.standard_normal(), "activation": activation}
    asked |= {"lo": -0.3, "hi": 0.7}
    made = epilogue.Epilogue(
        activation, *((-0.3, 0.7) if activation == "clamp" else (0, 0)),
        asked.get("bias"), asked.get("rows"), asked.get("cols"),
    )  # fmt: skip
    found = product(
        a, b, asked.get("c"), alpha=asked["alpha"], beta=asked["beta"] if "c" in asked else 0, epilogue=made,
        precision=precision, out_dtype=out_dtype,
    )  # fmt: skip
    assert found.dtype == numpy_type(out_dtype)
    for position in np.ndindex(M, N):
        assert exact(found[position]) == one_entry(p[position], kind, out_dtype, asked, position)


def test_u_and_v_are_rounded_before_they_are_added() -> None:
    third = F32(1) / F32(3)
    one = np.ones((1, 1), F32)
    found = product(one * 3, one, one * 3, alpha=third, beta=-third)[0, 0]
    fused = math.fsum([float(third) * 3, -float(F32(third * 3))])
    assert found == 0
    assert fused != 0  # what a fused multiply-add would leave


def test_bias_is_added_after_c() -> None:
    one = np.ones((1, 1), F32)
    big = np.full((1, 1), 2.0**24, F32)
    # (1 + 2^24) rounds to 2^24 first; −2^24 leaves 0.  Bias before C would leave 1, and the other way around.
    assert product(one, one, big, beta=1, epilogue=epilogue.identity(bias=-big))[0, 0] == 0
    assert product(one, one, -big, beta=1, epilogue=epilogue.identity(bias=big))[0, 0] == 1


def test_c_never_seeds_the_unit() -> None:
    # Sixteen 2^-24 and 1: with C in the accumulator's place each would be truncated one after the other.
    a, b = np.full((1, 16), 2.0**-12, np.float16), np.full((16, 1), 2.0**-12, np.float16)
    c = np.array([[2.0**25]], F32)
    for precision in ("native", "scalar"):
        found = product(a, b, c, beta=2.0**-25, precision=precision, out_dtype="float32")[0, 0]
        assert found == 1 + 2.0**-20


# Arrays


@pytest.mark.parametrize(
    "shape", [(N,), (1, N), (M, 1), (M, N), (1, 1), (1,), (2, M, N), (2, 1, 1), (2, M, 1)]
)
def test_a_bias_broadcasts_as_in_numpy(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (2, M, K)).astype(F32), rng.integers(-9, 9, (K, N)).astype(F32)
    bias = rng.integers(-99, 99, shape).astype(F32)
    found = product(a, b, alpha=2, epilogue=epilogue.identity(bias=bias))
    assert same(found, 2 * np.matmul(a, b) + bias)


def test_a_bias_of_a_matrix_by_a_vector_is_one_a_row() -> None:
    a, x = np.arange(12, dtype=F32).reshape(3, 4), np.arange(4, dtype=F32)
    bias = np.array([100, 200, 300], F32)
    assert same(product(a, x, epilogue=epilogue.relu(bias=bias)), a @ x + bias)
    assert same(product(x, a.T, epilogue=epilogue.relu(bias=bias)), a @ x + bias)


@pytest.mark.parametrize("rows", [(M,), (M, 1)])
@pytest.mark.parametrize("cols", [(N,), (1, N)])
def test_factors_are_one_a_row_and_one_a_column(rows: tuple[int, ...], cols: tuple[int, ...]) -> None:
    a, b = np.ones((M, 2), F32), np.ones((2, N), F32)
    r, c = np.array([1, 2, 3], F32), np.array([1, 10, 100, 1000, 10000], F32)
    found = product(a, b, epilogue=epilogue.identity(scale_rows=r.reshape(rows), scale_cols=c.reshape(cols)))
    assert same(found, 2 * np.outer(r, c))


def test_factors_scale_the_product_and_not_c() -> None:
    one = np.ones((1, 1), F32)
    made = epilogue.identity(scale_rows=np.array([8], F32), bias=np.array([100], F32))
    assert product(one, one, one, alpha=3, beta=5, epilogue=made)[0, 0] == 8 * 3 + 5 + 100


def test_rows_come_before_columns() -> None:
    big, small = np.array([2.0**100], F32), np.array([2.0**-100], F32)
    p = np.full((1, 1), 2.0**60, F32)
    one = np.ones((1, 1), F32)
    assert product(p, one, epilogue=epilogue.identity(scale_rows=big, scale_cols=small))[0, 0] == np.inf
    assert product(p, one, epilogue=epilogue.identity(scale_rows=small, scale_cols=big))[0, 0] == 2.0**60


def test_an_array_of_the_epilogue_may_lie_in_any_way() -> None:
    a = np.ones((4, 2), F32)
    bias = np.arange(12, dtype=F32)[::-3]
    swapped = bias.astype(">f4")
    for each in (bias, swapped, bias.copy()):
        found = product(a, a, transpose_b=True, epilogue=epilogue.identity(bias=each))
        assert same(found, 2 + np.broadcast_to(np.array([11, 8, 5, 2], F32), (4, 4)))


# Activations


SPECIALS = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 2.5, -2.5, 1e-45]], F32)


def activated(made: epilogue.Epilogue, x: Array = SPECIALS) -> Array:
    """The activation of ``x`` alone: beta·C without a product."""
    one = np.ones((x.shape[0], 1), x.dtype)
    found: Array = product(one, np.ones((1, x.shape[1]), x.dtype), x, alpha=0, beta=1, epilogue=made)
    return found


def test_identity_keeps_every_value() -> None:
    assert same(activated(epilogue.identity()), SPECIALS)


def test_relu_keeps_nan_and_makes_negative_zero_positive() -> None:
    assert same(activated(epilogue.relu()), np.array([[np.nan, np.inf, 0, 0, 0, 2.5, 0, 1e-45]], F32))


def test_clamp_keeps_nan_and_takes_infinities_to_its_bounds() -> None:
    found = activated(epilogue.clamp(-1, 2))
    assert same(found, np.array([[np.nan, 2, -1, -0.0, 0, 2, -1, 1e-45]], F32))


def test_bounds_of_clamp_are_rounded_to_the_accumulators_type() -> None:
    assert activated(epilogue.clamp(0.1, 0.1))[0, 5] == F32(0.1)
    assert activated(epilogue.clamp(0.1, 0.1), SPECIALS.astype(float))[0, 5] == 0.1


def _reference(activation: str, x: float) -> Any:
    x = mpmath.mpf(x)
    if activation == "gelu":
        return x * mpmath.ncdf(x)
    if activation == "gelu-tanh":
        return x / 2 * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)))
    return x / (1 + mpmath.exp(-x))


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (epilogue.gelu(), "gelu"),
        (epilogue.gelu("none"), "gelu"),
        (epilogue.gelu("tanh"), "gelu-tanh"),
        (epilogue.silu(), "silu"),
    ],
)
def test_gelu_and_silu_are_within_their_documented_ulps(made: epilogue.Epilogue, name: str) -> None:
    x = np.concatenate([np.linspace(-8, 8, 201), [1e-30, -1e-30]]).astype(F32)[None, :]
    found = activated(made, x)
    with mpmath.workdps(50):
        for got, at in zip(found[0], x[0], strict=True):
            true = _reference(name, float(at))
            ulp = float(np.spacing(np.abs(F32(float(true)))))
            assert abs(mpmath.mpf(float(got)) - true) <= ULPS[name]["float32"] * ulp


def test_gelus_of_the_two_kinds_differ() -> None:
    at_two = np.full((1, 1), 2, F32)
    assert activated(epilogue.gelu(), at_two) != activated(epilogue.gelu("tanh"), at_two)


# Integers


@given(seeds, st.sampled_from(INTEGERS), st.sampled_from(("identity", "relu", "clamp")), st.booleans())
def test_integer_epilogues_are_exact_modulo_the_accumulator(
    seed: int, dtype: str, activation: str, with_bias: bool
) -> None:
    kind = default_out_dtype(dtype)
    a, b = values(dtype, (M, K), seed), values(dtype, (K, N), seed + 1)
    c, bias = values(kind, (M, N), seed + 2), values(kind, (N,), seed + 3)
    lo, hi = -1000, 2**20 + 1
    made = epilogue.Epilogue(activation, lo, hi, bias=bias if with_bias else None)
    found = product(a, b, c, alpha=3, beta=-2, epilogue=made, precision="exact")
    total = 3 * (a.astype(object) @ b.astype(object)) - 2 * c.astype(object)
    total = wrapped(total + (bias.astype(object) if with_bias else 0), kind).astype(object)
    if activation == "relu":
        total = np.maximum(total, 0)
    if activation == "clamp":
        total = np.minimum(np.maximum(total, lo), hi)
    assert same(found, wrapped(total, kind))


def test_bounds_beyond_the_accumulator_do_not_wrap() -> None:
    a = np.array([[100, -100]], np.int8)
    for lo, hi, expected in ((-(2**40), 2**40, 10_000), (-(2**40), 6, 6), (20_000, 2**40, 20_000)):
        found = product(a[:, :1], a[:, :1], epilogue=epilogue.clamp(lo, hi), precision="exact")
        assert found[0, 0] == expected


def test_narrow_integer_results_are_clamped_before_they_wrap() -> None:
    a = np.array([[100, 100]], np.int8)
    made = epilogue.clamp(-128, 127)
    assert product(a, a.T, precision="exact", out_dtype="int8")[0, 0] == np.int64(20_000).astype(np.int8)
    assert product(a, a.T, precision="exact", out_dtype="int8", epilogue=made)[0, 0] == 127


def test_an_integer_bias_of_another_width_wraps() -> None:
    a = np.ones((1, 1), np.int8)
    bias = np.array([2**40 + 7], np.int64)
    assert product(a, a, precision="exact", epilogue=epilogue.identity(bias=bias))[0, 0] == 8
