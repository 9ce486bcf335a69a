"""tf32 on wgmma gives the CPU model's bits: operands off K through registers, D along its rows, overflow."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device, gpu
from mxgemm.kernels import lowering, table
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.problem import GemmProblem
from tests.kernels.hopper.device_arrays import GuardedArray, guarded, same_bits
from tests.kernels.hopper.test_gpu_hopper import TILES, aligned_pad, check, draw
from tests.policies import product

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("insist")]

F32, LAYOUTS = "float32", ("kn", "kk", "nk", "nn")
TALL = ((192, 192), (192, 128), (192, 96))
# Exact ties both ways and their neighbours, subnormal ties, the largest subnormal, zeros, the least tie.
EDGES = np.array(
    [0x3F801000, 0x3F803000, 0xBF801000, 0xBF803000, 0x3F800FFF, 0x3F801001, 0x00001000, 0x00003000,
     0x80001001, 0x007FFFFF, 0x80000000, 0x00000000, 0x00000FFF, 0x01000000], np.uint32,
).view(np.float32)  # fmt: skip
FIRST_OVERFLOW, LAST_FINITE = np.array([0x7F7FF000, 0x7F7FEFFF], np.uint32).view(np.float32)


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


def tied(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Normal numbers, one in twenty an edge of rounding."""
    rng = np.random.default_rng([seed, *shape])
    return np.where(rng.random(shape) < 0.05, rng.choice(EDGES, shape), draw(shape, F32, seed))


def column_major(name: str, layouts: str) -> bool:
    """Whether an operand is column-major."""
    return layouts[0] == "n" if name == "a" else layouts[1] == "k"


def pair(
    m: int, n: int, k: int, layouts: str, *, pad: int = 0, batch: tuple[int, ...] = (), shared: bool = False
) -> tuple[GuardedArray, GuardedArray]:
    """A and B, each with k ("k") or the other axis ("n") contiguous; ``shared``: one B for the batch."""
    a, b = (*batch, m, k), (*(() if shared else batch), k, n)
    return (
        guarded(a, F32, column_major=column_major("a", layouts), pad=pad, values=tied(a, 1)),
        guarded(b, F32, column_major=column_major("b", layouts), pad=pad, values=tied(b, 2)),
    )


def checked(a: GuardedArray, b: GuardedArray, d: GuardedArray, **options: Any) -> Any:
    return check(a, b, d, precision="tf32", **options)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("tile", [*TILES, *TALL])
def test_every_tile_in_every_layout(only: Any, tile: tuple[int, ...], layouts: str) -> None:
    only(*tile)
    a, b = pair(392, 600, 200, layouts)
    found = checked(a, b, guarded((392, 600), F32))
    assert found.outcome.plan.lowering == "wgmma"
    if tile[0] <= 128 and (layouts == "kk" or tile[2:] == (1,)):  # no clusters with A from registers
        assert found.outcome.plan.kernel.tile_shape == tile[:2]


@pytest.mark.parametrize("pad", [0, 1, 4])
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(132, 260, 68), (129, 257, 391), (4, 4, 4), (1, 260, 132), (520, 16, 200), (3, 3, 1)]
)
def test_ragged_products(layouts: str, m: int, n: int, k: int, pad: int) -> None:
    a, b = pair(m, n, k, layouts, pad=pad)
    checked(a, b, guarded((m, n), F32, pad=pad))


@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize("layouts", ["kn", "kk", "nk"])
@pytest.mark.parametrize("tile", [(128, 256, 2), (128, 256), (128, 192), (128, 128), (192, 128), (64, 64)])
@pytest.mark.parametrize("k", [8, 64, 200])
def test_tiles_in_turn(only: Any, tile: tuple[int, ...], layouts: str, k: int) -> None:
    only(*tile)
    a, b = pair(552, 600, k, layouts)
    checked(a, b, guarded((552, 600), F32))


