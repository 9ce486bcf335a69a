"""Kernels as people write them: the interpreter against NumPy, the GPU and Numba against the interpreter."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxgemm.lang.cuda_backend import CudaBackend
from mxgemm.lang.runtime import use
from tests.lang import written_kernels
from tests.lang.cases import CASES, Case
from tests.lang.running import difference, interpret

by_name = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def arguments(case: Case) -> tuple[Any, ...]:
    return case.arguments(np.random.default_rng(7))


def interpreted(case: Case) -> Any:
    values = arguments(case)
    interpret(getattr(written_kernels, case.name), case.grid, case.block, *values)
    return values[case.output]


@by_name
def test_the_interpreter_gives_numpys_result(case: Case) -> None:
    expected = np.asarray(case.expected(*arguments(case)))
    assert np.array_equal(interpreted(case), expected)


@pytest.mark.gpu
@by_name
def test_the_gpu_gives_the_interpreters_bits(case: Case) -> None:
    values = arguments(case)
    with use(CudaBackend()):
        getattr(written_kernels, case.name)[case.grid, case.block](*values)
    found = difference(case.name, values[case.output], interpreted(case))
    assert found is None, found


def numba_kernels() -> dict[str, Any]:
    """The same file with Numba's import."""
    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010 — removed in NumPy 2.5; numba-cuda 0.30 still names it
    pytest.importorskip("numba.cuda", reason="Numba is not installed")
    path = Path(written_kernels.__file__)
    text = path.read_text().replace("from mxgemm import cuda", "from numba import cuda")
    namespace: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), namespace)  # noqa: S102  # a file of these tests
    return namespace


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # Numba warns of small grids and of deprecated names
@pytest.mark.parametrize("case", [c for c in CASES if not c.contracts], ids=lambda case: case.name)
def test_numba_gives_the_same_result(case: Case) -> None:
    values = arguments(case)
    numba_kernels()[case.name][case.grid, case.block](*values)
    found = difference(case.name, values[case.output], interpreted(case))
    assert found is None, found
