"""Sources are what they were; `pytest tests/kernels --update-golden` accepts what they are."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mxgemm.kernels import KernelInstance, PackInstance
from mxgemm.kernels import __file__ as package
from mxgemm.report.cases import Case, Layout, Product
from tests.kernels.offered import every_tile

GOLDEN = Path(__file__).parent / "golden"
BLOCKS = GOLDEN / "building_blocks.json"

F16 = Product("float16", "float16", "native", 512, 512, 256)
F32 = Product("float32", "float32", "tf32", 512, 512, 256)
FULL = replace(
    F16, batch=(3, 2), c_dtype="float16", beta=2, activation="clamp", bias="columns", scale_rows=True,
    scale_cols=True,
)  # fmt: skip
CASES = {
    "f16": (Case(F16), "sm_80"),
    "f16_through_registers": (Case(F16, Layout(padding=1, offset=1)), "sm_80"),
    "f16_epilogue": (Case(FULL), "sm_80"),
    "f16_chains": (Case(replace(F16, k=8200)), "sm_90"),
    "f16_turing": (Case(F16), "sm_75"),
    "tf32": (Case(F32, Layout("column", "column")), "sm_90"),
    "f32_to_bf16": (Case(replace(F32, precision="bf16")), "sm_89"),
    "f64": (Case(replace(F32, dtype_a="float64", dtype_b="float64", precision="native")), "sm_90"),
    "u8_s8": (Case(Product("uint8", "int8", "exact", 512, 512, 256), Layout("row", "column")), "sm_86"),
    "scalar_f32": (Case(replace(F32, precision="scalar")), "sm_120"),
    "scalar_e4m3": (Case(Product("float8_e4m3fn", "float8_e4m3fn", "scalar", 512, 512, 256)), "sm_100"),
}


def named() -> dict[str, KernelInstance | PackInstance]:
    made: dict[str, KernelInstance | PackInstance] = {
        name: every_tile(case, arch)[0].instance for name, (case, arch) in CASES.items()
    }
    return {**made, "pack": PackInstance(2, 1)}


def digests() -> dict[str, str]:
    paths = sorted(Path(package).parent.glob("*.cuh"))
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.mark.parametrize("name", [*CASES, "pack"])
def test_a_generated_source_is_the_golden_one(name: str, updates_golden: bool) -> None:
    path, text = GOLDEN / f"{name}.cu", named()[name].generated()
    if updates_golden:
        path.write_text(text)
    assert text == path.read_text()


def test_building_blocks_are_the_golden_ones(updates_golden: bool) -> None:
    if updates_golden:
        BLOCKS.write_text(json.dumps(digests(), indent=1) + "\n")
    assert digests() == json.loads(BLOCKS.read_text())


@pytest.mark.parametrize("name", [*CASES, "pack"])
def test_a_source_is_its_parts_and_no_more(name: str) -> None:
    instance = named()[name]
    source = instance.source()
    assert "#include" not in source
    assert source.endswith(instance.generated())
    assert source.count(instance.entry) == 1


def test_equal_values_are_one_source_and_others_another() -> None:
    tiles = [found.instance for found in every_tile(Case(F16), "sm_80")]
    assert len({tile.entry for tile in tiles}) == len(tiles) > 1
    assert [found.instance.source() for found in every_tile(Case(F16), "sm_80")] == [
        tile.source() for tile in tiles
    ]
