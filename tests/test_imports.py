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


def test_a_heavy_import_would_be_seen() -> None:
    assert "cuda" in modules_after("import cuda.core")


def test_the_version_is_the_distributions() -> None:
    code = "import mxgemm, importlib.metadata as m; print(mxgemm.__version__ == m.version('mxgemm'))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True"
