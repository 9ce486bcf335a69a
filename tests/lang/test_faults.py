"""Each fault of a kernel is an error with its line, block and thread; the kernel without it runs."""

import re
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from tests.lang.running import function, interpret


def run(body: str, *arguments: Any, grid: Any = 2, block: Any = 64, shared: int = 0) -> None:
    lines = [f"    {line}" for line in body.strip().splitlines()]
    names = ", ".join("abcd"[: len(arguments)])
    kernel = cuda.jit(function("\n".join([f"def kernel({names}):", *lines]) + "\n"))
    interpret(kernel, grid, block, *arguments, shared=shared)


def fault(
    kind: type[cuda.KernelFaultError], body: str, *arguments: Any, **options: Any
) -> cuda.KernelFaultError:
    with pytest.raises(kind) as caught:
        run(body, *arguments, **options)
    return caught.value


def floats(n: int = 128) -> Any:
    return np.zeros(n, np.float32)


def test_an_index_out_of_bounds_names_array_line_block_and_thread() -> None:
    error = fault(cuda.OutOfBoundsError, "i = cuda.grid(1)\na[i] = 1", floats(100))
    assert error.lineno == 3
    assert (error.block, error.thread) == ((1, 0, 0), (36, 0, 0))
    assert re.search(r"index 100 of axis 0 is outside .* extent there is 100", str(error))


def test_a_negative_index_below_the_start_is_out_of_bounds() -> None:
    run("a[-1] = 1", floats(5))
    error = fault(cuda.OutOfBoundsError, "a[-6] = 1", floats(5))
    assert "index -6" in str(error)


def test_a_guarded_index_is_not_out_of_bounds() -> None:
    run("i = cuda.grid(1)\nif i < a.size:\n    a[i] = 1", floats(100))
    run("i = cuda.grid(1)\nx = a[i] if i < 100 else 0\nif i < 100 and a[i] == x:\n    a[i] = x", floats(100))


def test_a_read_of_an_unwritten_row_is_found_in_local_and_shared_arrays() -> None:
    for space in ("local", "shared"):
        error = fault(
            cuda.UninitialisedReadError, f"t = cuda.{space}.array(4, cuda.float32)\na[0] = t[2]", floats()
        )
        assert error.lineno == 3


def test_a_variable_that_some_threads_never_assigned_is_found() -> None:
    body = "i = cuda.grid(1)\nif i > 70:\n    x = 1.0\na[i] = x"
    error = fault(cuda.UninitialisedReadError, body, floats())
    assert (error.lineno, error.block, error.thread) == (5, (0, 0, 0), (0, 0, 0))
    run("i = cuda.grid(1)\nif i > 70:\n    x = 1.0\nelse:\n    x = 2.0\na[i] = x", floats())


@pytest.mark.parametrize("operator", ["//", "%"])
def test_an_integer_division_by_zero_is_found(operator: str) -> None:
    error = fault(cuda.DivisionByZeroError, f"i = cuda.grid(1)\na[i] = 7 {operator} (i - 65)", floats())
    assert (error.lineno, error.block, error.thread) == (3, (1, 0, 0), (1, 0, 0))
    run(f"i = cuda.grid(1)\nif i != 65:\n    a[i] = 7 {operator} (i - 65)", floats())


def test_a_barrier_that_some_threads_do_not_reach_is_found() -> None:
    error = fault(cuda.DivergentBarrierError, "if cuda.threadIdx.x < 40:\n    cuda.syncthreads()", floats())
    assert (error.lineno, error.thread) == (3, (40, 0, 0))
    assert "40 of 64 threads" in str(error)


def test_a_barrier_after_an_early_return_is_divergent() -> None:
    body = "if cuda.grid(1) >= 100:\n    return\ncuda.syncthreads()"
    assert fault(cuda.DivergentBarrierError, body, floats()).block == (1, 0, 0)


