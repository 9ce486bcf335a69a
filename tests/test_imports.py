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


# Lowers a product of two matrices on sm_90, and prints what that imported.
FIRST_PRODUCT = """
import sys
import mxgemm
from mxgemm.configs import configurations_for
from mxgemm.kernels import lower
from mxgemm.problem import Operand, pose

before = set(sys.modules)
dtype, precision, columns = sys.argv[1], sys.argv[2], int(sys.argv[3])
operand = Operand(dtype, (512, 512), (columns, 1))
problem, _ = pose(operand, operand, None)
(row,) = [row for row in configurations_for(dtype, dtype) if row.precision == precision]
found = lower(problem, row, "sm_90")
list(found.launches({"a": 1 << 20, "b": 1 << 30, "d": 1 << 40}, workspace=1 << 50, flags=1 << 60))
print(*set(sys.modules) - before)
"""
HOPPER = ("instance", "maps", "model", "orientation", "selection", "tiles", "wgmma")
FAMILIES = {
    "wgmma": {"mxgemm.kernels.hopper", *(f"mxgemm.kernels.hopper.{name}" for name in HOPPER)},
    "mma.sync": {"mxgemm.kernels.mma_sync", "mxgemm.kernels.limits"},
    "scalar": {"mxgemm.kernels.scalar", "mxgemm.kernels.limits"},
}
COPYING = {"mxgemm.kernels.packing", "mxgemm.kernels.hopper.arrange"}
NEEDED = {"gpu", "kernels.lowering", "device.kernel", "device.launcher", "device.streams", "warm_launches"}


def imported_by_first_product(dtype: str, precision: str, leading: int = 512) -> set[str]:
    """Modules that a process that has imported mxgemm imports as it lowers its first product."""
    given = [sys.executable, "-c", FIRST_PRODUCT, dtype, precision, str(leading)]
    run = subprocess.run(given, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("dtype", "precision", "family"),
    [("float16", "native", "wgmma"), ("float64", "native", "mma.sync"), ("int16", "scalar", "scalar")],
)
def test_the_first_product_of_a_process_imports_one_family_and_nothing_else(
    dtype: str, precision: str, family: str
) -> None:
    """The first call may take 20 ms where its kernel is on disk."""
    assert imported_by_first_product(dtype, precision) == FAMILIES[family]


def test_what_copies_operands_loads_with_the_first_product_that_needs_it() -> None:
    found = imported_by_first_product("float16", "native", leading=513)
    assert found == FAMILIES["wgmma"] | COPYING


def test_importing_brings_what_every_product_needs_and_no_more() -> None:
    code = "import mxgemm, sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert {f"mxgemm.{name}" for name in NEEDED} <= loaded
    assert loaded & COPYING.union(*FAMILIES.values()) == set()
    assert {name for name in loaded if name.startswith("mxgemm.units.")} == {"mxgemm.units.results"}
    assert "mxgemm.device.scalar_layout" not in loaded
    assert "numpy.typing" not in loaded


def test_a_heavy_import_would_be_seen() -> None:
    assert "cuda" in modules_after("import cuda.core")


def test_the_version_is_the_distributions() -> None:
    code = "import mxgemm, importlib.metadata as m; print(mxgemm.__version__ == m.version('mxgemm'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"
