"""What importing mxgemm brings along: nothing that a laptop without a GPU, or a quick script, would miss."""

import subprocess
import sys

import pytest

HEAVY = ("cupy", "torch", "jax", "cuda", "numba", "matplotlib", "rich", "jinja2", "scipy")


def modules_after(statement: str) -> set[str]:
    """Return the top-level modules loaded after `statement` in a fresh interpreter."""
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize("statement", ["import mxgemm", "import mxgemm.cli"])
def test_importing_brings_no_optional_library(statement: str) -> None:
    assert modules_after(statement) & set(HEAVY) == set()


# Lowers a product of two matrices on sm_90, and imports what compiles and launches its kernel.
FIRST_PRODUCT = """
import sys
from mxgemm import gpu, warm_launches
from mxgemm.configs import configurations_for
from mxgemm.device import kernel, launcher
from mxgemm.kernels import lower
from mxgemm.problem import Operand, pose

dtype, precision, columns = sys.argv[1], sys.argv[2], int(sys.argv[3])
operand = Operand(dtype, (512, 512), (columns, 1))
problem, _ = pose(operand, operand, None)
(row,) = [row for row in configurations_for(dtype, dtype) if row.precision == precision]
found = lower(problem, row, "sm_90")
list(found.launches({"a": 1 << 20, "b": 1 << 30, "d": 1 << 40}, workspace=1 << 50, flags=1 << 60))
print(*sys.modules)
"""
FAMILIES = {
    "wgmma": {f"hopper.{name}" for name in ("instance", "model", "selection", "tiles", "wgmma")},
    "mma.sync": {"mma_sync"},
    "scalar": {"scalar"},
}
SELDOM = {"packing", "hopper.arrange", "hopper.chain_sum"}


def loaded_by_first_product(dtype: str, precision: str, leading: int = 512) -> set[str]:
    """Modules that a process has loaded after it lowered one product."""
    given = [sys.executable, "-c", FIRST_PRODUCT, dtype, precision, str(leading)]
    run = subprocess.run(given, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def of_kernels(modules: set[str]) -> set[str]:
    """Modules of ``mxgemm.kernels`` that only some products need."""
    known = SELDOM.union(*FAMILIES.values())
    return {name for name in known if f"mxgemm.kernels.{name}" in modules}


@pytest.mark.parametrize(
    ("dtype", "precision", "family"),
    [("float16", "native", "wgmma"), ("float64", "native", "mma.sync"), ("int16", "scalar", "scalar")],
)
def test_the_first_product_of_a_process_loads_one_family(dtype: str, precision: str, family: str) -> None:
    """The first call may take 20 ms where its kernel is on disk, of which imports are most."""
    loaded = loaded_by_first_product(dtype, precision)
    assert of_kernels(loaded) == FAMILIES[family]
    assert {name for name in loaded if name.startswith("mxgemm.units.")} == {"mxgemm.units.results"}
    assert "mxgemm.device.scalar_layout" not in loaded
    assert "numpy.typing" not in loaded


def test_what_copies_operands_loads_with_the_first_product_that_needs_it() -> None:
    loaded = of_kernels(loaded_by_first_product("float16", "native", leading=513))
    assert loaded == {*FAMILIES["wgmma"], "packing", "hopper.arrange"}


def test_a_heavy_import_would_be_seen() -> None:
    assert "cuda" in modules_after("import cuda.core")


def test_the_version_is_the_distributions() -> None:
    code = "import mxgemm, importlib.metadata as m; print(mxgemm.__version__ == m.version('mxgemm'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"
