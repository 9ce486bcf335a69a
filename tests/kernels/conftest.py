"""Options of the kernels' tests: `--all-kernels` runs slow ones, `--update-golden` writes golden files."""

import pytest

ALL_KERNELS, UPDATE_GOLDEN = "--all-kernels", "--update-golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kernels", "CUDA kernels (name tests/kernels on the command line to have these)")
    group.addoption(ALL_KERNELS, action="store_true", help="compile the whole covering set of kernels")
    group.addoption(UPDATE_GOLDEN, action="store_true", help="write the golden files of generated sources")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(ALL_KERNELS, default=False):
        return
    reason = "minutes on two cores; run `pytest tests/kernels --all-kernels`"
    for item in items:
        if "tests/kernels/" in item.nodeid and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def updates_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are written instead of compared."""
    return bool(request.config.getoption(UPDATE_GOLDEN, default=False))
