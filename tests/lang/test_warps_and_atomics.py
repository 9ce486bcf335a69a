"""Warp operations, votes, bit functions and atomics: plain definitions, the interpreter, and the GPU."""

import functools
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.runtime import use
from tests.lang.running import difference, function, interpret

FULL = "0xFFFFFFFF"
T = np.arange(64)
LANE = T % 32
VALUES = (T * 37) % 11
BALLOT = np.packbits(VALUES > 5, bitorder="little").view(np.uint32)

#: What each expression of ``v`` (VALUES) and ``t`` (the thread) gives, as NumPy says it.
EXPRESSIONS: dict[str, Any] = {
    f"cuda.shfl_sync({FULL}, v, 5)": VALUES[T - LANE + 5],
    f"cuda.shfl_up_sync({FULL}, v, 3)": np.where(LANE < 3, VALUES, np.roll(VALUES, 3)),
    f"cuda.shfl_down_sync({FULL}, v, 3)": np.where(LANE > 28, VALUES, np.roll(VALUES, -3)),
    f"cuda.shfl_xor_sync({FULL}, v, 6)": VALUES[T ^ 6],
    f"cuda.ballot_sync({FULL}, v > 5)": np.repeat(BALLOT, 32),
    f"cuda.any_sync({FULL}, t == 40)": T >= 32,
    f"cuda.all_sync({FULL}, t < 32)": T < 32,
    f"cuda.eq_sync({FULL}, t < 40)": T < 32,
    f"cuda.popc(cuda.match_any_sync({FULL}, v))": [np.sum(VALUES[w - w % 32 :][:32] == VALUES[w]) for w in T],
    f"cuda.match_all_sync({FULL}, t // 32)[0]": np.full(64, 2**32 - 1),
    f"cuda.match_all_sync({FULL}, v)[1]": np.zeros(64),
    "cuda.activemask()": np.full(64, 2**32 - 1),
    "cuda.lanemask_lt()": 2**LANE - 1,
    "cuda.laneid": LANE,
    "cuda.warpsize": np.full(64, 32),
    "cuda.syncthreads_count(v > 5)": np.full(64, np.sum(VALUES > 5)),
    "cuda.syncthreads_and(v >= 0)": np.ones(64),
    "cuda.syncthreads_or(v > 99)": np.zeros(64),
    "cuda.popc(t)": [int(t).bit_count() for t in T],
    "cuda.clz(t)": [32 - int(t).bit_length() for t in T],
    "cuda.ffs(t)": [(int(t) & -int(t)).bit_length() for t in T],
    "cuda.brev(cuda.uint32(t))": [int(f"{t:032b}"[::-1], 2) for t in T],
    "cuda.selp(t > 3, t, v)": np.where(T > 3, T, VALUES),
}  # fmt: skip


def kernel_of(expression: str) -> Any:
    text = f"def kernel(x, out):\n    t = cuda.threadIdx.x\n    v = x[t]\n    out[t] = {expression}\n"
    return cuda.jit(function(text))


@pytest.mark.parametrize("expression", sorted(EXPRESSIONS))
def test_warp_words_follow_their_definitions(expression: str) -> None:
    out = np.zeros(64, np.int64)
    interpret(kernel_of(expression), 1, 64, VALUES.astype(np.int32), out)
    assert out.tolist() == [int(x) for x in EXPRESSIONS[expression]]


@pytest.mark.gpu
def test_the_gpu_agrees_on_every_warp_word() -> None:
    for expression in EXPRESSIONS:
        out, expected = np.zeros(64, np.int64), np.zeros(64, np.int64)
        kernel = kernel_of(expression)
        interpret(kernel, 1, 64, VALUES.astype(np.int32), expected)
        with use(CudaBackend()):
            kernel[1, 64](VALUES.astype(np.int32), out)
        found = difference(expression, out, expected)
        assert found is None, found


def test_a_partial_mask_moves_among_its_own_lanes() -> None:
    text = (
        "def kernel(out):\n    t = cuda.threadIdx.x\n    if t < 8:\n"
        "        out[t] = cuda.ballot_sync(0xFF, t % 2 == 0) + cuda.shfl_xor_sync(0xFF, t, 1)\n"
    )
    out = np.zeros(64, np.int64)
    interpret(cuda.jit(function(text)), 1, 64, out)
    assert out[:8].tolist() == [0x55 + (t ^ 1) for t in range(8)]


