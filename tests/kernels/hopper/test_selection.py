"""Which kernel of the family computes what, and what is arranged first."""

from __future__ import annotations

from typing import Any

import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.problem import pose
from mxgemm.shapes import Operand

POINTERS = {"a": 1 << 20, "b": 2 << 20, "c": 3 << 20, "d": 4 << 20}
PRECISIONS = {"float32": "tf32", "int8": "exact"}
RESULTS = {"int8": "int32", "float8_e4m3fn": "float32"}


def matrix(dtype: str, rows: int, cols: int, *, along_cols: bool = True, pad: int = 0) -> Operand:
    strides = (cols + pad, 1) if along_cols else (1, rows + pad)
    return Operand(dtype, (rows, cols), strides)


def lower(
    dtype: str, m: int, n: int, k: int, layouts: str = "kn", *, pad: int = 0, **options: Any
) -> kernels.Lowering:
    a = matrix(dtype, m, k, along_cols=layouts[0] == "k", pad=pad)
    b = matrix(dtype, k, n, along_cols=layouts[1] == "n", pad=pad)
    problem, _ = pose(a, b, None, out_dtype=RESULTS.get(dtype, dtype))
    chosen = configuration(dtype, dtype, PRECISIONS.get(dtype, "native"))
    return kernels.lower(problem, chosen, "sm_90", **options)


def tile(found: kernels.Lowering) -> tuple[int, int, int]:
    assert isinstance(found.instance, HopperInstance)
    t = found.instance.tile
    return t.rows, t.columns, t.cluster


@pytest.mark.parametrize(
    ("dtype", "shape", "layouts", "expected"),
    [
        ("float16", (512, 512, 512), "kn", (64, 64, 1)),
        ("float16", (1024, 1024, 1024), "kn", (64, 128, 1)),
        ("float16", (1536, 1536, 1536), "kn", (128, 144, 1)),  # 132 tiles, one for each multiprocessor
        ("float16", (3072, 3072, 3072), "kn", (128, 192, 1)),
        ("float16", (4096, 4096, 4096), "kn", (128, 256, 1)),
        ("float16", (64, 28672, 8192), "kk", (64, 256, 1)),
        ("float8_e4m3fn", (4096, 4096, 4096), "kk", (128, 208, 1)),
        ("float8_e4m3fn", (8192, 8192, 8192), "kk", (128, 192, 1)),
        ("int8", (4096, 4096, 4096), "kk", (128, 256, 2)),
    ],
)
def test_the_tile_that_was_measured_fastest(
    dtype: str, shape: tuple[int, int, int], layouts: str, expected: tuple[int, int, int]
) -> None:
    found = lower(dtype, *shape, layouts)
    assert tile(found) == expected
    assert found.workspace_bytes == 0


@pytest.mark.parametrize("m", [1, 16, 32])
def test_few_rows_run_as_the_transpose_on_narrow_tiles(m: int) -> None:
    found = lower("float16", m, 8192, 8192)
    assert found.form.transposed
    assert tile(found) == (64, 16 if m <= 16 else 32, 1)
    (launch,) = found.launches(POINTERS)
    assert launch.arguments[:2] == (POINTERS["b"], POINTERS["a"])


def test_chains_that_do_not_fill_the_device_run_side_by_side() -> None:
    found = lower("float16", 256, 250, 65000, "kk")
    assert isinstance(found.instance, ChainSumInstance)
    assert found.workspace_bytes == 8 * 256 * 252 * 4
    first, last = found.launches(POINTERS, workspace=1 << 30)
    assert first.instance == found.instance.chains_by
    assert (last.arguments[0], last.arguments[3]) == (1 << 30, POINTERS["d"])
    assert first.arguments[3] == 1 << 30


def test_chains_that_fill_the_device_follow_each_other() -> None:
    assert isinstance(lower("float16", 4096, 4096, 16384).instance, HopperInstance)


@pytest.mark.parametrize("layouts", ["kn", "kk", "nn"])
def test_rows_off_16_bytes_are_arranged_in_their_own_direction(layouts: str) -> None:
    found = lower("float16", 4097, 4097, 4097, layouts)
    assert found.instance.lowering == "wgmma"
    kinds = [(p.name, p.instance.turned, p.leading) for p in found.packings]
    assert kinds == [("a", False, 4104), ("b", False, 4104)]
    assert all("arranged in workspace first" in note for note in found.notes[:2])


def test_a_small_product_off_16_bytes_is_left_to_mma_sync_and_says_why() -> None:
    found = lower("float16", 65, 65, 65)
    assert found.instance.lowering == "mma.sync"
    assert found.workspace_bytes == 0
    assert "predicted, without it" in found.notes[0]


def test_without_workspace_another_family_runs_and_says_why() -> None:
    found = lower("float16", 4097, 4097, 4097)
    assert found.without_workspace is not None
    for other in (found.without_workspace(), lower("float16", 4097, 4097, 4097, may_allocate=False)):
        assert (other.instance.lowering, other.workspace_bytes) == ("mma.sync", 0)
        assert "wgmma would need" in other.notes[0]


def test_without_workspace_chains_follow_each_other() -> None:
    found = lower("float16", 256, 256, 65536, may_allocate=False)
    assert (found.instance.lowering, found.workspace_bytes) == ("wgmma", 0)


@pytest.mark.parametrize(("layouts", "turned"), [("kk", [False, False]), ("kn", [False, True])])
def test_tf32_is_rounded_along_k_and_watched(layouts: str, turned: list[bool]) -> None:
    found = lower("float32", 4096, 4096, 4096, layouts)
    assert [(p.instance.turned, p.instance.rounded) for p in found.packings] == [(t, True) for t in turned]
    assert found.has_flags
    first, *_ = found.launches(POINTERS, workspace=1 << 30, flags=8)
    assert first.arguments[:3] == (POINTERS["a"], 1 << 30, 8)


def test_8_bit_operands_are_turned_where_they_do_not_lie_along_k() -> None:
    found = lower("int8", 4096, 4096, 4096, "kn")
    assert [(p.name, p.instance.turned) for p in found.packings] == [("b", True)]


@pytest.mark.parametrize(("n", "vector"), [(272, 8), (271, 1)])
def test_the_copy_engine_stores_only_rows_of_whole_pieces(n: int, vector: int) -> None:
    """It writes 16 bytes at a time: past the end of a row of 271 entries, even with room after it."""
    a, b = matrix("float16", 200, 136), matrix("float16", 136, n, along_cols=False)
    problem, _ = pose(a, b, None, d=Operand("float16", (200, n), (272, 1)))
    found = kernels.lower(problem, configuration("float16", "float16", "native"), "sm_90")
    assert found.instance.epilogue.vector == vector
