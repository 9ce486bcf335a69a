"""Who may import whom: a part of mxgemm imports only parts that stand below it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mxgemm"

# Lowest first. A part is a module or a folder of mxgemm/, with the modules that carry its name and a suffix
# (array_host belongs to array). `costs` and the like hold one idea of the part that they stand before.
ORDER = (
    "lazy", "errors",
    "costs", "configs",
    "restrictions", "decisions", "policy",
    "capabilities", "epilogue",
    "shapes", "problem", "units", "bounds",
    "plan",
    "device", "kernels",
    "array", "window", "verify",
    "options", "call", "outcome", "run", "gpu", "road", "warm", "gemm", "autotune",
    "lang", "cuda", "report", "cli",
)  # fmt: skip
# The two faces of the package: they import the parts, and only the command line imports them.
FACES = ("__init__", "__main__")
ABOVE_THE_FACE = ("report", "cli")


def part_of(module: str) -> str:
    """The part that a module of mxgemm/ belongs to."""
    return module if module in (*ORDER, *FACES) else module.partition("_")[0]


def place_of(path: Path) -> str:
    return part_of(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def imported_parts(source: str, path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, part) of each import of mxgemm in `source`, lazy ones and those for types included.

    The package itself counts as the part `__init__`.
    """
    here = ("mxgemm", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root, _, rest = alias.name.partition(".")
                if root == "mxgemm":
                    yield node.lineno, part_of(rest.partition(".")[0] or "__init__")
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            names = (*base, *(node.module.split(".") if node.module else ()))
            if names[:1] != ("mxgemm",):
                continue
            if len(names) > 1:
                yield node.lineno, part_of(names[1])
            else:
                for alias in node.names:
                    part = part_of(alias.name)
                    yield node.lineno, part if part in ORDER else "__init__"


def upward_imports(source: str, path: Path) -> list[str]:
    """Return a line for each import in `source` that does not go downward."""
    part = place_of(path)
    if part in FACES:
        return []
    faults = []
    for line, other in imported_parts(source, path):
        if other == part:
            continue
        if other == "__init__":
            allowed = part in ABOVE_THE_FACE
        else:
            allowed = other in ORDER and ORDER.index(other) < ORDER.index(part)
        if not allowed:
            faults.append(f"{path.name}:{line}: {part} imports {other}")
    return faults


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downward(path: Path) -> None:
    assert upward_imports(path.read_text(), path) == []


def test_every_part_has_a_place_in_the_order() -> None:
    assert {place_of(path) for path in SOURCES} - set(FACES) <= set(ORDER)


@pytest.mark.parametrize(
    "line",
    [
        "import mxgemm.gemm",
        "from mxgemm.gemm import gemm",
        "from mxgemm import gemm",
        "from . import gemm",
        "from .gemm import gemm",
        "from mxgemm import array_host",
        "import mxgemm",
        "from mxgemm import Policy",
        "def lazily():\n    from mxgemm.cli import main",
        "if TYPE_CHECKING:\n    from mxgemm.plan import Plan",
    ],
)
def test_an_upward_import_is_caught(line: str) -> None:
    assert upward_imports(line, PACKAGE / "policy.py") != []


def test_a_relative_import_of_a_nested_module_is_resolved() -> None:
    assert upward_imports("from ..gemm import gemm", PACKAGE / "units" / "convert.py") != []
    assert upward_imports("from .split import terms", PACKAGE / "units" / "convert.py") == []


def test_a_downward_import_is_allowed() -> None:
    assert upward_imports("from mxgemm.errors import PolicyError", PACKAGE / "policy.py") == []
