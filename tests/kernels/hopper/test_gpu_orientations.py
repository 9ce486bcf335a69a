"""The transpose on wgmma gives the CPU model's bits: D stored and C read along rows, every tile and edge."""

from __future__ import annotations

from typing import Any

import pytest

import mxgemm as mx
from mxgemm import device, gpu
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.selection import _CHAINS, _ONE_CHAIN
from mxgemm.kernels.hopper.tiles import PANEL, HopperTile
from mxgemm.problem import GemmProblem
from tests.kernels.hopper.device_arrays import GuardedArray, guarded, same_bits
from tests.kernels.hopper.test_gpu_hopper import E4M3, aligned_pad, check, draw, operands
from tests.policies import outcome, product

pytestmark = pytest.mark.gpu

F16, BF16, F32 = "float16", "bfloat16", "float32"
M, N = 520, 392
SOME = ((128, 256, 2), (128, 256, 1), (128, 160, 1), (128, 80, 1), (64, 96, 1), (64, 16, 1))


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


@pytest.fixture
def two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks or clusters share all tiles, so that one is written under the next one's products."""

    def grid(kernel: HopperInstance, p: GemmProblem) -> tuple[int, int, int]:
        return (min(kernel.tile.count(p), 2) * kernel.tile.cluster, 1, 1)

    monkeypatch.setattr(HopperInstance, "grid", grid)


def shape(tile: HopperTile) -> tuple[int, int, int]:
    return tile.rows, tile.columns, tile.cluster


def checked(
    a: GuardedArray, b: GuardedArray, d: GuardedArray, turned: bool, *, bulk: bool = True, **options: Any
) -> Any:
    """As :func:`check`, and that D was stored in that orientation."""
    found = check(a, b, d, **options)
    kernel = found.outcome.plan.kernel
    assert (kernel.d_turned, kernel.bulk_store) == (turned, bulk)
    return found


@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("tile", _ONE_CHAIN, ids=str)
def test_every_tile(only: Any, tile: HopperTile, turned: bool) -> None:
    only(*shape(tile), turned=turned)
    # B of the form that runs lies along K, so that no tile is too narrow for it.
    a, b = operands(M, N, 200, (BF16, BF16), layouts="kn" if turned else "nk")
    found = checked(a, b, guarded((M, N), BF16), turned)
    assert shape(found.outcome.plan.kernel.tile) == shape(tile)


@pytest.mark.parametrize("tile", [x for x in _ONE_CHAIN if x.columns >= PANEL and x.columns % PANEL], ids=str)
def test_tiles_that_use_a_part_of_a_panel_of_b(only: Any, tile: HopperTile) -> None:
    only(*shape(tile), turned=False)
    a, b = operands(M, N, 136, (F16, F16), layouts="kn")
    checked(a, b, guarded((M, N), F16), turned=False)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("tile", _CHAINS, ids=str)
def test_every_tile_of_short_chains(only: Any, tile: HopperTile, turned: bool) -> None:
    only(*shape(tile), turned=turned)
    a, b = operands(264, 232, 528, (E4M3, E4M3))
    checked(a, b, guarded((264, 232), F32), turned)


@pytest.mark.parametrize("tile", _CHAINS, ids=str)
def test_every_tile_of_long_chains(only: Any, tile: HopperTile) -> None:
    only(*shape(tile), turned=True)
    a, b = operands(72, 200, 17000, (F16, F16))
    checked(a, b, guarded((72, 200), F16), turned=True)


@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("tile", SOME)
@pytest.mark.parametrize("bias_shape", [(1, N), (M, 1), (M, N)])
def test_c_bias_and_relu(
    only: Any, tile: tuple[int, int, int], turned: bool, bias_shape: tuple[int, int]
) -> None:
    only(*tile, turned=turned)
    a, b = operands(M, N, 136, (F16, F16), layouts="kn" if turned else "nk")
    c = guarded((M, N), F16, pad=16, values=draw((M, N), F16, 3))
    bias = guarded(bias_shape, F16, values=draw(bias_shape, F16, 4))
    checked(
        a, b, guarded((M, N), F16, pad=8), turned, c=c, alpha=1.25, beta=2.0,
        epilogue=mx.epilogue.relu(bias=bias.device), on_host=mx.epilogue.relu(bias=bias.host),
    )  # fmt: skip


