"""Blocks with many tiles in turn give the CPU model's bits: one is written under the next one's products.

Small products have a tile for each block at most; here two blocks or clusters share all tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device, gpu
from mxgemm.kernels import lowering, table
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.problem import GemmProblem
from tests.kernels.hopper.device_arrays import guarded, same_bits
from tests.kernels.hopper.test_gpu_hopper import E4M3, TILES, aligned_pad, check, draw, operands
from tests.policies import product

pytestmark = pytest.mark.gpu

F16 = "float16"


def few_blocks(kernel: HopperInstance, p: GemmProblem) -> tuple[int, int, int]:
    return (min(kernel.tile.count(p), 2) * kernel.tile.cluster, 1, 1)


@pytest.fixture(autouse=True)
def shared_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    monkeypatch.setattr(HopperInstance, "grid", few_blocks)
    gpu._lowered.cache_clear()
    yield
    gpu._lowered.cache_clear()


@pytest.fixture
def tile(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """The only tile on offer."""
    wanted = (*request.param, 1)[:3]

    def cost(instance: Any, *_: Any) -> float:
        t = getattr(instance, "tile", None)
        return 0.0 if t and (t.rows, t.columns, t.cluster) == wanted else 1.0

    first, *others = table.KERNELS
    family = first._replace(cost=cost, declines=lambda *_: None)
    monkeypatch.setattr(lowering, "KERNELS", (family, *others))
    return request.param


@pytest.mark.parametrize("tile", TILES, indirect=True)
@pytest.mark.parametrize("k", [8, 64, 200, 1000])
@pytest.mark.parametrize("pad", [0, 1])
def test_every_tile(tile: Any, k: int, pad: int) -> None:
    m, n = 5 * tile[0] - 56, 3 * tile[1] - 8
    a, b = operands(m, n, k, (F16, F16))
    check(a, b, guarded((m, n), F16, pad=pad))


@pytest.mark.parametrize("tile", [one for one in TILES if one[2] > 1], indirect=True)
@pytest.mark.parametrize("layouts", ["kn", "nn"])
def test_clusters_share_columns_in_panels(tile: Any, layouts: str) -> None:
    m, n = 5 * tile[0] * tile[2] - 56, 3 * tile[1] - 8
    a, b = operands(m, n, 600, (F16, F16), layouts=layouts)
    check(a, b, guarded((m, n), F16))


@pytest.mark.parametrize(
    "tile", [(128, 256, 2), (128, 256), (128, 208), (128, 192), (64, 128), (64, 64)], indirect=True
)
@pytest.mark.parametrize("c_type", [F16, "float32"])
@pytest.mark.parametrize("n", [1048, 1047])
def test_c_bias_and_relu(tile: Any, c_type: str, n: int) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(700, n, 136, (F16, F16), layouts="kk")
    c = guarded((700, n), c_type, pad=aligned_pad(n, c_type), values=draw((700, n), c_type, 3))
    bias = guarded((1, n), F16, values=draw((1, n), F16, 4))
    check(
        a, b, guarded((700, n), F16, pad=aligned_pad(n, F16)), c=c, alpha=1.2, beta=2.0,
        epilogue=mx.epilogue.relu(bias=bias.device[0]), on_host=mx.epilogue.relu(bias=bias.host[0]),
    )  # fmt: skip


@pytest.mark.parametrize("tile", [(128, 256), (128, 192), (128, 128), (64, 256), (64, 16)], indirect=True)
def test_results_and_c_of_32_bits(tile: Any) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(700, 1048, 264, (F16, F16))
    c = guarded((700, 1048), "float32", values=draw((700, 1048), "float32", 3))
    check(a, b, guarded((700, 1048), "float32"))
    check(a, b, guarded((700, 1048), "float32"), c=c, beta=2.0)


@pytest.mark.parametrize("shape", [(700, 1), (1, 1048), (700, 1048)])
def test_scales_and_biases_of_every_shape(shape: tuple[int, int]) -> None:
    a, b = operands(700, 1048, 136, (F16, F16))
    arrays = {
        "bias": guarded(shape, "float32", values=draw(shape, "float32", 3)),
        "scale_rows": guarded((700, 1), "float32", values=draw((700, 1), "float32", 4)),
        "scale_cols": guarded((1, 1048), "float32", values=draw((1, 1048), "float32", 5)),
    }
    on_device = mx.epilogue.clamp(-3.0, 5.0, **{name: x.device for name, x in arrays.items()})
    on_host = mx.epilogue.clamp(-3.0, 5.0, **{name: x.host for name, x in arrays.items()})
    check(a, b, guarded((700, 1048), F16), epilogue=on_device, on_host=on_host)


@pytest.mark.parametrize("tile", [(128, 256, 2), (128, 208), (64, 64)], indirect=True)
def test_c_in_place(tile: Any) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(700, 1048, 200, (F16, F16))
    c = guarded((700, 1048), F16, values=draw((700, 1048), F16, 3))
    given = {"alpha": 0.5, "beta": 2.0, "precision": "native"}
    want = product(a.host, b.host, c.host, device="cpu", **given)
    product(a.device, b.device, c.device, out=c.device, **given)
    assert same_bits(c.download(), want)
    assert c.guards_hold()


@pytest.mark.parametrize("shared_c", [False, True])
def test_batches(shared_c: bool) -> None:
    a, b = operands(200, 272, 136, (F16, F16), batch=(5,))
    shape = (200, 272) if shared_c else (5, 200, 272)
    c = guarded(shape, F16, values=draw(shape, F16, 3))
    check(a, b, guarded((5, 200, 272), F16), c=c, beta=2.0)


@pytest.mark.parametrize("tile", [(128, 208), (128, 192), (128, 128), (64, 128), (64, 16)], indirect=True)
@pytest.mark.parametrize("d", ["float32", E4M3])
def test_float8(tile: Any, d: str) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(700, 848, 528, (E4M3, E4M3))
    check(a, b, guarded((700, 848), d))


@pytest.mark.parametrize("tile", [(128, 256), (128, 192), (64, 128)], indirect=True)
@pytest.mark.parametrize("d", ["int32", "int8"])
def test_bytes(tile: Any, d: str) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(700, 1040, 144, ("int8", "int8"))
    c = guarded((700, 1040), d, values=draw((700, 1040), d, 3))
    check(a, b, guarded((700, 1040), d), precision="exact")
    check(a, b, guarded((700, 1040), d), c=c, beta=3, precision="exact")


@pytest.mark.parametrize("tile", [(128, 192), (128, 128), (64, 64)], indirect=True)
def test_chains(tile: Any) -> None:  # noqa: ARG001  # the fixture chooses
    a, b = operands(132, 200, 17000, (F16, F16))
    c = guarded((132, 200), F16, values=draw((132, 200), F16, 3))
    check(a, b, guarded((132, 200), F16))
    check(a, b, guarded((132, 200), F16), c=c, beta=2.0)


def test_runs_on_other_data_agree_with_a_block_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = operands(1000, 1200, 520, (F16, F16))
    few = product(a.device, b.device, precision="native").cpu().numpy()
    monkeypatch.undo()
    gpu._lowered.cache_clear()
    many = product(a.device, b.device, precision="native").cpu().numpy()
    assert np.array_equal(few.view(np.uint16), many.view(np.uint16))
