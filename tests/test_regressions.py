"""Kinds of fault that broke real GEMM libraries, gathered from public bug reports and numbered.

What concerns GPUs alone (workspaces in 4; streams, capture and the cache in 18) is tested where kernels are.
Memory layouts (10) and an ``out`` that overlaps (11) are drawn by hypothesis in test_gemm_layouts.py, the
checker (16) is in test_gemm_verify.py.
"""

import multiprocessing
import threading
from itertools import product as combinations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import mxgemm as mx
from mxgemm.configs import CONFIGURATIONS, Configuration, has_unit
from mxgemm.problem import default_out_dtype
from tests.policies import generous, outcome, product, under
from tests.strategies import Array, laid_out, numpy_type, same, small_integers, values, wrapped

F32 = np.float32
ROWS = [row for row in CONFIGURATIONS if has_unit(row.unit, "sm_90") and row.moduli in (0, 7, 15)]
FLOAT_ROWS = [row for row in ROWS if not row.is_integer]
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
each_float_row = pytest.mark.parametrize("row", FLOAT_ROWS, ids=lambda row: row.name)
# float8_e4m3fn has no infinity, so fp8 rows are tested with the other type.
SOURCE = {row.name: row.source_types[-1] for row in CONFIGURATIONS}


def kinds(row: Configuration) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """NumPy's types of the operands and of the default result."""
    return numpy_type(SOURCE[row.name]), numpy_type(default_out_dtype(SOURCE[row.name]))


# 1. Empty products


@each_row
def test_k_of_0_is_beta_c_or_zeros_and_never_unwritten_memory(row: Configuration) -> None:
    source, result = kinds(row)
    a, b, c = np.empty((3, 0), source), np.empty((0, 5), source), small_integers(str(result), (3, 5), 1)
    out = np.full((3, 5), 77).astype(result)
    assert same(product(a, b, precision=row.precision, out=out), np.zeros((3, 5), result))
    assert same(product(a, b, c, alpha=7, beta=2, precision=row.precision, out=out), (2 * c).astype(result))
    spec = mx.epilogue.relu(bias=c[0])
    expected = np.maximum(np.broadcast_to(c[0], (3, 5)), 0).astype(result)
    assert same(product(a, b, precision=row.precision, epilogue=spec, out=out), expected)


@each_row
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_rows_or_no_columns_do_nothing(row: Configuration, shape: tuple[int, int]) -> None:
    source, result = kinds(row)
    a, b = np.ones((shape[0], 7), source), np.ones((7, shape[1]), source)
    c, out = np.ones(shape, result), np.empty(shape, result)
    found = product(a, b, c, alpha=2, beta=3, precision=row.precision, out=out, verify="full")
    assert found is out
    assert product(a, b, precision=row.precision).shape == shape
    batched = product(np.ones((0, *a.shape), source), b, precision=row.precision)
    assert (batched.shape, batched.dtype) == ((0, *shape), result)


# 2. beta = 0 never reads C


EPILOGUES = {
    "identity": mx.epilogue.identity,
    "relu": mx.epilogue.relu,
    "clamp": lambda **arrays: mx.epilogue.clamp(-1, 1, **arrays),
    "gelu": mx.epilogue.gelu,
    "silu": mx.epilogue.silu,
}


@each_float_row
@pytest.mark.parametrize("name", EPILOGUES)
def test_c_full_of_nan_and_inf_is_not_read_in_any_epilogue(row: Configuration, name: str) -> None:
    source, result = kinds(row)
    a, b = small_integers(str(source), (17, 19), 2), small_integers(str(source), (19, 9), 3)
    c = np.full((17, 9), np.nan).astype(result)
    spec = EPILOGUES[name](bias=small_integers("float32", (9,), 4))
    with_c = product(a, b, c, alpha=1.2, beta=0, precision=row.precision, epilogue=spec)
    assert same(with_c, product(a, b, alpha=1.2, precision=row.precision, epilogue=spec))
    assert np.isfinite(with_c.astype(float)).all()


# 3. alpha = 1.2, beta = 2 on sizes with several tiles along each axis; 9. no size a multiple of a tile