def test_an_activation_and_a_scale_in_both_orientations(oriented: Any) -> None:
    a, b = operands(200, 272, 136, (BF16, BF16))
    scale = guarded((1, 272), F32, values=draw((1, 272), F32, 5))
    found = []
    for turned in (False, True):
        oriented(turned)
        gpu._lowered.cache_clear()
        d = guarded((200, 272), BF16)
        one = outcome(
            a.device, b.device, out=d.device, precision="native",
            epilogue=mx.epilogue.gelu(scale_cols=scale.device),
        )  # fmt: skip
        assert one.outcome.plan.kernel.d_turned == turned
        assert d.guards_hold()
        found.append(d.download())
    assert same_bits(*found)


@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize("tile", SOME)
def test_c_in_place(only: Any, tile: tuple[int, int, int]) -> None:
    only(*tile, turned=True)
    a, b = operands(M, N, 200, (F16, F16), layouts="kn")
    c = guarded((M, N), F16, values=draw((M, N), F16, 3))
    given = {"alpha": 0.5, "beta": 2.0, "precision": "native"}
    want = product(a.host, b.host, c.host, device="cpu", **given)
    product(a.device, b.device, c.device, out=c.device, **given)
    assert same_bits(c.download(), want)
    assert c.guards_hold()


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("n", [264, 263])
def test_results_of_any_layout(oriented: Any, turned: bool, column_major: bool, n: int) -> None:
    """Rows off 16 bytes are stored by element in either orientation."""
    oriented(turned)
    a, b = operands(136, n, 200, (F16, F16))
    d = guarded((136, n), F16, column_major=column_major)
    checked(a, b, d, turned, bulk=column_major or n % 8 == 0)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("shared_c", [False, True])
def test_batches(oriented: Any, turned: bool, shared_c: bool) -> None:
    oriented(turned)
    a, b = operands(200, 272, 136, (F16, F16), batch=(5,))
    c_shape = (200, 272) if shared_c else (5, 200, 272)
    c = guarded(c_shape, F16, values=draw(c_shape, F16, 3))
    checked(a, b, guarded((5, 200, 272), F16), turned)
    checked(a, b, guarded((5, 200, 272), F16), turned, c=c, beta=2.0)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(
    ("dtype", "d", "precision"),
    [(F16, F32, "native"), ("int8", "int32", "exact"), (E4M3, F32, "native"),
     (F32, F32, "tf32")],
)  # fmt: skip
def test_other_types(oriented: Any, turned: bool, dtype: str, d: str, precision: str) -> None:
    oriented(turned)
    a, b = operands(200, 272, 272, (dtype, dtype))
    c = guarded((200, 272), d, pad=aligned_pad(272, d), values=draw((200, 272), d, 3))
    checked(a, b, guarded((200, 272), d), turned, precision=precision)
    checked(a, b, guarded((200, 272), d), turned, precision=precision, c=c, beta=3)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize(("m", "n"), [(3072, 768), (1000, 2000), (11008, 128)])
def test_large_products_repeat_and_agree(torch: Any, oriented: Any, turned: bool, m: int, n: int) -> None:
    generator = torch.Generator(device="cuda").manual_seed(7)
    a, b = (torch.randn(*x, generator=generator, device="cuda").half() for x in ((m, 640), (640, n)))
    want = product(a, b, precision="native")
    oriented(turned)
    gpu._lowered.cache_clear()
    for _ in range(3):
        found = outcome(a, b, precision="native")
        assert found.outcome.plan.kernel.d_turned == turned
        assert torch.equal(want.view(torch.int16), found.array.view(torch.int16))
