"""Parts of K in the blocks of a cluster, on a Hopper GPU: the CPU model's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mxgemm import device
from mxgemm.kernels import lowering, table
from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance
from tests.kernels.hopper.deep_products import DEPTHS, E4M3, F32, every_term, integers, run, uneven
from tests.kernels.hopper.device_arrays import guarded, same_bits
from tests.policies import outcome, product

pytestmark = pytest.mark.gpu

TILES = (96, 64, 32)
COUNTS = (2, 3, 4, 5, 6, 7, 8)
F16 = "float16"

InClusters = Callable[..., None]


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


@pytest.fixture
def in_clusters(monkeypatch: pytest.MonkeyPatch) -> InClusters:
    """A function that makes parts in clusters, on tiles of so many columns, the only choice."""

    def choose(columns: int, *, turned: bool | None = None) -> None:
        def cost(instance: Any, *_: Any) -> float:
            if not isinstance(instance, ClusterSumInstance) or turned not in (None, instance.d_turned):
                return 1.0
            return 0.0 if instance.tile.columns == columns else 1.0

        first, *others = table.KERNELS
        family = first._replace(cost=cost, declines=lambda *_: None)
        monkeypatch.setattr(lowering, "KERNELS", (family, *others))

    return choose


def halves(m: int, n: int, k: int) -> tuple[Any, Any, np.ndarray[Any, Any]]:
    """float16 operands, B along K, and the CPU model's product."""
    rng = np.random.default_rng([m, n, k])
    a = guarded((m, k), F16, values=rng.standard_normal((m, k)))
    b = guarded((k, n), F16, values=rng.standard_normal((k, n)), column_major=True)
    return a, b, product(a.host, b.host, precision="native", device="cpu", out_dtype=F32)


def in_a_cluster(plan: Any, count: int) -> bool:
    return f"in a cluster of {count}, then added in order" in plan.variant and plan.workspace_bytes == 0


@pytest.mark.parametrize("k", DEPTHS[1:])
@pytest.mark.parametrize("columns", TILES)
def test_sections(in_clusters: InClusters, columns: int, k: int) -> None:
    in_clusters(columns)
    a, b, want = uneven(k)
    assert in_a_cluster(run(a, b, guarded(want.shape, F32, pad=1), want).plan, -(-k // 8192))


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("columns", TILES)
def test_bytes(in_clusters: InClusters, columns: int, k: int) -> None:
    in_clusters(columns)
    a, b, want = integers(k)
    found = run(a, b, guarded(want.shape, "int32"), want, precision="exact")
    assert "in a cluster of" in found.plan.variant


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("turned", [False, True])
def test_clusters_of_every_size(in_clusters: InClusters, turned: bool, count: int) -> None:
    """Rows that the blocks do not share evenly, and a last part that is short."""
    in_clusters(64, turned=turned)
    a, b, want = halves(70, 72, 8192 * count - 8000)
    found = run(a, b, guarded(want.shape, F32), want)
    assert in_a_cluster(found.plan, count)
    assert found.plan.kernel.d_turned == turned


@pytest.mark.parametrize("result", [F16, E4M3])
@pytest.mark.parametrize("column_major", [False, True])
def test_what_comes_after_the_sum(in_clusters: InClusters, result: str, column_major: bool) -> None:
    """C, bias and scales of both axes, an activation, and 8-bit results, which saturate and say so."""
    in_clusters(64)
    a, b, want = uneven(20000) if result == E4M3 else halves(70, 90, 20000)
    m, n = want.shape
    c, epilogues = every_term(m, n)
    scalars = {"alpha": 1.25, "beta": -0.5}
    reference = outcome(
        a.host, b.host, c.host, precision="native", device="cpu", out_dtype=result, epilogue=epilogues[1],
        **scalars,
    )  # fmt: skip
    d = guarded((m, n), result, column_major=column_major)
    found = run(a, b, d, reference.array, c=c.device, epilogue=epilogues[0], **scalars)
    assert "in a cluster of 3" in found.plan.variant
    assert found.flags == reference.outcome.flags == (("fp8-overflow",) if result == E4M3 else ())


@pytest.mark.parametrize("turned", [False, True])
def test_c_may_be_where_the_result_goes(in_clusters: InClusters, turned: bool) -> None:
    in_clusters(64, turned=turned)
    a, b, _ = halves(70, 90, 20000)
    c = guarded((70, 90), F16, values=np.random.default_rng(8).standard_normal((70, 90)))
    options = {"precision": "native", "alpha": 0.5, "beta": 0.3}
    want = outcome(a.host, b.host, c.host, device="cpu", **options).array
    found = outcome(a.device, b.device, c.device, out=c.device, **options)
    assert same_bits(c.download(), want)
    assert in_a_cluster(found.outcome.plan, 3)


@pytest.mark.parametrize("place", [5, 8191, 8192, 19999])
@pytest.mark.parametrize("of_a", [False, True])
def test_an_operand_that_overflows_in_any_part_is_told(
    in_clusters: InClusters, of_a: bool, place: int
) -> None:
    in_clusters(64)
    rng = np.random.default_rng(7)
    values = [rng.standard_normal((70, 20000)), rng.standard_normal((20000, 50))]
    values[0 if of_a else 1][(3, place) if of_a else (place, 3)] = 3.4028e38
    a = guarded((70, 20000), F32, values=values[0])
    b = guarded((20000, 50), F32, values=values[1], column_major=True)
    reference = outcome(a.host, b.host, precision="tf32", device="cpu")
    found = run(a, b, guarded((70, 50), F32), reference.array, precision="tf32")
    assert in_a_cluster(found.plan, 3)
    assert found.flags == reference.outcome.flags == ("operand-overflow",)


def test_tiles_beside_each_other_and_below(in_clusters: InClusters) -> None:
    in_clusters(32)
    a, b, want = halves(200, 100, 9000)
    assert in_a_cluster(run(a, b, guarded(want.shape, F32), want).plan, 2)


def test_the_model_chooses_them_for_long_sums_of_few_entries() -> None:
    a, b, want = halves(64, 72, 20000)
    assert in_a_cluster(run(a, b, guarded(want.shape, F32), want).plan, 3)


def test_another_order_of_the_parts_would_be_noticed() -> None:
    a, b, want = halves(40, 70, 20000)
    parts = [
        product(a.host[:, ks], b.host[ks], precision="native", device="cpu", out_dtype=F32)
        for ks in (slice(8192), slice(8192, 16384), slice(16384, None))
    ]
    assert same_bits(parts[0] + parts[1] + parts[2], want)
    assert not same_bits(parts[2] + parts[1] + parts[0], want)