@each_row
def test_scalars_on_odd_sizes(row: Configuration) -> None:
    source, result = kinds(row)
    sizes = (100, 37, 129) if row.is_integer else (33, 37, 129)
    m, n, k = sizes
    a, b = small_integers(str(source), (m, k), 5, 4), small_integers(str(source), (k, n), 6, 4)
    c = small_integers(str(result), (m, n), 7, 4)
    alpha = 3 if row.is_integer else 1.2
    found = outcome(a, b, c, alpha=alpha, beta=2, precision=row.precision, verify="full")
    assert found.certificate is not None
    assert found.certificate.passed
    # Every sum is exact here, so that only alpha·P and the addition round.
    exact = a.astype(np.int64) @ b.astype(np.int64)
    if row.is_integer:
        assert same(found.array, (alpha * exact + 2 * c.astype(np.int64)).astype(result))
    else:
        accumulator = np.dtype(row.accumulator).type
        p = exact.astype(accumulator)
        expected = accumulator(alpha) * p + accumulator(2) * c.astype(accumulator)
        assert same(found.array, expected.astype(result))


# 4. The same call twice


@each_row
def test_the_same_call_twice_gives_the_same_bits(row: Configuration) -> None:
    source, result = kinds(row)
    a, b = values(str(source), (5, 150), 8), values(str(source), (150, 3), 9)
    first = product(a, b, alpha=3, precision=row.precision)
    poisoned = np.full((5, 3), 77).astype(result)
    assert same(product(a, b, alpha=3, precision=row.precision, out=poisoned), first)


# 5. Partial sums stay in the accumulator's type


@pytest.mark.parametrize(("dtype", "base"), [("float16", 2048), ("bfloat16", 256)])
def test_sums_of_chains_stay_in_float32(dtype: str, base: int) -> None:
    kind = numpy_type(dtype)
    a, b = np.zeros((1, 8193), kind), np.ones((8193, 1), kind)
    a[0, 0], a[0, 1], a[0, 8192] = base, 1, 1
    assert kind.type(base) + kind.type(1) == base  # what a 16-bit sum of the first chain would lose
    assert product(a, b, precision="native", out_dtype="float32")[0, 0] == base + 2
    assert product(a, b, precision="native")[0, 0] == base + 2


# 6. Sizes of 1


@each_row
def test_sizes_of_1_in_every_combination_with_bias(row: Configuration) -> None:
    source, result = kinds(row)
    for m, n, k in combinations((1, 3), (1, 3), (1, 2)):
        a, b = small_integers(str(source), (m, k), m, 1), small_integers(str(source), (k, n), n + 5, 1)
        c, bias = small_integers(str(result), (m, n), 11, 1), small_integers(str(result), (n,), 12, 1)
        spec = mx.epilogue.identity(bias=bias)
        found = product(a, b, c, alpha=2, beta=3, precision=row.precision, epilogue=spec)
        exact = 2 * (a.astype(int) @ b.astype(int)) + 3 * c.astype(int) + bias.astype(int)
        assert same(found, exact.astype(result)), (m, n, k)


# 7. Sizes and offsets beyond 16 and 31 bits


@each_row
def test_a_batch_above_65535(row: Configuration) -> None:
    source, result = kinds(row)
    a, b = (np.arange(65_537) % 15).astype(source)[:, None, None], np.array([[3]], source)
    found = product(a, b, alpha=2, precision=row.precision)
    assert np.array_equal(found, 6 * a.astype(result))


@pytest.mark.parametrize("axis", ["m", "n", "k"])
def test_one_axis_of_2_to_the_21_plus_1(axis: str) -> None:
    size = 2**21 + 1
    long, short = (np.arange(size) % 5).astype(np.int8), np.array([3], np.int8)
    exact = 3 * long.astype(int)
    if axis == "m":
        assert np.array_equal(product(long[:, None], short[:, None], precision="exact")[:, 0], exact)
    elif axis == "n":
        assert np.array_equal(product(short[:, None], long[None], precision="exact")[0], exact)
    else:
        assert product(long, long, precision="exact") == (long.astype(int) ** 2).sum()


@pytest.mark.parametrize("which", ["a", "b", "c", "out"])
def test_offsets_above_2_to_the_31_in_each_operand(which: str) -> None:
    far = 2**31 + 7
    memory = np.zeros(far + 16, np.int8)  # zeroed pages that nobody touches take no memory
    arrays = {n: small_integers("int8", (2, 2), i, 9) for i, n in enumerate(("a", "b", "c", "out"))}
    expected = 2 * (arrays["a"].astype(int) @ arrays["b"]) + 3 * arrays["c"]
    strided = as_strided(memory, (2, 2), (far, 1))
    strided[...] = arrays[which]
    arrays[which] = strided
    out = arrays.pop("out")
    product(*arrays.values(), alpha=2, beta=3, precision="exact", out=out)
    assert np.array_equal(out, expected.astype(np.int8))


