"""CUDA graphs, and what makes them possible: a warmed call that only launches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device
from mxgemm.device import driver
from mxgemm.errors import UnsupportedError
from tests import gpu_support as gpu
from tests.policies import generous, under

pytestmark = pytest.mark.gpu

PRECISIONS = [
    ("float16", "native"), ("bfloat16", "native"), ("float32", "tf32"), ("float32", "bf16"),
    ("float64", "native"), ("int8", "exact"), ("float32", "scalar"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def granted() -> Iterator[None]:
    """Every grant given."""
    with under(generous()):
        yield


@contextmanager
def torch_graph() -> Iterator[Any]:
    """Capture what is inside; torch's current stream is the capturing one."""
    torch = gpu.library("torch")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        yield graph


@contextmanager
def cupy_capture(stream: Any) -> Iterator[None]:
    """Capture what is inside, and end the capture whatever happens."""
    with stream:
        stream.begin_capture()
        try:
            yield
        finally:
            stream.end_capture()


def result_type(dtype: str) -> str:
    return "int32" if dtype == "int8" else dtype


def torch_case(dtype: str, seed: int) -> tuple[Any, Any, Any, np.ndarray, np.ndarray]:
    """A, B and an empty D as tensors, and A and B on the host."""
    torch = gpu.library("torch")
    a, b = gpu.operands(dtype, 64, 80, 96, seed=seed)
    out = torch.empty((64, 80), dtype=getattr(torch, result_type(dtype)), device="cuda")
    return gpu.to_torch(a), gpu.to_torch(b), out, a, b


@pytest.mark.parametrize("warm", [True, False], ids=["warmed", "prepared"])
@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS)
def test_torch_captures_a_call_and_replays_it_on_new_values(dtype: str, precision: str, warm: bool) -> None:
    x, y, out, _, b = torch_case(dtype, 1)
    if warm:
        mx.gemm(x, y, out=out, precision=precision)
    else:
        mx.prepare(x, y, out=out, precision=precision)
    with torch_graph() as graph:
        mx.gemm(x, y, out=out, precision=precision)
    other = gpu.operands(dtype, 64, 80, 96, seed=2)[0]
    x.copy_(gpu.to_torch(other))
    out.zero_()
    graph.replay()
    gpu.library("torch").cuda.synchronize()
    gpu.assert_same(out, gpu.predicted(other, b, precision=precision))


def test_cupy_captures_a_warmed_call() -> None:
    cupy = gpu.library("cupy")
    a, b = gpu.operands("float32", 64, 80, 96)
    x, y, out = gpu.to_cupy(a), gpu.to_cupy(b), gpu.to_cupy(np.zeros((64, 80), np.float32))
    stream = cupy.cuda.Stream(non_blocking=True)
    mx.gemm(x, y, out=out, precision="tf32")
    out.fill(0)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        mx.gemm(x, y, out=out, precision="tf32")
        mx.gemm(x, y, out=out, precision="tf32")
        graph = stream.end_capture()
    assert not out.any()
    graph.launch(stream)
    stream.synchronize()
    gpu.assert_same(out, gpu.predicted(a, b, precision="tf32"))


def test_a_call_with_an_epilogue_is_captured() -> None:
    x, y, out, a, b = torch_case("float16", 3)
    bias = gpu.random_like("float32", (80,), 4)
    options = {"alpha": 0.5, "precision": "native"}
    relu = mx.epilogue.relu(bias=gpu.to_torch(bias))
    mx.gemm(x, y, out=out, epilogue=relu, **options)
    out.zero_()
    with torch_graph() as graph:
        mx.gemm(x, y, out=out, epilogue=relu, **options)
    graph.replay()
    gpu.library("torch").cuda.synchronize()
    gpu.assert_same(out, gpu.predicted(a, b, epilogue=mx.epilogue.relu(bias=bias), **options))


def packed_case() -> tuple[Any, Any, Any, np.ndarray, np.ndarray]:
    """As :func:`torch_case`, with an A that has no unit stride and must be packed."""
    torch = gpu.library("torch")
    a, b = gpu.operands("float64", 40, 24, 60)
    out = torch.empty((40, 24), dtype=torch.float64, device="cuda")
    return gpu.to_torch(a)[:, ::2], gpu.to_torch(b[:30]), out, a[:, ::2], b[:30]


def test_packing_is_captured_with_a_workspace() -> None:
    torch = gpu.library("torch")
    x, y, out, a, b = packed_case()
    plan = mx.prepare(x, y, out=out, precision="native")
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    with torch_graph() as graph:
        mx.gemm(x, y, out=out, precision="native", workspace=workspace)
    workspace.fill_(255)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    gpu.assert_same(out, gpu.predicted(a, b, precision="native"))


