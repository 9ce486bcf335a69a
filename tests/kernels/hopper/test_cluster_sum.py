"""Parts of K in the blocks of a cluster: what is offered, what is chosen, and what a launch looks like."""

from __future__ import annotations

import math

import pytest

from mxgemm.kernels import candidates
from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance, exchange_bytes
from mxgemm.kernels.hopper.model import cost
from mxgemm.kernels.hopper.selection import instances
from tests.kernels.hopper.chosen import IN_CLUSTERS, product_class
from tests.kernels.hopper.problems import POINTERS, lower

SHARED_LIMIT = 227 * 1024


def offered(dtype: str, k: int) -> list[ClusterSumInstance]:
    of_class = product_class(dtype, dtype, "kk", {"int8": "int32"}.get(dtype, "float32"), k=k)
    return [one for one in instances(of_class) if isinstance(one, ClusterSumInstance)]


@pytest.mark.parametrize(
    ("dtype", "k", "part", "count"),
    [
        ("float16", 8200, 8192, 2), ("float16", 65536, 8192, 8), ("float32", 20000, 8192, 3),
        ("float8_e4m3fn", 50000, 8192, 7), ("int8", 8192, 1024, 8), ("int8", 1025, 1024, 2),
        ("int8", 65536, 8192, 8), ("int8", 8200, 2048, 5),
    ],
)  # fmt: skip
def test_a_part_is_what_the_total_adds_and_each_has_a_block(
    dtype: str, k: int, part: int, count: int
) -> None:
    found = offered(dtype, k)
    assert {(one.part, one.count) for one in found} == {(part, count)}
    assert all(part % one.depth == 0 and part // one.depth % 4 == 0 for one in found)


@pytest.mark.parametrize(
    ("dtype", "k"), [("float16", 8192), ("float16", 65537), ("float8_e4m3fn", 8192), ("int8", 1024)]
)
def test_no_more_parts_than_blocks_and_no_fewer_than_two(dtype: str, k: int) -> None:
    assert offered(dtype, k) == []


def test_batches_are_not_cut() -> None:
    p = product_class("float16", "float16", "kk", "float16", k=20000, batch_axes=1)
    assert not any(isinstance(one, ClusterSumInstance) for one in instances(p))


def test_one_launch_without_workspace() -> None:
    found = lower("float16", 128, 768, 11008)
    kernel = found.instance
    assert isinstance(kernel, ClusterSumInstance)
    assert found.workspace_bytes == 0
    (launch,) = found.launches(POINTERS)
    assert launch.grid == (2 * kernel.tile.count(found.form.problem), 1, 1)
    assert "__cluster_dims__(2, 1, 1)" in kernel.source()
    assert "PARTS = 2, PART_STAGES = 128;" in kernel.source()
    assert kernel.variant.endswith("parts of 8192 in a cluster of 2, then added in order")


def test_clusters_that_would_wait_for_others_are_ruled_out() -> None:
    """15 clusters of 8 fit 132 multiprocessors."""
    p = product_class("float16", "float16", "kk", "float16", k=65536)
    one = next(i for i in instances(p) if isinstance(i, ClusterSumInstance) and i.tile.columns == 64)
    fits, waits = (lower("float16", 64 * rows, 64, 65536, "kk").form.problem for rows in (15, 16))
    assert cost(one, fits, 132) < math.inf
    assert cost(one, waits, 132) == math.inf
    assert all(found.lowering.instance != one for found in candidates(waits, p.configuration, "sm_90"))


def test_long_sums_of_many_entries_go_through_workspace() -> None:
    """A cluster's blocks read other parts of K, so that L2 serves each request for itself."""
    assert not isinstance(lower("float16", 256, 256, 65536).instance, ClusterSumInstance)


@pytest.mark.parametrize("count", range(2, 9))
def test_what_the_blocks_give_each_other_fits(count: int) -> None:
    for one in offered("float16", 8192 * count):
        given = exchange_bytes(one.tile.rows, one.tile.columns, count)
        assert given <= one.tile.store_bytes
        assert one.shared_bytes <= SHARED_LIMIT
        assert one.tile.rows * (one.tile.columns + 8) * 4 <= one.tile.stages * one.tile.stage_bytes(True)


def test_every_kind_of_operand_has_one() -> None:
    for name, p in IN_CLUSTERS.items():
        assert any(isinstance(one, ClusterSumInstance) for one in instances(p)), name