def test_a_barrier_that_whole_blocks_skip_is_fine() -> None:
    run("if cuda.blockIdx.x == 0:\n    cuda.syncthreads()", floats())


REVERSE = """s = cuda.shared.array(64, cuda.float32)
t = cuda.threadIdx.x
s[t] = t
cuda.syncthreads()
a[t] = s[63 - t]
"""


def test_a_race_is_found_when_the_barrier_is_taken_away() -> None:
    run(REVERSE, floats())
    error = fault(cuda.RaceError, REVERSE.replace("cuda.syncthreads()\n", ""), floats())
    assert error.lineno == 5
    assert "linear thread" in str(error)


def test_a_write_after_another_threads_read_is_a_race() -> None:
    body = REVERSE + "s[t] = 0"
    assert fault(cuda.RaceError, body, floats()).lineno == 7
    run(REVERSE + "cuda.syncthreads()\ns[t] = 0", floats())


def test_several_threads_may_write_one_value_and_not_two() -> None:
    body = "s = cuda.shared.array(1, cuda.int32)\ns[0] = {}\ncuda.syncthreads()\na[cuda.threadIdx.x] = s[0]"
    run(body.format(5), floats())
    fault(cuda.RaceError, body.format("cuda.threadIdx.x"), floats())
    text = str(fault(cuda.RaceError, body.format("5\ns[0] = 5"), floats()))
    assert "writes an element that several threads write without" in text


def test_threads_of_a_warp_may_exchange_across_syncwarp_and_of_two_warps_not() -> None:
    body = REVERSE.replace("cuda.syncthreads()", "cuda.syncwarp()").replace("63 - t", "{}")
    run(body.format("t ^ 1"), floats())
    fault(cuda.RaceError, body.format("t ^ 1").replace("cuda.syncwarp()", "t = t"), floats())
    fault(cuda.RaceError, body.format("(t + 32) % 64"), floats())


def test_atomics_do_not_race_with_each_other_and_do_with_plain_access() -> None:
    start = "s = cuda.shared.array(1, cuda.int32)\ns[0] = 0\ncuda.syncthreads()\n"
    body = start + "cuda.atomic.add(s, 0, 1)\n{}a[0] = s[0]"
    array = floats()
    run(body.format("cuda.syncthreads()\n"), array)
    assert array[0] == 64
    fault(cuda.RaceError, body.format(""), floats())


def test_a_shuffle_from_a_lane_that_is_away_is_found() -> None:
    body = "t = cuda.threadIdx.x\nif t < 16:\n    a[t] = cuda.shfl_sync({}, t, {})"
    run(body.format("0xFFFF", "t"), floats())
    fault(cuda.DivergentBarrierError, body.format("0xFFFF", "31"), floats())
    fault(cuda.DivergentBarrierError, body.format("0xFFFFFFFF", "t"), floats())


def test_a_zero_step_is_found() -> None:
    assert "step of range" in str(
        fault(cuda.KernelFaultError, "for k in range(0, 5, b):\n    a[k] = 1", floats(), 0)
    )


def test_faults_in_a_device_function_name_its_line() -> None:
    called = "@cuda.jit(device=True)\ndef f(x, i):\n    return x[i + 1]\n"
    text = called + "def kernel(a):\n    a[0] = f(a, cuda.grid(1))\n"
    with pytest.raises(cuda.OutOfBoundsError) as caught:
        interpret(cuda.jit(function(text)), 2, 64, floats())
    assert caught.value.lineno == 3


def test_more_shared_memory_than_any_gpu_has_is_refused() -> None:
    body = "s = cuda.shared.array(16, cuda.float64)\nd = cuda.shared.array(0, cuda.float64)\na[0] = len(d)"
    run(body, floats(), shared=232448 - 128)
    with pytest.raises(ValueError, match="232449 bytes of shared memory"):
        run(body, floats(), shared=232448 - 127)