def test_a_warmed_call_is_captured_with_a_workspace() -> None:
    torch = gpu.library("torch")
    x, y, out, a, b = packed_case()
    plan = mx.prepare(x, y, out=out, precision="native")
    workspace = torch.empty(plan.workspace_bytes, dtype=torch.uint8, device="cuda")
    for _ in range(2):
        mx.gemm(x, y, out=out, precision="native", workspace=workspace)
    with torch_graph() as graph, gpu.launches() as slow:
        mx.gemm(x, y, out=out, precision="native", workspace=workspace)
    assert len(slow) == 0, "the call took the slow road"
    workspace.fill_(255)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    gpu.assert_same(out, gpu.predicted(a, b, precision="native"))


def test_a_workspace_is_checked() -> None:
    torch = gpu.library("torch")
    x, y, out, _, _ = packed_case()
    needed = mx.explain(x, y, out=out, precision="native").workspace_bytes
    small = torch.empty(needed - 1, dtype=torch.uint8, device="cuda")
    with pytest.raises(mx.ShapeError, match=str(needed)):
        mx.gemm(x, y, out=out, precision="native", workspace=small)
    with pytest.raises(mx.DTypeError, match="uint8"):
        mx.gemm(x, y, out=out, precision="native", workspace=small.view(torch.int8))


# What cannot be captured is said


def refused(match: str, *arrays: Any, **options: Any) -> None:
    """The call raises under capture, and the capture itself survives."""
    cupy = gpu.library("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy_capture(stream), pytest.raises(UnsupportedError, match=match):
        mx.gemm(*arrays, **options)


def cupy_operands(dtype: str = "float64") -> tuple[Any, Any, Any]:
    a, b = gpu.operands(dtype, 40, 24, 60)
    return gpu.to_cupy(a), gpu.to_cupy(b), gpu.to_cupy(np.zeros((40, 24), dtype))


def test_a_result_without_out_is_refused_under_capture() -> None:
    a, b, out = cupy_operands()
    mx.gemm(a, b, out=out, precision="native")
    refused("out=", a, b, precision="native")


def test_a_kernel_that_is_not_compiled_is_refused_under_capture() -> None:
    a, b, out = cupy_operands()
    # No other test has this epilogue, so that no process has the kernel.
    rows, cols = gpu.to_cupy(np.ones(40)), gpu.to_cupy(np.ones(24))
    only = mx.epilogue.gelu("tanh", scale_rows=rows, scale_cols=cols, bias=gpu.to_cupy(np.ones((40, 1))))
    refused("prepare", a, b, out=out, precision="scalar", epilogue=only)


def test_packing_without_a_workspace_is_refused_under_capture() -> None:
    a, b, out = cupy_operands()
    mx.gemm(a[:, ::2], b[:30], out=out, precision="native")
    refused("workspace=", a[:, ::2], b[:30], out=out, precision="native")


def test_verification_is_refused_under_capture() -> None:
    a, b, out = cupy_operands()
    mx.gemm(a, b, out=out, precision="native")
    refused("verify=", a, b, out=out, precision="native", verify="full")


def test_flags_of_a_captured_product_were_not_recorded() -> None:
    cupy = gpu.library("cupy")
    a, b, out = cupy_operands("float32")
    mx.gemm(a, b, out=out, precision="tf32")
    stream = cupy.cuda.Stream(non_blocking=True)
    with cupy_capture(stream):
        r = mx.gemm_outcome(a, b, out=out, precision="tf32")
    with pytest.raises(UnsupportedError, match="captured"):
        _ = r.outcome.flags


# A warmed call only launches


@contextmanager
def driver_calls() -> Iterator[list[str]]:
    """Names of the driver functions that are called by name, which all but a warmed launch are."""
    names: list[str] = []
    real = driver.call

    def spy(function: str, *arguments: Any) -> Any:
        names.append(function)
        return real(function, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "call", spy)
        yield names


COSTLY = re.compile("Alloc|Free|Synchronize|Memcpy|Memset|Load|Query|EventCreate")


@pytest.mark.parametrize("name", ["cupy", "torch"])
@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS)
def test_a_warmed_call_allocates_and_waits_for_nothing(name: str, dtype: str, precision: str) -> None:
    a, b = gpu.operands(dtype, 64, 80, 96)
    out = np.zeros((64, 80), a.dtype if dtype != "int8" else np.int32)
    x, y, z = (gpu.TO[name](one) for one in (a, b, out))
    for _ in range(2):
        mx.gemm(x, y, out=z, precision=precision)
    with driver_calls() as names, gpu.launches() as slow:
        mx.gemm(x, y, out=z, precision=precision)
    assert [one for one in names if COSTLY.search(one)] == []
    assert len(slow) == 0, "the call took the slow road"
    gpu.assert_same(z, gpu.predicted(a, b, precision=precision))


