"""The wgmma family on a Hopper GPU gives the CPU model's bits in every layout, tile, epilogue."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.units.formats import numpy_dtype
from tests.kernels.hopper.device_arrays import GuardedArray, guarded, same_bits
from tests.policies import generous, outcome, product, under

pytestmark = pytest.mark.gpu

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
TILES = (
    (256, 192, 1), (192, 192, 2), (192, 192, 1), (192, 128, 1), (192, 96, 2),
    (128, 64, 1), (128, 192, 2), (128, 128, 2), (64, 192, 2),
    (128, 256, 2), (128, 256, 1), (128, 208, 1), (128, 192, 1), (128, 144, 1), (128, 128, 1), (64, 256, 1),
    (64, 128, 1), (64, 64, 1), (64, 32, 1), (64, 16, 1),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


def draw(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Normal floats, some of them zero, subnormal or far from 1; uniform integers."""
    rng = np.random.default_rng([seed, *shape])
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
    scale = rng.choice([0.0, 1e-6, 1.0, 1.0, 1.0, 30.0], shape)
    return (rng.standard_normal(shape) * scale).astype(np.float32).astype(kind)


def check(
    a: GuardedArray, b: GuardedArray, d: GuardedArray, *, lowered: str = "wgmma", precision: str = "native",
    c: GuardedArray | None = None, epilogue: Any = None, on_host: Any = None, **options: Any,
) -> Any:  # fmt: skip
    """Three runs on the device into poisoned memory, against one on the CPU model."""
    on_host = epilogue if on_host is None else on_host
    want = product(
        a.host, b.host, None if c is None else c.host, precision=precision, epilogue=on_host, device="cpu",
        out_dtype=d.host.dtype.name, **options,
    )  # fmt: skip
    for _ in range(3):
        d.poison()
        found = outcome(
            a.device, b.device, None if c is None else c.device, precision=precision, epilogue=epilogue,
            out=d.device, **options,
        )  # fmt: skip
        assert found.outcome.plan.lowering == lowered
        assert same_bits(d.download(), want)
        assert d.guards_hold()
    return found


def operands(
    m: int, n: int, k: int, types: tuple[str, str], *, layouts: str = "kk", pad: int = 0, offset: int = 0,
    batch: tuple[int, ...] = (),
) -> tuple[GuardedArray, GuardedArray]:  # fmt: skip
    """A and B, each with k ("k") or the other axis ("n") contiguous."""
    shared: dict[str, Any] = {"pad": pad, "offset": offset}
    a_shape, b_shape = (*batch, m, k), (*batch, k, n)
    return (
        guarded(
            a_shape, types[0], column_major=layouts[0] == "n", values=draw(a_shape, types[0], 1), **shared
        ),
        guarded(
            b_shape, types[1], column_major=layouts[1] == "k", values=draw(b_shape, types[1], 2), **shared
        ),
    )


def aligned_pad(extent: int, dtype: str) -> int:
    """What makes a leading dimension a multiple of 16 bytes."""
    return -extent % (16 // numpy_dtype(dtype).itemsize)


@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 256, 64), (200, 272, 136), (8, 8, 8), (264, 520, 1000)])
def test_aligned_layouts(layouts: str, m: int, n: int, k: int) -> None:
    a, b = operands(m, n, k, ("float16", "float16"), layouts=layouts)
    check(a, b, guarded((m, n), "float16", pad=8))


@pytest.mark.usefixtures("insist")
@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
@pytest.mark.parametrize(("m", "n", "k"), [(129, 257, 65), (5, 7, 3), (1, 1, 1), (1, 300, 77), (300, 1, 130)])
@pytest.mark.parametrize("offset", [0, 1])
def test_unaligned_layouts(layouts: str, m: int, n: int, k: int, offset: int) -> None:
    a, b = operands(m, n, k, ("float16", "float16"), layouts=layouts, pad=1, offset=offset)
    check(a, b, guarded((m, n), "float16", pad=3, offset=offset))


