"""The public face ``mxgemm.cuda``: names, where kernels run, sessions, and what is refused."""

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.errors import PerformanceAdvice, UnsupportedError
from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.functions import FUNCTIONS
from mxgemm.lang.interpreter_backend import InterpreterBackend
from mxgemm.lang.refused import REFUSED
from mxgemm.lang.runtime import use
from mxgemm.lang.types import NUMBA_NAMES
from tests.lang.running import function, interpret

ROOT = Path(__file__).parents[1]
SESSION = """
from mxgemm import cuda
import numpy as np
@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

x = np.arange(5.0)
double[1, 32](x)
print(x.tolist())
"""


def python(*arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *arguments],
        input=text,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_name_in_all_exists_and_words_have_their_attributes() -> None:
    for name in cuda.__all__:
        assert getattr(cuda, name) is not None
    for word in ("threadIdx.x", "shared.array", "local.array", "const.array_like", "atomic.add"):
        family, _, member = word.partition(".")
        assert getattr(getattr(cuda, family), member).name == word
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = cuda.no_such_name


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_numba_has_and_this_has_not_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"cuda\.{name} is not supported"):
        getattr(cuda, name)
    assert not hasattr(cuda, name)


#: Names that ``dir(numba.cuda)`` lists and that are parts of its implementation.
INTERNAL = {
    "Dim3", "HAS_NUMBA", "alias", "config_default_cc", "cuda_error", "dim3", "implementation",
    "numba_cuda_default_ptx_cc", "prepare_shape_strides_dtype", "runtime",
}  # fmt: skip


def test_every_public_name_of_numba_works_or_is_refused_by_name() -> None:
    names = (ROOT / "tests" / "lang" / "data" / "numba_names.txt").read_text().split()
    assert len(names) == 275
    assert {n for n in names if n not in REFUSED and not hasattr(cuda, n)} == INTERNAL


def test_numbas_other_names_of_the_element_types_are_the_types() -> None:
    for name, scalar in NUMBA_NAMES.items():
        assert getattr(cuda, name) is getattr(cuda, scalar)
    assert cuda.f4(0.1) == np.float32(0.1)


def test_kernels_run_from_the_command_line_and_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "session.py").write_text(SESSION)
    for arguments in (("-c", SESSION), (str(tmp_path / "session.py"),)):
        done = python(*arguments, MXGEMM_INTERPRETER="1")
        assert done.stdout == "[0.0, 2.0, 4.0, 6.0, 8.0]\n", done.stderr


def test_kernels_run_in_a_notebooks_cell() -> None:
    x = np.arange(3.0)
    cell = "@cuda.jit\ndef cell(x):\n    x[cuda.grid(1)] += 1\n"
    interpret(function(cell, "cell"), 1, 3, x)
    assert x.tolist() == [1, 2, 3]


def test_without_a_gpu_the_module_says_once_that_it_interprets(no_device: str | None) -> None:
    if no_device is None:
        pytest.skip("a device is here")
    text = (
        "import warnings\nfrom mxgemm import cuda\nfrom mxgemm.errors import PerformanceAdvice\n"
        "with warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always')\n"
        "    cuda.to_device([1.0]); cuda.device_array(3); cuda.synchronize()\n"
        "print([w.category is PerformanceAdvice for w in seen], cuda.is_available())\n"
    )
    assert python("-c", text, MXGEMM_INTERPRETER="").stdout == "[True] False\n"
    assert python("-c", text, MXGEMM_INTERPRETER="1").stdout == "[] False\n"
    assert issubclass(PerformanceAdvice, UserWarning)


def test_the_environment_variable_takes_1_or_0() -> None:
    done = python("-c", "from mxgemm import cuda\ncuda.device_array(3)", MXGEMM_INTERPRETER="yes")
    assert "MXGEMM_INTERPRETER='yes'" in done.stderr


def test_importing_the_dialect_imports_no_device_library() -> None:
    libraries = "('cuda', 'cupy', 'torch', 'numba')"
    text = f"import sys\nimport mxgemm.cuda\nprint([m for m in {libraries} if m in sys.modules])"
    assert python("-c", text).stdout == "[]\n"


def test_streams_events_and_devices_exist_on_the_interpreter() -> None:
    with use(InterpreterBackend()):
        stream = cuda.stream()
        start, end = cuda.event(), cuda.event()
        start.record(stream)
        end.record(stream)
        end.synchronize()
        start.wait(stream)
        assert start.query()
        assert cuda.event_elapsed_time(start, end) >= 0
        assert start.elapsed_time(end) >= 0
        stream.synchronize()
        cuda.synchronize()
        cuda.default_stream().synchronize()
        cuda.select_device(0)
        with pytest.raises(UnsupportedError, match="device 1"):
            cuda.select_device(1)
        with pytest.raises(UnsupportedError, match="two recorded events"):
            cuda.event().elapsed_time(end)


def test_device_functions_may_be_kernels_of_other_modules_and_take_keywords() -> None:
    text = (
        "@cuda.jit(device=True)\ndef scale(value, factor):\n    return value * factor\n\n"
        "def kernel(x):\n    i = cuda.grid(1)\n    x[i] = scale(factor=3, value=x[i])\n"
    )
    x = np.arange(4.0)
    interpret(cuda.jit(function(text)), 1, 4, x)
    assert x.tolist() == [0, 3, 6, 9]


def test_device_functions_take_tuples_and_functions() -> None:
    text = (
        "@cuda.jit(device=True)\ndef put(update, array, index, value):\n    update(array, index, value)\n\n"
        "@cuda.jit(device=True)\ndef total(pair):\n    return pair[0] + pair[1]\n\n"
        "def kernel(x):\n    i, j = cuda.grid(2)\n    put(cuda.atomic.add, x, (i, j), total((i, j)))\n"
    )
    x = np.zeros((2, 3))
    interpret(cuda.jit(function(text)), 1, (2, 3), x)
    assert x.tolist() == [[0, 1, 2], [1, 2, 3]]


