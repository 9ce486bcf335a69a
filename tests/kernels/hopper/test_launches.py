"""Launches of the family in order: what goes through the workspace, and where in it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.errors import UnsupportedError
from mxgemm.kernels.hopper.arrange import ArrangeInstance, Arrangement, arrangement_of
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.selection import instances
from mxgemm.kernels.hopper.tiles import PANEL, ROW_BYTES
from mxgemm.kernels.names import SIZES
from mxgemm.problem import Matrix, pose
from mxgemm.shapes import Operand
from tests.kernels.hopper.chosen import product_class
from tests.kernels.hopper.problems import POINTERS, lower, matrix

WORKSPACE = 1 << 30


def launches(found: kernels.Lowering) -> list[kernels.Launch]:
    return list(found.launches(POINTERS, workspace=WORKSPACE, flags=8))


def test_both_operands_are_arranged_one_after_the_other_then_multiplied() -> None:
    found = lower("float16", 4097, 4097, 4097)
    of_a, of_b, product = launches(found)
    size = 4097 * 4160 * 2
    after = -(-size // 256) * 256
    a, b = (POINTERS[found.form.caller_name(name)] for name in "ab")
    assert (of_a.arguments[:2], of_b.arguments[:2]) == ((a, WORKSPACE), (b, WORKSPACE + after))
    assert product.arguments[:2] == (WORKSPACE, WORKSPACE + after)
    assert product.arguments[3] == POINTERS["d"]
    assert found.workspace_bytes == after + size
    assert all(isinstance(launch.instance, ArrangeInstance) for launch in (of_a, of_b))


def test_one_operand_off_16_bytes_is_the_only_one_that_is_arranged() -> None:
    found = lower("float16", 4096, 4097, 4096, "kn")
    of_b, product = launches(found)
    assert of_b.arguments[:2] == (POINTERS["b"], WORKSPACE)
    operands = {found.form.caller_name(name): product.arguments[i] for i, name in enumerate("ab")}
    assert operands == {"a": POINTERS["a"], "b": WORKSPACE}


def test_maps_lead_the_parameters_and_name_the_pointer_that_they_follow() -> None:
    (product,) = launches(lower("float16", 4096, 4096, 4096))
    assert [(position, made.array) for position, made in product.maps] == [(0, "a"), (1, "b"), (3, "d")]
    assert product.pointers == 4


def test_rows_that_the_copy_engine_cannot_store_have_no_map_of_d() -> None:
    *_, product = launches(lower("float16", 4097, 4097, 4097))
    assert [made.array for _, made in product.maps] == ["a", "b"]


def test_chains_side_by_side_go_behind_the_arranged_operands() -> None:
    found = lower("float16", 255, 251, 65001, "kk", pad=1)
    assert isinstance(found.instance, ChainSumInstance)
    of_a, of_b, chains, last = launches(found)
    behind = sum(-(-p.bytes // 256) * 256 for p in found.packings)
    assert [launch.arguments[1] for launch in (of_a, of_b)] == [WORKSPACE + p.offset for p in found.packings]
    assert chains.arguments[3] == last.arguments[0] == WORKSPACE + behind
    assert chains.arguments[:2] == (WORKSPACE, WORKSPACE + found.packings[1].offset)
    assert found.workspace_bytes == behind + 8 * 255 * 252 * 4
    assert [k for k in found.kernels if isinstance(k, HopperInstance)] == [chains.instance]


def test_the_last_chain_is_the_shorter_one_and_the_epilogue_comes_after_the_sum() -> None:
    a, b = matrix("float16", 128, 20000), matrix("float16", 20000, 128, along_cols=False)
    problem, _ = pose(
        a, b, matrix("float32", 128, 128), alpha=2, beta=3, d=matrix("float16", 128, 128),
        epilogue=EpilogueSpec("relu", has_bias=True), bias=Operand("float16", (128,), (1,)),
    )  # fmt: skip
    ways = kernels.candidates(problem, configuration("float16", "float16", "native"), "sm_90")
    found = next(one.lowering for one in ways if isinstance(one.lowering.instance, ChainSumInstance))
    assert isinstance(found.instance, ChainSumInstance)
    first, chains = found.instance.feeds_on(found.form.problem)
    assert (chains.k, chains.batch, chains.alpha, chains.beta) == (8192, (3,), 1, 0)
    assert (chains.c, chains.bias, chains.d.dtype) == (None, None, "float32")
    assert (first.epilogue.activation, found.instance.epilogue.activation) == ("identity", "relu")
    assert isinstance(first, HopperInstance)
    assert not first.reads_c
    (chain_launch, last) = found.launches({**POINTERS, "bias": 5 << 20}, workspace=WORKSPACE)
    assert chain_launch.grid[0] <= 132
    assert last.grid == (128 * 128 // 4 // 128, 1, 1)


def test_operands_that_round_are_watched_for_overflow_through_one_word() -> None:
    (product,) = launches(lower("float32", 4096, 4096, 4096, "kk"))
    assert product.arguments[4] == 8
    assert product.pointers == 5
    found = lower("float32", 4096, 4096, 4096, "kk")
    with pytest.raises(UnsupportedError, match="flags="):
        list(found.launches(POINTERS))


def test_chains_of_rounded_operands_are_watched_too_up_to_the_products_own_depth() -> None:
    found = lower("float32", 256, 256, 65500, "kk")
    chains, last = launches(found)
    assert isinstance(chains.instance, HopperInstance)
    names = [name for _, name in chains.instance.parameters]
    values = dict(zip(names, chains.arguments, strict=True))
    assert (values["flags"], values["k"], values["depth"]) == (8, 8192, 65500)
    assert found.has_flags
    assert not last.instance.has_flags


def test_float8_over_two_batch_axes_is_launched_for_each_outer_index() -> None:
    a = Operand("float8_e4m3fn", (3, 2, 64, 128), (2 * 64 * 128, 64 * 128, 128, 1))
    b = Operand("float8_e4m3fn", (2, 128, 64), (64 * 128, 1, 128))
    problem, _ = pose(a, b, None, out_dtype="float32")
    found = kernels.lower(problem, configuration("float8_e4m3fn", "float8_e4m3fn", "native"), "sm_90")
    outer = launches(found)
    names = [found.form.caller_name(name) for name in "ab"]
    given = [dict(zip(names, launch.arguments[:2], strict=True)) for launch in outer]
    assert [one["a"] - POINTERS["a"] for one in given] == [i * 2 * 64 * 128 for i in range(3)]
    assert [one["b"] for one in given] == [POINTERS["b"]] * 3
    assert [launch.arguments[3] - POINTERS["d"] for launch in outer] == [
        i * 2 * 64 * 64 * 4 for i in range(3)
    ]


def source_of(x: np.ndarray[Any, Any]) -> Matrix:
    """The array as an operand: its innermost two axes are rows and columns."""
    *steps, rows, cols = (stride // x.itemsize for stride in x.strides)
    return Matrix("float16", x.shape[-2], x.shape[-1], rows, cols, tuple(steps))


def arranged(x: np.ndarray[Any, Any], made: Arrangement) -> np.ndarray[Any, Any]:
    """What the kernel writes, by its definition: rows of ``leading`` elements, zeros at their end."""
    stepped = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.strides[:-2])]
    turned = stepped if made.along_rows else stepped.swapaxes(-1, -2)
    pad = [(0, 0)] * (turned.ndim - 1) + [(0, made.leading - turned.shape[-1])]
    return np.ascontiguousarray(np.pad(turned, pad)).reshape(-1)


@pytest.mark.parametrize("along_rows", [True, False])
@pytest.mark.parametrize("column_major", [True, False])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_copy_read_with_its_strides_is_the_operand(
    along_rows: bool, column_major: bool, batch: tuple[int, ...]
) -> None:
    x = np.arange(np.prod((*batch, 5, 13)), dtype=np.float16).reshape(*batch, 5, 13)
    if column_major:
        x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if len(batch) == 2:
        x = np.broadcast_to(x[:1], x.shape)  # copied once
    made = arrangement_of("a", source_of(x), batch, 0, along_rows=along_rows)
    copy = arranged(x, made)
    assert made.bytes == copy.nbytes
    p = made.packed
    strides = tuple(2 * s for s in (*p.batch_strides, p.row_stride, p.col_stride))
    assert np.array_equal(np.lib.stride_tricks.as_strided(copy, x.shape, strides), x)


@pytest.mark.parametrize(("inner", "leading"), [(1, 8), (65, 72), (511, 512), (513, 576), (4097, 4160)])
def test_long_rows_are_whole_lines_and_short_ones_whole_pieces(inner: int, leading: int) -> None:
    made = arrangement_of("a", Matrix("float16", 7, inner, inner, 1), (), 0, along_rows=True)
    assert made.leading == leading
    assert leading * 8 <= inner * 9 + 64


@pytest.mark.parametrize(("outer", "inner"), list(itertools.product((1, 33, 300), (1, 65, 700))))
def test_grids_of_copies_cover_every_piece(outer: int, inner: int) -> None:
    along = arrangement_of("a", Matrix("float16", outer, inner, inner, 1), (), 0, along_rows=True)
    turned = arrangement_of("a", Matrix("float16", inner, outer, inner, 1), (), 0, along_rows=False)
    for made, tile in ((along, (32, 256)), (turned, (64, 64) if outer > 1 and inner > 1 else (32, 256))):
        rows = made.source.rows if made.along_rows else made.source.cols
        assert made.grid() == (-(-rows // tile[0]) * -(-made.leading // tile[1]), 1, 1)


@pytest.mark.parametrize("shape", [(0, 40, 30), (40, 0, 30), (0, 0, 0)])
def test_a_result_without_entries_has_a_kernel_and_no_launch(shape: tuple[int, int, int]) -> None:
    assert launches(lower("float16", *shape)) == []


@pytest.mark.parametrize("layouts", ["kk", "kn"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_the_boxes_of_a_clusters_blocks_are_a_stage_of_b(dtype: str, layouts: str) -> None:
    """Each block copies as many bytes as its share is, panel by panel where B lies along N."""
    if layouts == "kn" and dtype != "float16":
        pytest.skip("the unit reads 16-bit types alone along N")
    d = {"int8": "int32"}.get(dtype, dtype)
    clusters = [
        one
        for one in instances(product_class(dtype, dtype, layouts, d))
        if isinstance(one, HopperInstance) and one.tile.cluster > 1
    ]
    assert clusters
    a, b = (matrix(dtype, 4096, 4096, along_cols=along) for along in (True, layouts == "kn"))
    problem, _ = pose(a, b, None, out_dtype=d)
    for one in clusters:
        (box,) = (spec.box for spec in one.tensor_maps(problem) if spec.array == "b")
        panels = one.tile.copied_columns(one.b_k_major) // PANEL
        whole = panels % one.tile.cluster != 0  # every block copies of every panel
        copies = 1 if one.b_k_major else panels if whole else panels // one.tile.cluster
        copied = copies * one.tile.cluster * box[0] * box[1] * SIZES[dtype]
        assert copied == one.tile.stage_bytes(one.b_k_major) - one.tile.rows * ROW_BYTES, one