@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
def test_rows_that_end_inside_a_piece(layouts: str) -> None:
    """The copy engine fills with zeros from the last element on, not from the next 16 bytes on."""
    a, b = operands(197, 269, 77, ("float16", "float16"), layouts=layouts, pad=3)
    found = check(a, b, guarded((197, 269), "float16", pad=3))
    assert found.outcome.plan.workspace_bytes == 0


@pytest.mark.usefixtures("insist")
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
@pytest.mark.parametrize(("m", "n", "k"), [(200, 272, 144), (129, 257, 391), (3, 80, 20000)])
def test_rounding_to_tf32(layouts: str, m: int, n: int, k: int, offset: int) -> None:
    a, b = operands(m, n, k, ("float32", "float32"), layouts=layouts, offset=offset)
    check(a, b, guarded((m, n), "float32", pad=offset), precision="tf32")


@pytest.mark.usefixtures("insist")
@pytest.mark.parametrize("layouts", ["kk", "nn"])
def test_operands_that_round_to_infinity_are_flagged(layouts: str) -> None:
    x, y = np.ones((40, 90), np.float32), np.ones((90, 50), np.float32)
    x[-1, -1] = np.float32(3.4028235e38)
    a = guarded(x.shape, "float32", values=x, column_major=layouts[0] == "n")
    b = guarded(y.shape, "float32", values=y, column_major=layouts[1] == "k")
    found = check(a, b, guarded((40, 50), "float32"), precision="tf32")
    assert found.outcome.flags == ("operand-overflow",)
    x[-1, -1] = np.inf
    a = guarded(x.shape, "float32", values=x, column_major=layouts[0] == "n")
    assert check(a, b, guarded((40, 50), "float32"), precision="tf32").outcome.flags == ()


@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
@pytest.mark.parametrize("m", [1, 2, 16, 17, 32])
@pytest.mark.parametrize("turned", [True, False])
def test_few_rows_in_both_orientations(oriented: Any, turned: bool, layouts: str, m: int) -> None:
    oriented(turned)
    pad = aligned_pad(m, "float16") if layouts[0] == "n" else 0
    a, _ = operands(m, 8, 520, ("float16", "float16"), layouts=layouts, pad=pad)
    _, b = operands(8, 1000, 520, ("float16", "float16"), layouts=layouts)
    bias = guarded((1, 1000), "float16", values=draw((1, 1000), "float16", 4))
    found = check(
        a, b, guarded((m, 1000), "float16"), epilogue=mx.epilogue.relu(bias=bias.device[0]),
        on_host=mx.epilogue.relu(bias=bias.host[0]),
    )  # fmt: skip
    assert found.outcome.plan.kernel.d_turned == turned


@pytest.mark.parametrize("n", [200, 203])
def test_chains_apart(n: int) -> None:
    a, b = operands(100, n, 20000, ("float16", "float16"))
    c = guarded((100, n), "float32", values=draw((100, n), "float32", 3))
    bias = guarded((1, n), "float16", values=draw((1, n), "float16", 4))
    found = check(
        a, b, guarded((100, n), "float16", pad=1), c=c, alpha=1.2, beta=2.0,
        epilogue=mx.epilogue.relu(bias=bias.device[0]), on_host=mx.epilogue.relu(bias=bias.host[0]),
    )  # fmt: skip
    assert "then added in order" in found.outcome.plan.variant


def test_a_captured_call_without_workspace_runs_what_needs_none(torch: Any) -> None:
    a, b = operands(1025, 1025, 1025, ("float16", "float16"))
    d = guarded((1025, 1025), "float16")
    with under(generous()):
        assert mx.explain(a.device, b.device, out=d.device, precision="native").workspace_bytes > 0
        mx.prepare(a.device, b.device, out=d.device, precision="native")
    product(a.device, b.device, precision="native", out=d.device)
    want = d.download()
    d.poison()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product(a.device, b.device, precision="native", out=d.device)
    graph.replay()
    torch.cuda.synchronize()
    assert same_bits(d.download(), want)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("layouts", ["kk", "nn"])