ATOMICS = ("add", "sub", "max", "min", "and_", "or_", "xor", "exch", "inc", "dec", "nanmax", "nanmin")


def updated(operator: str, old: Any, v: Any) -> Any:
    """One update by its definition."""
    one = old.dtype.type(1)
    return {
        "add": lambda: old + v,
        "sub": lambda: old - v,
        "max": lambda: max(old, v),
        "min": lambda: min(old, v),
        "nanmax": lambda: max(old, v),
        "nanmin": lambda: min(old, v),
        "and_": lambda: old & v,
        "or_": lambda: old | v,
        "xor": lambda: old ^ v,
        "exch": lambda: v,
        "inc": lambda: old.dtype.type(0) if old >= v else old + one,
        "dec": lambda: v if old == 0 or old > v else old - one,
    }[operator]()


def final(operator: str, start: Any, values: Any) -> Any:
    """The value after all updates in lane order."""
    with np.errstate(over="ignore"):
        return functools.reduce(lambda old, v: updated(operator, old, v), values, start)


def supported(operator: str, dtype: str) -> bool:
    from mxgemm.lang.words import ATOMIC_TYPES

    return dtype in ATOMIC_TYPES[operator.rstrip("_")]


PAIRS = [
    (o, d)
    for o in ATOMICS
    for d in ("int32", "int64", "uint32", "uint64", "float32", "float64")
    if supported(o, d)
]


def updates(operator: str, dtype: str) -> tuple[Any, Any, Any]:
    """A kernel, its values (whole numbers: any order gives one sum) and the place that it updates."""
    order_free = operator not in ("exch", "inc", "dec")
    text = f"def kernel(x, a):\n    cuda.atomic.{operator}(a, 1, x[cuda.threadIdx.x])\n"
    values = VALUES.astype(dtype) if order_free else np.full(64, 7, dtype)
    return cuda.jit(function(text)), values, np.full(3, 5, dtype)


@pytest.mark.parametrize(("operator", "dtype"), PAIRS)
def test_atomics_update_as_if_one_after_the_other(operator: str, dtype: str) -> None:
    kernel, values, place = updates(operator, dtype)
    expected = final(operator, place[1], values)
    interpret(kernel, 1, 64, values, place)
    assert place.tolist() == [5, expected, 5]


@pytest.mark.gpu
def test_the_gpu_agrees_on_every_atomic() -> None:
    for operator, dtype in PAIRS:
        kernel, values, place = updates(operator, dtype)
        expected = final(operator, place[1], values)
        with use(CudaBackend()):
            kernel[1, 64](values, place)
        assert place.tolist() == [5, expected, 5], (operator, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_atomic_max_and_nanmax_treat_nan_as_numba_does(dtype: str) -> None:
    for operator, start, value, expected in (
        ("max", 1.0, np.nan, 1.0), ("nanmax", 1.0, np.nan, 1.0), ("nanmax", np.nan, 2.0, 2.0),
        ("max", np.nan, 2.0, np.nan), ("nanmin", np.nan, 2.0, 2.0), ("min", np.nan, 2.0, np.nan),
    ):  # fmt: skip
        kernel = cuda.jit(function(f"def kernel(a, v):\n    cuda.atomic.{operator}(a, 0, v)\n"))
        place = np.array([start], dtype)
        interpret(kernel, 1, 1, place, np.dtype(dtype).type(value))
        assert np.array_equal(place, np.array([expected], dtype), equal_nan=True), operator


def test_atomics_return_the_old_value_and_cas_swaps_where_it_expects() -> None:
    text = (
        "def kernel(a, old):\n    t = cuda.threadIdx.x\n    old[t] = cuda.atomic.add(a, 0, 1)\n"
        "    cuda.atomic.cas(a, t + 1, t, 100)\n    cuda.atomic.compare_and_swap(a, 64, 64)\n"
    )
    place, old = np.zeros(65, np.int32), np.zeros(64, np.int32)
    interpret(cuda.jit(function(text)), 1, 64, place, old)
    assert sorted(old) == list(range(64))
    assert place.tolist() == [64, 100] + [0] * 63