# 8. Alignment


@pytest.mark.parametrize("name", ["float16/native", "int8|uint8/exact", "float32/tf32", "bfloat16/scalar"])
@pytest.mark.parametrize("which", ["a", "b", "c", "out", "bias"])
@pytest.mark.parametrize("layout", ["one past a boundary", "two past a boundary"])
def test_a_base_pointer_past_a_16_byte_boundary(name: str, which: str, layout: str) -> None:
    row = next(row for row in ROWS if row.name == name)
    source, result = kinds(row)
    shapes = {"a": (5, 7), "b": (7, 3), "c": (5, 3), "out": (5, 3), "bias": (3,)}
    types = {"a": source, "b": source}
    arrays = {
        n: small_integers(str(types.get(n, result)), shape, i) for i, (n, shape) in enumerate(shapes.items())
    }
    plain = {n: x.copy() for n, x in arrays.items()}
    arrays[which] = laid_out(arrays[which], layout)
    assert arrays[which].ctypes.data % 16 == arrays[which].itemsize * (1 if layout.startswith("one") else 2)

    def run(x: dict[str, Array]) -> Array:
        spec = mx.epilogue.identity(bias=x["bias"])
        found: Array = product(
            x["a"], x["b"], x["c"], alpha=2, beta=3, out=x["out"], epilogue=spec, precision=row.precision
        )
        return found.copy()

    assert same(run(arrays), run(plain))


@each_row
def test_odd_leading_dimensions_and_a_batch_stride_that_is_no_multiple_of_8(row: Configuration) -> None:
    source, result = kinds(row)
    flat = small_integers(str(source), (3 * 37 + 60,), 13, 1)
    size, memory = flat.itemsize, flat.view(np.uint8).data
    a = np.ndarray((3, 5, 3), source, memory, 0, (37 * size, 7 * size, size))
    b = np.ndarray((3, 3, 5), source, memory, size, (23 * size, size, 3 * size))
    exact = 2 * np.matmul(a.astype(int), b.astype(int))
    assert same(product(a, b, alpha=2, precision=row.precision), exact.astype(result))


# 9. K below a tile


@each_row
def test_8_ones_are_8(row: Configuration) -> None:
    source, result = kinds(row)
    a, b = np.ones((2, 8), source), np.ones((8, 2), source)
    assert same(product(a, b, precision=row.precision), np.full((2, 2), 8, result))


# 12. Inf and NaN


@each_float_row
def test_inf_by_finite_stays_inf_and_the_rest_is_nan(row: Configuration) -> None:
    source, result = kinds(row)
    inf, nan = np.inf, np.nan
    cases: list[tuple[list[float], list[float], float]] = [
        ([inf, 1], [2, 3], inf),
        ([inf, 1], [-2, 3], -inf),
        ([1, -inf], [2, 3], -inf),
        ([2, 1], [-inf, 3], -inf),
        ([inf, inf], [2, -2], nan),
        ([inf, -inf], [1, 1], nan),
        ([0, 1], [inf, 1], nan),
        ([inf, 1], [0, 1], nan),
        ([0, 1], [nan, 1], nan),
        ([nan, 1], [0, 1], nan),
        ([nan, inf], [1, 1], nan),
        ([inf, inf], [1, 2], inf),
        ([inf, inf], [inf, -inf], nan),
    ]
    for k in (2, 70):  # the specials in the first chain or past it
        for x, y, expected in cases:
            a, b = np.ones((3, k), source), np.ones((k, 2), source)
            a[1, -2:], b[-2:, 0] = x, y
            found = product(a, b, precision=row.precision)
            assert same(found[1:2, :1], np.array([[expected]]).astype(result)), (x, y)
            assert np.isfinite(found[0, 1].astype(float))


@each_float_row
def test_a_nan_in_one_row_stays_in_that_row(row: Configuration) -> None:
    source, _ = kinds(row)
    a, b = np.ones((3, 20), source), np.ones((20, 4), source)
    a[1, 7] = np.nan
    assert np.isnan(product(a, b, precision=row.precision).astype(float)).sum(axis=1).tolist() == [0, 4, 0]


