"""Which kernel of the family computes what, and what is arranged first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.model import cost
from mxgemm.kernels.hopper.selection import _EXACT_PARTS, instances
from mxgemm.kernels.hopper.tiles import HopperTile
from mxgemm.problem import pose
from mxgemm.shapes import Operand
from tests.kernels.hopper.chosen import product_class
from tests.kernels.hopper.problems import POINTERS, lower, matrix


def tile(found: kernels.Lowering) -> tuple[int, int, int]:
    assert isinstance(found.instance, HopperInstance)
    t = found.instance.tile
    return t.rows, t.columns, t.cluster


def tiles(p: kernels.ProductClass) -> list[HopperTile]:
    return [one.tile for one in instances(p) if isinstance(one, HopperInstance)]


@pytest.mark.parametrize(
    ("dtype", "shape", "layouts", "expected"),
    [
        ("float16", (1024, 1024, 1024), "kn", (64, 128, 1)),
        ("float16", (2048, 2048, 2048), "kn", (128, 256, 2)),
        ("float16", (896, 4864, 896), "kn", (192, 192, 2)),  # 130 tiles
        ("float16", (8192, 8192, 8192), "kn", (256, 192, 1)),
        ("float16", (11008, 128, 4096), "kn", (64, 192, 2)),  # 116 tiles of the transpose
        ("float16", (10000, 1000, 500), "nn", (128, 128, 2)),
        ("float16", (1920, 1080, 720), "nn", (192, 96, 2)),  # 120 tiles
        ("float16", (32, 11008, 4096), "nk", (64, 96, 1)),  # 115 tiles
        ("float32", (1024, 1024, 1024), "kn", (64, 128, 1)),
        ("float8_e4m3fn", (4096, 4096, 4096), "kk", (128, 208, 1)),
        ("float8_e4m3fn", (8192, 8192, 8192), "kk", (128, 192, 1)),
        ("int8", (4096, 4096, 4096), "kk", (128, 256, 2)),
    ],
)
def test_the_tile_that_was_measured_fastest(
    dtype: str, shape: tuple[int, int, int], layouts: str, expected: tuple[int, int, int]
) -> None:
    """Or one within a hundredth of it."""
    found = lower(dtype, *shape, layouts)
    assert tile(found) == expected
    assert found.workspace_bytes == 0


@pytest.mark.parametrize(
    ("dtype", "shape", "layouts", "transposed"),
    [
        ("bfloat16", (3072, 768, 2304), "kn", True),  # as it stands, B in panels: 96 tiles of 128x192
        ("float16", (11008, 128, 4096), "kn", True),  # 115 tiles of 128x96
        ("float16", (96, 16384, 4096), "kn", True),
        ("float16", (32, 11008, 4096), "nk", False),  # the transpose would have its B in panels
        ("float16", (1920, 1080, 720), "nk", False),
        ("float16", (4096, 4096, 4096), "kk", False),  # nothing to gain
    ],
)
def test_the_orientation_that_wastes_least(
    dtype: str, shape: tuple[int, int, int], layouts: str, transposed: bool
) -> None:
    found = lower(dtype, *shape, layouts)
    assert isinstance(found.instance, HopperInstance)
    assert found.form.transposed == found.instance.d_turned == transposed
    assert found.instance.bulk_store
    (launch,) = found.launches(POINTERS)
    assert launch.arguments[:2] == tuple(POINTERS[found.form.caller_name(name)] for name in "ab")


def test_a_turned_tile_costs_its_epilogue_more() -> None:
    found = lower("float16", 4096, 4096, 4096, "kk")
    assert isinstance(found.instance, HopperInstance)
    turned = replace(found.instance, d_turned=True)
    assert cost(turned, found.form.problem, 132) > cost(found.instance, found.form.problem, 132)


@pytest.mark.parametrize(
    ("d", "a_layout", "vector"),
    [
        ("float16", "k", 8), ("float32", "k", 4), ("float32", "n", 4), ("float16", "n", 1),
        ("float8_e4m3fn", "k", 1),
    ],
)  # fmt: skip
def test_what_the_copy_engine_stores_along_rows(d: str, a_layout: str, vector: int) -> None:
    """Words of any kind; 16-bit entries where matrix instructions find rows in order; no bytes."""
    operand = {"float8_e4m3fn": "float8_e4m3fn"}.get(d, "float32")
    made = [*instances(product_class(operand, operand, f"{a_layout}k", d, turned=True))]
    assert {one.epilogue.vector for one in made} == {vector}


def test_rows_off_a_line_of_l2_are_read_twice_which_clusters_share() -> None:
    """128 bytes of a row lie in two lines then; a cluster reads its columns of B once."""
    whole, off = (lower("float16", 3072, 3072, 3072, "kk", pad=pad) for pad in (64, 8))
    assert isinstance(whole.instance, HopperInstance)
    plain = replace(whole.instance, tile=HopperTile(128, 256, 4))
    cluster = replace(whole.instance, tile=HopperTile(128, 256, 4, cluster=2))
    p, q = whole.form.problem, off.form.problem
    lost = [cost(one, q, 132) / cost(one, p, 132) for one in (plain, cluster)]
    assert 1.0 <= lost[1] < lost[0]


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
    assert first.instance == found.instance.sums_by
    assert (last.arguments[0], last.arguments[3]) == (1 << 30, POINTERS["d"])
    assert first.arguments[3] == 1 << 30


def test_chains_that_fill_the_device_follow_each_other() -> None:
    assert isinstance(lower("float16", 4096, 4096, 16384).instance, HopperInstance)


@pytest.mark.parametrize(
    ("dtype", "chain", "sums"),
    [("float8_e4m3fn", 1, "float32"), ("int8", 0, "int32"), ("float16", 0, "float32")],
)
def test_what_the_total_adds_runs_side_by_side(dtype: str, chain: int, sums: str) -> None:
    """Sections of short chains, long chains, and any part of an exact sum."""
    found = lower(dtype, 256, 256, 65536, "kk").instance
    assert isinstance(found, ChainSumInstance)
    assert (found.sums_by.chain, found.sums_by.section) == (chain, 0)
    assert found.part == 8192 or (dtype == "int8" and found.part in _EXACT_PARTS)
    assert (found.sums_by.epilogue.d, found.accumulator) == (sums, sums)


def test_exact_sums_are_cut_finer_too() -> None:
    offered = instances(product_class("int8", "int8", "kk", "int32", k=20000))
    assert {one.part for one in offered if isinstance(one, ChainSumInstance)} == {8192, 2048}


@pytest.mark.parametrize(("k", "stages"), [(8192, 0), (8208, 64), (65536, 64)])
def test_float8_without_workspace_sums_sections_in_one_launch(k: int, stages: int) -> None:
    found = lower("float8_e4m3fn", 512, 512, k, "kk", may_allocate=False)
    assert isinstance(found.instance, HopperInstance)
    assert (found.instance.section, found.workspace_bytes) == (stages, 0)
    assert ("sections of 8192" in found.instance.variant) == bool(stages)


def test_a_total_beside_the_master_sum_narrows_tiles() -> None:
    offered = [*instances(product_class("float8_e4m3fn", "float8_e4m3fn", "kk", "float32", k=20000))]
    within = [one.tile for one in offered if isinstance(one, HopperInstance)]
    assert max(tile.columns for tile in within) == 144
    assert {tile.consumers for tile in within} == {1, 2}


def test_what_runs_with_two_blocks_of_rows_a_consumer() -> None:
    """One chain of operands that the unit reads from shared memory, and an epilogue without terms."""
    classes = {
        "float16": product_class("float16", "float16", "nn", "float16"),
        "by element": product_class("float16", "float16", "kk", "float16", pieces=False),
        "relu": product_class("float16", "float16", "kn", "float32", activation="relu", turned=True),
        "tf32": product_class("float32", "float32", "kk", "float32"),
        "int8": product_class("int8", "int8", "kk", "int32", k=100000),
        "tf32 off K": product_class("float32", "float32", "nk", "float32"),
        "chains": product_class("float16", "float16", "kk", "float16", k=20000),
        "float8": product_class("float8_e4m3fn", "float8_e4m3fn", "kk", "float32"),
        "C": product_class("float16", "float16", "kk", "float16", reads_c=True),
        "bias": product_class("float16", "float16", "kk", "float16", bias="float16"),
        "gelu": product_class("float16", "float16", "kk", "float16", activation="gelu"),
    }
    two = {name: [t for t in tiles(p) if t.row_blocks == 2] for name, p in classes.items()}
    assert {name for name, some in two.items() if some} == {"float16", "by element", "relu", "tf32", "int8"}
    assert {(t.rows, t.consumers) for some in two.values() for t in some} == {(256, 2)}


def test_three_stages_and_six_buffers_fill_the_shared_memory() -> None:
    offered = instances(product_class("float16", "float16", "nn", "float16"))
    widest = next(x for x in offered if isinstance(x, HopperInstance) and x.tile.row_blocks == 2)
    stages, buffers, barriers = 3 * (256 + 192) * 128, 2 * 3 * 64 * 128, 16 * (3 + 6 + 1)
    assert widest.shared_bytes == stages + buffers + barriers


@pytest.mark.parametrize("layouts", ["kn", "kk", "nn"])
def test_rows_off_16_bytes_are_arranged_in_their_own_direction(layouts: str) -> None:
    found = lower("float16", 4097, 4097, 4097, layouts)
    assert found.instance.lowering == "wgmma"
    kinds = [(p.name, p.instance.turned, p.leading) for p in found.packings]
    assert kinds == [("a", False, 4160), ("b", False, 4160)]
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


@pytest.mark.parametrize(
    ("layouts", "transposed", "registers"), [("kk", True, False), ("kn", True, True), ("nk", False, True)]
)
def test_tf32_needs_no_workspace_where_an_operand_lies_along_k(
    layouts: str, transposed: bool, registers: bool
) -> None:
    found = lower("float32", 4096, 4096, 4096, layouts)
    assert isinstance(found.instance, HopperInstance)
    assert (found.workspace_bytes, found.form.transposed) == (0, transposed)
    assert (found.instance.a_registers, found.instance.d_turned) == (registers, transposed)
    (launch,) = found.launches(POINTERS, flags=8)
    rounded = [(made.array, made.to_tf32) for _, made in launch.maps if made.array != "d"]
    assert rounded == [("a", not registers), ("b", True)]
    assert found.has_flags


@pytest.mark.parametrize("k", [4096, 65536])
def test_notes_say_where_tf32_operands_are_rounded(k: int) -> None:
    notes = lower("float32", 256, 256, k, "kn").notes
    assert notes[:2] == ("a is rounded to tf32 by the copy engine", "b is rounded to tf32 in registers")
    assert not any("rounded" in note for note in lower("float16", 256, 256, k).notes)


@pytest.mark.parametrize(("m", "n", "copied"), [(4096, 2048, "b"), (2048, 4096, "a")])
def test_the_smaller_of_two_tf32_operands_off_k_is_turned(m: int, n: int, copied: str) -> None:
    found = lower("float32", m, n, 4096, "nn")
    assert [(found.form.caller_name(p.name), p.instance.turned) for p in found.packings] == [(copied, True)]
    assert found.workspace_bytes == 2048 * 4096 * 4


@pytest.mark.parametrize(("m", "n", "layouts", "transposed"), [(8, 4096, "kn", True), (4096, 8, "kn", False)])
def test_a_narrow_tf32_product_uses_the_units_rows(m: int, n: int, layouts: str, transposed: bool) -> None:
    found = lower("float32", m, n, 4096, layouts)
    assert found.form.transposed == transposed
    assert tile(found) == (64, 16, 1)


def test_two_scales_keep_a_tf32_product_upright() -> None:
    a, b, vector = matrix("float32", 256, 512), matrix("float32", 512, 256), Operand("float32", (256,), (1,))
    spec = EpilogueSpec(has_scale_rows=True, has_scale_cols=True)
    problem, _ = pose(a, b, None, epilogue=spec, scale_rows=vector, scale_cols=vector)
    found = kernels.lower(problem, configuration("float32", "float32", "tf32"), "sm_90")
    assert not found.form.transposed


def test_long_tf32_chains_leave_registers_for_the_fragments() -> None:
    for layouts, widest in (("kk", 192), ("nk", 144)):
        found = lower("float32", 8192, 8192, 16384, layouts)
        assert isinstance(found.instance, HopperInstance)
        assert found.instance.tile.columns <= widest


def test_8_bit_operands_are_turned_where_they_do_not_lie_along_k() -> None:
    found = lower("int8", 4096, 4096, 4096, "kn")
    assert [(found.form.caller_name(p.name), p.instance.turned) for p in found.packings] == [("b", True)]


@pytest.mark.parametrize(("n", "vector"), [(272, 8), (271, 1)])
def test_the_copy_engine_stores_only_rows_of_whole_pieces(n: int, vector: int) -> None:
    """It writes 16 bytes at a time: past the end of a row of 271 entries, even with room after it."""
    a, b = matrix("float16", 200, 136), matrix("float16", 136, n, along_cols=False)
    problem, _ = pose(a, b, None, d=Operand("float16", (200, n), (272, 1)))
    found = kernels.lower(problem, configuration("float16", "float16", "native"), "sm_90")
    assert found.instance.epilogue.vector == vector
