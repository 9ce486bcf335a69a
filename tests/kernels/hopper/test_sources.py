"""Sources are what they were; `pytest tests/kernels --update-golden` accepts what they are."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mxgemm.kernels.hopper import __file__ as package
from mxgemm.kernels.hopper.instance import HopperInstance
from tests.kernels.hopper.chosen import chosen

GOLDEN = Path(__file__).parent / "golden"
BLOCKS = GOLDEN / "building_blocks.json"
CHOSEN = chosen()


def digests() -> dict[str, str]:
    paths = sorted(Path(package).parent.glob("*.cuh"))
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_generated_source_is_the_golden_one(name: str, updates_golden: bool) -> None:
    path, text = GOLDEN / f"{name}.cu", CHOSEN[name].generated()
    if updates_golden:
        path.write_text(text)
    assert text == path.read_text()


def test_building_blocks_are_the_golden_ones(updates_golden: bool) -> None:
    if updates_golden:
        BLOCKS.write_text(json.dumps(digests(), indent=1) + "\n")
    assert digests() == json.loads(BLOCKS.read_text())


@pytest.mark.parametrize("name", CHOSEN)
def test_a_source_is_its_parts_and_no_more(name: str) -> None:
    source = CHOSEN[name].source()
    assert "#include" not in source
    assert source.endswith(CHOSEN[name].generated())


def test_every_building_block_is_part_of_some_kernel() -> None:
    used = {part.removeprefix("hopper/") for kernel in CHOSEN.values() for part in kernel.parts}
    assert set(digests()) <= used


def test_the_multiprocessors_of_a_device_change_no_code() -> None:
    """Evidence is tied to sources: it holds on every card of the architecture."""
    kernel = CHOSEN["f16_cluster"]
    assert isinstance(kernel, HopperInstance)
    assert replace(kernel, multiprocessors=78).source() == kernel.source()