# 13. Subnormals


@each_float_row
def test_subnormal_operands_are_kept(row: Configuration) -> None:
    source, _ = kinds(row)
    least = {"float8_e5m2": 2.0**-16, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}
    tiny = least.get(str(source), 2.0**-1074)
    if row.precision in ("f16", "bf16", "tf32", "f16x3", "bf16x3", "tf32x3", "bf16x6", "bf16x9"):
        # What the operand format still holds.
        tiny = {"f16": 2.0**-24, "bf16": 2.0**-133, "tf32": 2.0**-136}[str(row.unit)]
    a, b = np.full((1, 3), tiny).astype(source), np.array([[4.0], [8.0], [16.0]]).astype(source)
    assert a[0, 0] == tiny
    found = product(a, b, precision=row.precision, out_dtype=row.accumulator)
    assert found[0, 0] == 28 * tiny


# Operands within float16's range have no product below float32's, hence not f16.
@pytest.mark.parametrize("row", [r for r in FLOAT_ROWS if r.precision != "f16"], ids=lambda row: row.name)
def test_subnormal_results_are_kept(row: Configuration) -> None:
    source, _ = kinds(row)
    small = 2.0 ** {"float8_e5m2": -14, "float16": -14, "float64": -530}.get(str(source), -70)
    a, b = np.array([[small]]).astype(source), np.array([[small]]).astype(source)
    alpha = {2.0**-70: 2.0**-4, 2.0**-530: 2.0**-10}.get(small, 2.0**-116)
    out_dtype = "float64" if str(source) == "float64" else "float32"
    found = product(a, b, alpha=alpha, precision=row.precision, out_dtype=out_dtype)
    assert found[0, 0] == small * small * alpha
    assert 0 < found[0, 0] < np.finfo(out_dtype).tiny


# 14. float32 stays float32


def test_float32_is_not_rounded_without_consent() -> None:
    arange = np.arange(2049, 2049 + 25, dtype=F32).reshape(5, 5) * F32(1 + 2.0**-23)
    eye = np.eye(5, dtype=F32)
    assert same(product(eye, arange), arange)
    for precision in ("f16", "bf16", "tf32"):
        assert not same(product(eye, arange, precision=precision), arange)
    for precision in ("bf16x9", "f64"):
        assert same(product(eye, arange, precision=precision), arange)


# 15. Integers in every type


@each_row
def test_small_integers_are_bit_equal_in_every_type(row: Configuration) -> None:
    source, result = kinds(row)
    a, b = small_integers(str(source), (9, 133), 14, 1), small_integers(str(source), (133, 7), 15, 1)
    a[:, 16:][:, ::5] = 0
    exact = a.astype(np.int64) @ b.astype(np.int64)
    assert same(product(a, b, precision=row.precision), exact.astype(result))


@pytest.mark.parametrize("precision", ["exact", "scalar"])
def test_int8_wraps_like_the_integers_it_stands_for(precision: str) -> None:
    k = 65536 * 3
    a = np.full((1, k), -128, np.int8)
    assert product(a, a, transpose_b=True, precision=precision)[0, 0] == 3 * 2**30 - 2**32
    assert product(a, a, transpose_b=True, precision=precision, out_dtype="int64")[0, 0] == 3 * 2**30


@pytest.mark.parametrize("precision", ["exact", "scalar"])
def test_uint8_by_int8_at_its_extremes(precision: str) -> None:
    a, b = np.full((2, 1000), 255, np.uint8), np.full((1000, 2), -128, np.int8)
    assert (product(a, b, precision=precision) == -255 * 128 * 1000).all()
    assert (product(b.T, a.T, precision=precision) == -255 * 128 * 1000).all()


@pytest.mark.parametrize("precision", ["exact", "scalar"])
def test_uint32_above_2_to_the_31(precision: str) -> None:
    a, b = np.array([[2**31 + 5, 2**32 - 1]], np.uint32), np.array([[3], [1]], np.uint32)
    exact = 3 * (2**31 + 5) + 2**32 - 1
    assert product(a, b, precision=precision)[0, 0] == exact % 2**32
    assert product(a, b, precision=precision, out_dtype="uint64")[0, 0] == exact


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32"])
def test_64_bit_results_at_k_of_70000(dtype: str) -> None:
    k = 70_000
    a, b = values(dtype, (2, k), 16), values(dtype, (k, 2), 17)
    a[0], b[:, 0] = np.iinfo(dtype).max, np.iinfo(dtype).max
    exact = a.astype(object) @ b.astype(object)
    out_dtype = "int64" if dtype == "int32" else dtype
    assert same(product(a, b, precision="exact", out_dtype=out_dtype), wrapped(exact, out_dtype))