def test_dynamic_shared_memory_has_the_launchs_size() -> None:
    text = (
        "def kernel(out):\n    s = cuda.shared.array(0, cuda.float32)\n    t = cuda.threadIdx.x\n"
        "    s[t] = len(s)\n    cuda.syncthreads()\n    out[t] = s[cuda.blockDim.x - 1 - t]\n"
    )
    out = np.zeros(8)
    kernel = cuda.jit(function(text))
    interpret(kernel, 1, 8, out, shared=64)
    assert out.tolist() == [16] * 8
    with pytest.raises(cuda.OutOfBoundsError):
        interpret(kernel, 1, 8, out, shared=16)


def test_the_naive_product_of_256_cubed_is_the_exact_chain() -> None:
    from tests.lang import written_kernels

    rng = np.random.default_rng(3)
    a, b = (rng.random((64, 64), np.float32) for _ in "ab")
    c = np.zeros((64, 64), np.float32)
    interpret(written_kernels.matmul, (4, 4), (16, 16), a, b, c)
    expected = np.zeros((64, 64))
    for k in range(64):  # products are float32, the accumulator is float64
        expected += (a[:, k, None] * b[None, k, :]).astype(np.float64)
    assert np.array_equal(c, expected.astype(np.float32))


ULP_FUNCTIONS = [
    "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "atanh", "expm1", "log1p", "erf", "erfc", "gamma", "lgamma",
]  # fmt: skip


def library_kernel() -> Any:
    lines = [f"    y[{row}, i] = math.{name}(x[i])" for row, name in enumerate(ULP_FUNCTIONS)]
    return cuda.jit(function("def kernel(x, y):\n    i = cuda.grid(1)\n" + "\n".join(lines) + "\n"))


def exact(name: str, x: float) -> float:
    """The function's value to 40 digits, rounded to float64."""
    word = {"gamma": "gamma", "lgamma": "loggamma", "log2": "log", "log10": "log"}.get(name, name)
    with mpmath.workdps(40):
        value = getattr(mpmath, word)(mpmath.mpf(x))
        return float(value / mpmath.log({"log2": 2, "log10": 10}.get(name, mpmath.e)))


def ulps(computed: Any, name: str, x: Any) -> float:
    """Largest error in units in the last place of the computed type."""
    true = np.array([exact(name, float(v)) for v in x])
    return float(
        np.max(np.abs(computed.astype(np.float64) - true) / np.spacing(np.abs(computed)).astype(np.float64))
    )


def test_the_interpreters_library_functions_are_within_one_ulp_in_float32() -> None:
    x = np.random.default_rng(5).uniform(0.1, 0.9, 48).astype(np.float32)
    y = np.zeros((len(ULP_FUNCTIONS), 48), np.float32)
    interpret(library_kernel(), 1, 48, x, y)
    assert {
        name: ulps(row, name, x) for name, row in zip(ULP_FUNCTIONS, y, strict=True) if ulps(row, name, x) > 1
    } == {}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gpus_library_functions_stay_within_their_documented_ulps(dtype: str) -> None:
    x = np.random.default_rng(5).uniform(0.1, 0.9, 128).astype(dtype)
    y = np.zeros((len(ULP_FUNCTIONS), 128), dtype)
    with use(CudaBackend()):
        library_kernel()[1, 128](x, y)
    for name, row in zip(ULP_FUNCTIONS, y, strict=True):
        # The documented bound is of the true value; rounding that to float64 adds at most a half here.
        assert ulps(row, name, x) <= FUNCTIONS[name].ulp[dtype == "float64"] + 0.5, name


@pytest.mark.gpu
def test_device_arrays_meet_other_libraries_on_the_gpu() -> None:
    cupy = pytest.importorskip("cupy")
    with use(CudaBackend()):
        x = cuda.to_device(np.arange(6, dtype=np.float32))
        seen = cupy.asarray(x)
        seen += 1
        cupy.cuda.Stream.null.synchronize()
        assert x.copy_to_host().tolist() == [1, 2, 3, 4, 5, 6]
        assert cupy.from_dlpack(x[::2]).get().tolist() == [1, 3, 5]
        theirs = cupy.zeros(6, np.float32)
        kernel = cuda.jit(function("def kernel(x, y):\n    i = cuda.grid(1)\n    y[i] = math.sqrt(x[i])\n"))
        stream = cuda.stream()
        kernel[1, 6, stream](x, theirs)
        stream.synchronize()
        assert np.array_equal(theirs.get(), np.sqrt(np.arange(1, 7, dtype=np.float32)))
        assert math.isclose(float(cuda.as_cuda_array(theirs)[3]), 2.0)


@pytest.mark.gpu
def test_streams_events_and_pinned_memory_work_on_the_gpu() -> None:
    with use(CudaBackend()):
        host = cuda.pinned_array(1000, np.float64)
        host[:] = 2
        stream = cuda.stream()
        start, end = cuda.event(), cuda.event()
        x = cuda.to_device(host, stream=stream)
        start.record(stream)
        kernel = cuda.jit(
            function("def kernel(x):\n    i = cuda.grid(1)\n    if i < x.size:\n        x[i] *= x[i]\n")
        )
        kernel.forall(1000, stream=stream)(x)
        end.record(stream)
        assert x.copy_to_host(stream=stream).tolist() == [4.0] * 1000
        assert start.elapsed_time(end) > 0
        assert end.query()
