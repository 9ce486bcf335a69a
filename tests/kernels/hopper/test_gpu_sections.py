"""fp8 beyond a section, and bytes in parts, on a Hopper GPU: the CPU model's bits on both routes.

One launch, which needs no workspace, adds the sections in registers; side by side they are a batch, whose
sums a second launch adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device
from mxgemm.kernels import lowering, table
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from tests.kernels.hopper.deep_products import DEPTHS, E4M3, F32, every_term, integers, run, uneven
from tests.kernels.hopper.device_arrays import guarded, same_bits
from tests.policies import outcome, product

pytestmark = pytest.mark.gpu

WITHIN = ((128, 144), (128, 128), (64, 128), (64, 64), (64, 16))
BESIDE = ((128, 128), (64, 128), (64, 64))
PARTS = (8192, 2048)

Apart = Callable[..., None]


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Apart:
    """A function that makes parts side by side, on one tile, the only choice."""

    def choose(rows: int, columns: int, part: int = 8192) -> None:
        def cost(instance: Any, *_: Any) -> float:
            if not isinstance(instance, ChainSumInstance) or instance.part != part:
                return 1.0
            return 0.0 if instance.sums_by.tile_shape == (rows, columns) else 1.0

        first, *others = table.KERNELS
        family = first._replace(cost=cost, declines=lambda *_: None)
        monkeypatch.setattr(lowering, "KERNELS", (family, *others))

    return choose


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("tile", WITHIN)
def test_sections_in_one_launch(only: Any, tile: tuple[int, int], k: int) -> None:
    only(*tile)
    a, b, want = uneven(k)
    plan = run(a, b, guarded(want.shape, F32), want).plan
    assert plan.kernel.tile_shape == tile
    assert (plan.kernel.section > 0) == (k > 8192)
    assert plan.workspace_bytes == 0


@pytest.mark.parametrize("k", DEPTHS[1:])
@pytest.mark.parametrize("tile", BESIDE)
def test_sections_side_by_side(apart: Apart, tile: tuple[int, int], k: int) -> None:
    apart(*tile)
    a, b, want = uneven(k)
    assert "side by side" in run(a, b, guarded(want.shape, F32, pad=1), want).plan.variant


def test_the_model_s_choice_has_these_bits() -> None:
    a, b, want = uneven(65536)
    assert "then added in order" in run(a, b, guarded(want.shape, F32), want).plan.variant


def test_another_order_of_the_sections_would_be_noticed() -> None:
    a, b, want = uneven(20000)
    parts = [
        product(a.host[:, ks], b.host[ks], precision="native", device="cpu", out_dtype=F32)
        for ks in (slice(16384, None), slice(8192, 16384), slice(8192))
    ]
    assert not same_bits(parts[0] + parts[1] + parts[2], want)


@pytest.mark.parametrize("route", ["one launch", "side by side"])
@pytest.mark.parametrize("result", [F32, E4M3])
@pytest.mark.parametrize("padded", [0, 1])
def test_what_comes_after_the_sum(only: Any, apart: Apart, route: str, result: str, padded: int) -> None:
    """C, bias, scales and 8-bit results, which saturate and say so; D in pieces and by element."""
    (only if route == "one launch" else apart)(128, 128)
    a, b, exact = uneven(20000)
    m, n = exact.shape
    c, epilogues = every_term(m, n)
    scalars = {"alpha": 1.25, "beta": -0.5}
    reference = outcome(
        a.host, b.host, c.host, precision="native", device="cpu", out_dtype=result, epilogue=epilogues[1],
        **scalars,
    )  # fmt: skip
    d = guarded((m, n), result, pad=padded)
    found = run(a, b, d, reference.array, c=c.device, epilogue=epilogues[0], **scalars)
    assert found.flags == reference.outcome.flags == (("fp8-overflow",) if result == E4M3 else ())


@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("tile", BESIDE)
def test_bytes_in_parts_side_by_side(apart: Apart, tile: tuple[int, int], part: int, k: int) -> None:
    apart(*tile, part)
    a, b, want = integers(k)
    plan = run(a, b, guarded(want.shape, "int32"), want, precision="exact").plan
    assert ("side by side" in plan.variant) == (k > part)


@pytest.mark.parametrize("k", DEPTHS)
def test_bytes_in_one_launch(only: Any, k: int) -> None:
    only(64, 64)
    a, b, want = integers(k)
    assert run(a, b, guarded(want.shape, "int32"), want, precision="exact").plan.workspace_bytes == 0


def test_bytes_in_parts_take_c_and_a_bias_and_give_8_bits(apart: Apart) -> None:
    apart(64, 64, 2048)
    a, b, want = integers(8320)
    rng = np.random.default_rng(6)
    c = guarded(want.shape, "int32", values=rng.integers(-(2**20), 2**20, want.shape))
    bias = guarded((1, want.shape[1]), "int32", values=rng.integers(-100, 100, (1, want.shape[1])))
    epilogues = [mx.epilogue.relu(bias=getattr(bias, side)[0]) for side in ("device", "host")]
    for result in ("int32", "int8"):
        on_host = product(
            a.host, b.host, c.host, precision="exact", device="cpu", out_dtype=result, epilogue=epilogues[1],
            alpha=3, beta=-2,
        )  # fmt: skip
        found = run(
            a, b, guarded(want.shape, result), on_host, c=c.device, epilogue=epilogues[0], alpha=3, beta=-2,
            precision="exact",
        )  # fmt: skip
        assert "side by side" in found.plan.variant