@pytest.mark.parametrize("brought", [True, False], ids=["workspace=", "workspace of ours"])
def test_a_warmed_call_that_packs_waits_for_nothing(brought: bool) -> None:
    torch = gpu.library("torch")
    x, y, out, a, b = packed_case()
    needed = mx.explain(x, y, out=out, precision="native").workspace_bytes
    options = {"workspace": torch.empty(needed, dtype=torch.uint8, device="cuda")} if brought else {}
    for _ in range(2):
        mx.gemm(x, y, out=out, precision="native", **options)
    out.zero_()
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    marker = torch.cuda.Event()
    marker.record()
    with driver_calls() as names, gpu.launches() as slow:
        for _ in range(8):
            mx.gemm(x, y, out=out, precision="native", **options)
    assert not marker.query(), "the call waited for the device"
    assert (names, len(slow)) == ([], 0)
    gpu.assert_same(out, gpu.predicted(a, b, precision="native"))


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_workspace_of_many_warmed_calls_is_apart_on_streams_that_run_at_once(name: str) -> None:
    """Each stream's product has operands of its own: workspace that both held would give wrong bits."""
    cupy = gpu.library("cupy")
    pairs = [gpu.operands("float64", 96, 64, 160, seed=seed) for seed in (1, 2)]
    given = [(gpu.TO[name](a)[:, ::2], gpu.TO[name](b[:80])) for a, b in pairs]
    outs = [gpu.TO[name](np.zeros((96, 64))) for _ in pairs]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in pairs]
    cupy.cuda.Device().synchronize()
    for _ in range(30):
        for (x, y), out, stream in zip(given, outs, streams, strict=True):
            mx.gemm(x, y, out=out, precision="native", stream=stream)
    cupy.cuda.Device().synchronize()
    for (a, b), out in zip(pairs, outs, strict=True):
        gpu.assert_same(out, gpu.predicted(a[:, ::2], b[:80], precision="native"))


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_warmed_calls_without_out_make_results_of_their_own(name: str) -> None:
    host = [gpu.operands("float16", 64, 80, 96, seed=seed) for seed in range(4)]
    given = [tuple(gpu.TO[name](one) for one in pair) for pair in host]
    with gpu.launches() as slow:
        results = [mx.gemm(*pair, precision="native") for pair in given]
    assert len(slow) <= 1
    for found, (a, b) in zip(results, host, strict=True):
        gpu.assert_same(found, gpu.predicted(a, b, precision="native"))


def test_a_warmed_call_takes_nothing_from_cupys_pool() -> None:
    cupy = gpu.library("cupy")
    x, y, out = cupy_operands("float32")
    for _ in range(2):
        mx.gemm(x, y, out=out, precision="tf32")
    pool = cupy.get_default_memory_pool()
    before = (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks())

    def refuse(size: int) -> Any:
        raise AssertionError(f"{size} bytes were allocated")

    with cupy.cuda.using_allocator(refuse):
        mx.gemm(x, y, out=out, precision="tf32")
    assert (pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()) == before


def test_a_warmed_call_takes_nothing_from_torchs_pool() -> None:
    torch = gpu.library("torch")
    x, y, out, _, _ = torch_case("float16", 5)
    for _ in range(2):
        mx.gemm(x, y, out=out, precision="native")
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    mx.gemm(x, y, out=out, precision="native")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_warmed_call_returns_before_the_device_is_done(name: str) -> None:
    torch = gpu.library("torch")
    a, b = gpu.operands("float16", 64, 80, 96)
    x, y, z = (gpu.TO[name](one) for one in (a, b, np.zeros((64, 80), np.float16)))
    for _ in range(2):
        mx.gemm(x, y, out=z, precision="native")
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)  # a fifth of a second, on the legacy default stream of both
    marker = torch.cuda.Event()
    marker.record()
    mx.gemm(x, y, out=z, precision="native")
    assert not marker.query(), "the call waited for the device"
    torch.cuda.synchronize()
    gpu.assert_same(z, gpu.predicted(a, b, precision="native"))


def test_a_call_that_is_not_warmed_waits_for_nothing_either() -> None:
    torch = gpu.library("torch")
    x, y, _, a, b = torch_case("float16", 6)
    mx.gemm(x, y, precision="native")
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    marker = torch.cuda.Event()
    marker.record()
    found = mx.gemm(x, y, precision="native")
    assert not marker.query(), "the call waited for the device"
    gpu.assert_same(found, gpu.predicted(a, b, precision="native"))


def test_one_launch_is_bound_once() -> None:
    """The same call again makes no new launch: the prepared one is found."""
    x, y, out = cupy_operands("float32")
    made: list[Any] = []
    real = device.BoundLaunch.__init__

    def spy(self: Any, *arguments: Any, **more: Any) -> None:
        made.append(self)
        real(self, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device.BoundLaunch, "__init__", spy)
        for _ in range(4):
            mx.gemm(x, y, out=out, precision="scalar", alpha=1.03125)
    assert len(made) == 1
