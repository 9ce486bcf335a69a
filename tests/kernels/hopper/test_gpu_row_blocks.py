"""Two blocks of 64 rows a consumer give the CPU model's bits: each block, tile and edge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device, gpu
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.selection import _ONE_CHAIN
from mxgemm.kernels.hopper.tiles import HopperTile
from mxgemm.problem import GemmProblem
from tests.kernels.hopper.device_arrays import GuardedArray, guarded
from tests.kernels.hopper.test_gpu_hopper import check, operands
from tests.policies import product

pytestmark = pytest.mark.gpu

F16, BF16, F32, INT8 = "float16", "bfloat16", "float32", "int8"
TALL = [tile for tile in _ONE_CHAIN if tile.row_blocks > 1]
PRECISIONS = {F32: "tf32", INT8: "exact"}
# Rows that end in each of the four blocks of a tile, or with it; columns that end in any chunk.
SHAPES = ((8, 8, 8), (72, 136, 136), (200, 392, 64), (320, 192, 264), (512, 80, 136), (1000, 568, 136))


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


@pytest.fixture(params=TALL, ids=str)
def tile(only: Any, request: pytest.FixtureRequest) -> HopperTile:
    """The only tile on offer, either way up."""
    found: HopperTile = request.param
    only(found.rows, found.columns, found.cluster)
    return found


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks share all tiles."""

    def grid(kernel: HopperInstance, p: GemmProblem) -> tuple[int, int, int]:
        return (min(kernel.tile.count(p), 2) * kernel.tile.cluster, 1, 1)

    monkeypatch.setattr(HopperInstance, "grid", grid)


def checked(a: GuardedArray, b: GuardedArray, d: GuardedArray, tile: HopperTile, **options: Any) -> Any:
    """As :func:`check`, and that two blocks of rows computed it."""
    precision = PRECISIONS.get(a.host.dtype.name, "native")
    found = check(a, b, d, precision=precision, **options)
    ran = found.outcome.plan.kernel.tile
    assert (ran.rows, ran.columns, ran.row_blocks) == (tile.rows, tile.columns, 2)
    return found


@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_every_layout_and_edge(tile: HopperTile, layouts: str, m: int, n: int, k: int) -> None:
    a, b = operands(m, n, k, (F16, F16), layouts=layouts)
    checked(a, b, guarded((m, n), F16), tile)


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("k", [64, 200, 1000])
def test_tiles_in_turn(only: Any, tile: HopperTile, turned: bool, k: int) -> None:
    only(tile.rows, tile.columns, tile.cluster, turned=turned)
    m, n = 3 * tile.rows - 56, 3 * tile.columns - 8
    a, b = operands(*((n, m) if turned else (m, n)), k, (BF16, BF16), layouts="nk")
    d = guarded((n, m) if turned else (m, n), BF16)
    assert checked(a, b, d, tile).outcome.plan.kernel.d_turned == turned


@pytest.mark.usefixtures("in_turn")
@pytest.mark.parametrize(("dtype", "d"), [(F16, F32), (F32, F32), (INT8, "int32"), (INT8, INT8)])
@pytest.mark.parametrize("n", [400, 399])
def test_other_types_and_results_by_element(tile: HopperTile, dtype: str, d: str, n: int) -> None:
    a, b = operands(600, n, 272, (dtype, dtype))
    checked(a, b, guarded((600, n), d), tile)


@pytest.mark.parametrize("column_major", [False, True])
def test_activations_and_alpha(tile: HopperTile, column_major: bool) -> None:
    a, b = operands(328, 400, 200, (F16, F16), layouts="kn")
    for epilogue in (mx.epilogue.relu(), mx.epilogue.clamp(-1.0, 2.0)):
        checked(
            a, b, guarded((328, 400), F16, column_major=column_major), tile, epilogue=epilogue, alpha=1.25
        )


def test_batches(tile: HopperTile) -> None:
    a, b = operands(264, 200, 136, (F16, F16), batch=(3,))
    checked(a, b, guarded((3, 264, 200), F16), tile)


@pytest.mark.parametrize("row", [0, 63, 64, 127, 128, 191, 192, 255])
def test_operands_that_round_to_infinity_are_flagged_in_every_block(tile: HopperTile, row: int) -> None:
    x, y = np.ones((256, 72), np.float32), np.ones((72, 256), np.float32)
    x[row, -1] = np.float32(3.4028235e38)
    a, b = guarded(x.shape, F32, values=x), guarded(y.shape, F32, values=y, column_major=True)
    assert checked(a, b, guarded((256, 256), F32), tile).outcome.flags == ("operand-overflow",)


def test_large_products_repeat_and_agree_with_other_tiles(torch: Any, only: Any) -> None:
    generator = torch.Generator(device="cuda").manual_seed(7)
    a, b = (torch.randn(*x, generator=generator, device="cuda").half() for x in ((5000, 2048), (2048, 3000)))
    only(128, 256)
    want = product(a, b, precision="native")
    for tile in TALL:
        only(tile.rows, tile.columns, tile.cluster)
        gpu._lowered.cache_clear()
        for _ in range(3):
            found = product(a, b, precision="native")
            assert torch.equal(want.view(torch.int16), found.view(torch.int16))