@pytest.mark.usefixtures("two_blocks")
@pytest.mark.parametrize("layouts", ["kn", "kk", "nk"])
@pytest.mark.parametrize("tile", [(128, 256), (128, 192), (128, 128), (64, 64), (64, 16)])
@pytest.mark.parametrize(("n", "c_column_major"), [(600, False), (600, True), (599, False)])
def test_c_bias_and_relu(
    only: Any, tile: tuple[int, ...], layouts: str, n: int, c_column_major: bool
) -> None:
    only(*tile)
    a, b = pair(392, n, 136, layouts, pad=aligned_pad(n, F32) if n % 4 else 0)
    shared: dict[str, Any] = {"pad": aligned_pad(n, F32)}
    c = guarded((392, n), F32, column_major=c_column_major, values=draw((392, n), F32, 3), **shared)
    bias = guarded((1, n), F32, values=draw((1, n), F32, 4))
    checked(
        a, b, guarded((392, n), F32, **shared), c=c, alpha=1.25, beta=2.0,
        epilogue=mx.epilogue.relu(bias=bias.device[0]), on_host=mx.epilogue.relu(bias=bias.host[0]),
    )  # fmt: skip


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("shape", [(392, 1), (1, 600), (392, 600)])
def test_scales_and_biases_of_every_shape(layouts: str, shape: tuple[int, int]) -> None:
    a, b = pair(392, 600, 136, layouts)
    arrays = {
        "bias": guarded(shape, F32, values=draw(shape, F32, 3)),
        "scale_cols": guarded((1, 600), F32, values=draw((1, 600), F32, 5)),
    }
    on_device = mx.epilogue.clamp(-3.0, 5.0, **{name: x.device for name, x in arrays.items()})
    on_host = mx.epilogue.clamp(-3.0, 5.0, **{name: x.host for name, x in arrays.items()})
    checked(a, b, guarded((392, 600), F32), epilogue=on_device, on_host=on_host)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(
    ("along_rows", "pad"), [(True, 0), (True, 1), (True, 4), (False, 1)]
)  # fmt: skip
def test_results_of_any_layout(layouts: str, along_rows: bool, pad: int) -> None:
    a, b = pair(136, 264, 200, layouts)
    checked(a, b, guarded((136, 264), F32, column_major=along_rows, pad=pad))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_batches(layouts: str, shared: bool) -> None:
    a, b = pair(132, 72, 136, layouts, batch=(3,), shared=shared)
    c = guarded((3, 132, 72), F32, values=draw((3, 132, 72), F32, 3))
    checked(a, b, guarded((3, 132, 72), F32))
    checked(a, b, guarded((3, 132, 72), F32), c=c, beta=2.0)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("tile", [(128, 192), (128, 144), (128, 128), (64, 128), (64, 64), (64, 16)])
def test_chains(only: Any, tile: tuple[int, int], layouts: str) -> None:
    only(*tile)
    a, b = pair(72, 200, 20000, layouts)
    checked(a, b, guarded((72, 200), F32))


@pytest.mark.parametrize("layouts", LAYOUTS)
def test_chains_apart(layouts: str) -> None:
    a, b = pair(100, 200, 20000, layouts)
    found = checked(a, b, guarded((100, 200), F32))
    assert "then added in order" in found.outcome.plan.variant


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("shape", [(200, 272, 136), (16, 520, 200), (40, 72, 17000)])
@pytest.mark.parametrize("where", [(0, 0), (-1, -1)])
def test_only_a_finite_operand_that_rounds_to_infinity_is_flagged(
    layouts: str, shape: tuple[int, int, int], where: tuple[int, int]
) -> None:
    m, n, k = shape
    cases = itertools.product(
        (0, 1),
        (
            (FIRST_OVERFLOW, True),
            (LAST_FINITE, False),
            (-FIRST_OVERFLOW, True),
            (np.inf, False),
            (np.nan, False),
        ),
    )
    for which, (value, flagged) in cases:
        values = [np.full((m, k), 0.5, np.float32), np.full((k, n), 0.5, np.float32)]
        values[which][where] = value
        a, b = (
            guarded(x.shape, F32, column_major=column_major(name, layouts), values=x)
            for name, x in zip("ab", values, strict=True)
        )
        found = checked(a, b, guarded((m, n), F32))
        assert found.outcome.flags == (("operand-overflow",) if flagged else ())


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(("m", "n", "k"), [(1000, 1036, 4000), (2048, 2304, 2048), (260, 512, 20000)])
def test_large_products_repeat_and_agree_with_mma_sync(
    monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, layouts: str
) -> None:
    a, b = pair(m, n, k, layouts)
    found = [product(a.device, b.device, precision="tf32").cpu().numpy() for _ in range(3)]
    monkeypatch.setattr(lowering, "KERNELS", table.KERNELS[1:])
    gpu._lowered.cache_clear()
    want = product(a.device, b.device, precision="tf32").cpu().numpy()
    assert all(same_bits(x, want) for x in found)