def test_every_tile(only: Any, tile: tuple[int, int, int], layouts: str) -> None:
    only(*tile)
    a, b = operands(648, 1048, 200, ("bfloat16", "bfloat16"), layouts=layouts)
    found = check(a, b, guarded((648, 1048), "bfloat16"))
    # Panels of operands along N are 64 wide, for which the shared memory does not suffice everywhere.
    if layouts == "kk" or tile[:2] not in ((128, 208), (64, 32), (64, 16)):
        assert found.outcome.plan.kernel.tile_shape == tile[:2]


@pytest.mark.parametrize("types", list(itertools.product(("int8", "uint8"), repeat=2)))
@pytest.mark.usefixtures("insist")
@pytest.mark.parametrize(("pad", "layouts"), [(0, "kk"), (1, "kk"), (0, "nn"), (1, "nk")])
def test_bytes(types: tuple[str, str], pad: int, layouts: str) -> None:
    a, b = operands(200, 272, 144, types, pad=pad, layouts=layouts)
    check(a, b, guarded((200, 272), "int32"), precision="exact")


@pytest.mark.parametrize("types", list(itertools.product((E4M3, E5M2), repeat=2)))
@pytest.mark.parametrize("tile", [(128, 208), (128, 192), (128, 128), (64, 128), (64, 64), (64, 16)])
def test_float8(only: Any, types: tuple[str, str], tile: tuple[int, int]) -> None:
    only(*tile)
    a, b = operands(200, 432, 1040, types)
    check(a, b, guarded((200, 432), "float32"))


@pytest.mark.parametrize("layouts", ["kk", "kn", "nk", "nn"])
def test_float8_of_any_layout_and_alignment(layouts: str) -> None:
    a, b = operands(129, 257, 391, (E4M3, E5M2), layouts=layouts, pad=1)
    check(a, b, guarded((129, 257), "float32"))


def test_float8_results_saturate_and_say_so() -> None:
    a, b = operands(200, 272, 256, (E4M3, E4M3))
    found = check(a, b, guarded((200, 272), E4M3), alpha=100.0)
    assert found.outcome.flags == ("fp8-overflow",)


def test_float8_without_a_product() -> None:
    a, b = operands(40, 50, 64, (E4M3, E4M3))
    c = guarded((40, 50), "float32", values=draw((40, 50), "float32", 3))
    check(a, b, guarded((40, 50), "float32"), c=c, alpha=0, beta=2.0, lowered="scalar")


@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("tile", [(128, 192), (128, 128), (64, 128), (64, 64), (64, 16)])
def test_chains(only: Any, pad: int, tile: tuple[int, int]) -> None:
    only(*tile)
    a, b = operands(72, 200, 20000, ("float16", "float16"), pad=pad)
    check(a, b, guarded((72, 200), "float16"))


@pytest.mark.parametrize("c_type", ["float16", "float32"])
@pytest.mark.parametrize("n", [272, 271])
@pytest.mark.parametrize("tile", [(128, 256), (128, 192), (64, 64)])
def test_c_bias_and_relu(only: Any, c_type: str, n: int, tile: tuple[int, int]) -> None:
    only(*tile)
    a, b = operands(200, n, 136, ("float16", "float16"), layouts="kk")
    c = guarded((200, n), c_type, pad=aligned_pad(n, c_type), values=draw((200, n), c_type, 3))
    bias = guarded((1, n), "float16", values=draw((1, n), "float16", 4))
    check(
        a, b, guarded((200, n), "float16", pad=aligned_pad(n, "float16")), c=c, alpha=1.2, beta=2.0,
        epilogue=mx.epilogue.relu(bias=bias.device[0]), on_host=mx.epilogue.relu(bias=bias.host[0]),
    )  # fmt: skip


