"""Random kernels: the interpreter against a plain thread-by-thread evaluation, and the GPU against it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxgemm import cuda
from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.runtime import use
from tests.lang import evaluate
from tests.lang.kernels_at_random import BLOCKS, THREADS, arrays, kernels
from tests.lang.running import difference, function, interpret


def outputs(data: dict[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in data.items() if name.startswith("o_")}


@given(source=kernels(), seed=st.integers(0, 2**16))
@settings(max_examples=60)
def test_the_interpreter_equals_a_thread_by_thread_evaluation_bit_for_bit(source: str, seed: int) -> None:
    data, expected = arrays(seed), arrays(seed)
    interpret(cuda.jit(function(source)), BLOCKS, THREADS, *data.values())
    evaluate.run(source, expected, BLOCKS, THREADS)
    for name, array in outputs(data).items():
        found = difference(name, array, expected[name])
        assert found is None, f"{found}\n{source}"


@pytest.mark.gpu
@given(source=kernels(), seed=st.integers(0, 2**16))
@settings(max_examples=60)
def test_the_gpu_equals_the_interpreter_bit_for_bit(source: str, seed: int) -> None:
    data, expected = arrays(seed), arrays(seed)
    kernel = cuda.jit(function(source))
    interpret(kernel, BLOCKS, THREADS, *expected.values())
    with use(CudaBackend()):
        kernel[BLOCKS, THREADS](*data.values())
    for name, array in outputs(data).items():
        found = difference(name, array, expected[name])
        assert found is None, f"{found}\n{source}"