# 16. Zeros stay exactly zero where the configuration is accurate entry by entry


@each_float_row
def test_exact_zeros_come_out_as_zeros(row: Configuration) -> None:
    source, _ = kinds(row)
    rng = np.random.default_rng(18)
    a, b = (rng.uniform(-4, 4, shape).astype(source) for shape in ((4, 70), (70, 4)))
    a[1], b[:, 2] = 0, 0
    found = product(a, b, precision=row.precision).astype(float)
    assert (found[1] == 0).all()
    assert (found[:, 2] == 0).all()
    assert (found[0, :2] != 0).all()


# 17. Shapes and types that are not products


@pytest.mark.parametrize("dtype", [object, bool, complex, np.complex64, "U3", "S3", "datetime64[s]", "V4"])
@pytest.mark.parametrize("side", ["A", "B"])
def test_other_element_types_are_refused_by_name(dtype: Any, side: str) -> None:
    bad, good = np.empty((2, 2), dtype), np.ones((2, 2), F32)
    with pytest.raises(mx.DTypeError) as caught:
        product(*((bad, good) if side == "A" else (good, bad)))
    assert str(caught.value).startswith(f"{side} has element type {np.dtype(dtype)}")


@pytest.mark.parametrize("dtype", [np.longdouble, ml_dtypes.int4, ml_dtypes.float8_e4m3b11fnuz])
def test_types_that_look_alike_are_refused_by_name(dtype: Any) -> None:
    with pytest.raises(mx.DTypeError, match="A has element type"):
        product(np.ones((2, 2), dtype), np.ones((2, 2), dtype))


@pytest.mark.parametrize("bad", [np.float32(2), 2.0, np.ones((), F32)])
@pytest.mark.parametrize("side", ["A", "B"])
def test_0_d_operands_are_refused_as_by_matmul(bad: Any, side: str) -> None:
    good = np.ones((2, 2), F32)
    with pytest.raises(ValueError, match="matmul"):
        np.matmul(*((bad, good) if side == "A" else (good, bad)))
    with pytest.raises(mx.ShapeError, match=side):
        product(*((bad, good) if side == "A" else (good, bad)))


@pytest.mark.parametrize("bad", [[[1.0, 2.0]], "ab", None, {"a": 1}, object()])
def test_things_that_are_no_arrays_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(mx.UnsupportedError, match="A is"):
        product(bad, np.ones((2, 2), F32))


def test_masked_arrays_and_matrices_are_refused_by_name() -> None:
    good = np.ones((2, 2), F32)
    masked = np.ma.masked_array(good, good > 0)
    with pytest.raises(mx.UnsupportedError, match="B is a masked array"):
        product(good, masked)
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(good)
    with pytest.raises(mx.UnsupportedError, match=r"A is a numpy\.matrix"):
        product(matrix, good)


# 18. The same call from many threads, and after a fork


def test_the_same_call_from_8_threads() -> None:
    barrier = threading.Barrier(8)
    for name in ("float32/bf16x3", "float32/scalar", "int32/exact", "float64/native"):
        dtype, precision = name.split("/")
        a, b = values(dtype, (20, 80), 20), values(dtype, (80, 20), 21)
        expected = product(a, b, precision=precision)
        outs = [np.empty_like(expected) for _ in range(8)]

        def call(out: Array, a: Array = a, b: Array = b, precision: str = precision) -> None:
            barrier.wait()
            mx.gemm(a, b, out=out, precision=precision)

        with under(generous()):
            threads = [threading.Thread(target=call, args=(out,)) for out in outs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for out in outs:
            assert same(out, expected)


def _in_a_child(results: Any, a: Array, b: Array) -> None:
    results.put(product(a, b, precision="bf16x6"))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_the_same_call_after_a_fork() -> None:
    a, b = values("float32", (5, 70), 22), values("float32", (70, 3), 23)
    expected = product(a, b, precision="bf16x6")
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_in_a_child, args=(results, a, b))
    child.start()
    found = results.get()
    child.join()
    assert child.exitcode == 0
    assert same(found, expected)