def test_scales_and_a_bias_along_rows() -> None:
    a, b = operands(200, 272, 136, ("float16", "float16"))
    arrays = {
        "bias": guarded((200, 1), "float32", values=draw((200, 1), "float32", 3)),
        "scale_rows": guarded((200, 1), "float32", values=draw((200, 1), "float32", 4)),
        "scale_cols": guarded((1, 272), "float32", values=draw((1, 272), "float32", 5)),
    }
    on_device = mx.epilogue.clamp(-3.0, 5.0, **{name: x.device for name, x in arrays.items()})
    on_host = mx.epilogue.clamp(-3.0, 5.0, **{name: x.host for name, x in arrays.items()})
    check(a, b, guarded((200, 272), "float32"), epilogue=on_device, on_host=on_host)


@pytest.mark.usefixtures("insist")
@pytest.mark.parametrize("pad", [0, 1])
def test_batches(pad: int) -> None:
    a, b = operands(130, 72, 136, ("float16", "float16"), batch=(3,), pad=pad)
    check(a, b, guarded((3, 130, 72), "float16", pad=pad))


def test_an_operand_that_the_batch_shares() -> None:
    a, _ = operands(130, 72, 136, ("float16", "float16"), batch=(3,))
    _, b = operands(130, 72, 136, ("float16", "float16"))
    check(a, b, guarded((3, 130, 72), "float16"))


def test_float8_over_two_batch_axes_that_do_not_merge() -> None:
    a, _ = operands(40, 72, 144, (E4M3, E4M3), batch=(3, 2))
    _, b = operands(40, 72, 144, (E4M3, E4M3), batch=(2,))
    check(a, b, guarded((3, 2, 40, 72), "float32"))


@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("pad", [0, 1])
def test_results_of_any_layout(column_major: bool, pad: int) -> None:
    a, b = operands(136, 264, 200, ("float16", "float16"))
    check(a, b, guarded((136, 264), "float16", column_major=column_major, pad=pad))


@pytest.mark.usefixtures("insist")
def test_special_values_in_the_last_rows_and_columns() -> None:
    x, y = draw((131, 97), "float16", 1), draw((97, 261), "float16", 2)
    x[-1, -1], x[-2, :] = np.inf, 0.0
    y[:, -1], y[-1, -2] = np.nan, -np.inf
    a = guarded(x.shape, "float16", values=x, pad=1)
    b = guarded(y.shape, "float16", values=y, pad=1, column_major=True)
    check(a, b, guarded((131, 261), "float16"))


@pytest.mark.parametrize("size", [4096, 4097])
def test_large_products_repeat_and_match_samples(torch: Any, size: int) -> None:
    generator = torch.Generator(device="cuda").manual_seed(7)
    a, b = (torch.randn(size, size, generator=generator, device="cuda").half() for _ in "ab")
    results = [product(a, b, precision="native") for _ in range(3)]
    assert all(torch.equal(results[0].view(torch.int16), x.view(torch.int16)) for x in results[1:])
    picked = torch.randint(0, size, (40,), generator=generator, device="cuda")
    want = product(a[picked].cpu().numpy(), b[:, picked].cpu().numpy(), precision="native", device="cpu")
    assert same_bits(results[0][picked][:, picked].cpu().numpy(), want)


def test_warmed_calls_follow_the_pointers(torch: Any) -> None:
    pairs = [[torch.randn(256, 256, device="cuda").half() for _ in "ab"] for _ in range(4)]
    out = torch.empty(256, 256, dtype=torch.float16, device="cuda")
    for a, b in pairs * 2:
        product(a, b, precision="native", out=out)
        want = product(a.cpu().numpy(), b.cpu().numpy(), precision="native", device="cpu")
        assert same_bits(out.cpu().numpy(), want)


def test_the_plan_names_the_family_and_why(torch: Any) -> None:
    a = torch.zeros(512, 512, dtype=torch.float16, device="cuda")
    plan = outcome(a, a, precision="native").outcome.plan
    assert isinstance(plan.kernel, HopperInstance)
    assert any("us predicted" in note for note in plan.notes)
