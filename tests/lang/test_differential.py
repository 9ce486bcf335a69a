"""Random kernels: the interpreter against a plain thread-by-thread evaluation, and the GPU against it."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mxgemm import cuda
from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.cuda_source import cuda_source
from mxgemm.lang.runtime import use
from tests.lang import evaluate, host_compiled
from tests.lang.kernels_at_random import BLOCKS, THREADS, arrays, kernels
from tests.lang.running import difference, function, interpret


def outputs(data: dict[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in data.items() if name.startswith("o_")}


@given(source=kernels(), seed=st.integers(0, 2**16))
@settings(max_examples=40)
def test_the_interpreter_equals_a_thread_by_thread_evaluation_bit_for_bit(source: str, seed: int) -> None:
    data, expected = arrays(seed), arrays(seed)
    interpret(cuda.jit(function(source)), BLOCKS, THREADS, *data.values())
    evaluate.run(source, expected, BLOCKS, THREADS)
    for name, array in outputs(data).items():
        found = difference(name, array, expected[name])
        assert found is None, f"{found}\n{source}"


def test_generated_c_on_the_host_equals_the_interpreter_bit_for_bit(tmp_path: Path) -> None:
    """The same C that a GPU gets, but for two PTX conversions, where a C++ compiler is installed."""
    compiler = host_compiled.compiler_for(tmp_path)
    if compiler is None:
        pytest.skip("no C++ compiler with half precision")
    numbers = itertools.count()

    @given(source=kernels(shared=False), seed=st.integers(0, 2**16))
    @settings(max_examples=8, phases=[Phase.generate])
    def compare(source: str, seed: int) -> None:
        data, expected = arrays(seed), arrays(seed)
        kernel = cuda.jit(function(source))
        interpret(kernel, BLOCKS, THREADS, *expected.values())
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        host_compiled.run(
            compiler, folder, cuda_source(kernel.ir()), list(data.values()), blocks=BLOCKS, threads=THREADS
        )
        for name, array in outputs(data).items():
            found = difference(name, array, expected[name])
            assert found is None, f"{found}\n{source}"

    compare()


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
