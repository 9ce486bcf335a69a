"""gemm() on a GPU, from arrays of every library to results that the CPU run predicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxgemm as mx
from mxgemm import array, device
from mxgemm.device import kernel
from mxgemm.errors import UnsupportedError, VerificationError
from tests import gpu_support as gpu
from tests.policies import generous, under

pytestmark = pytest.mark.gpu

PRECISIONS = [
    ("float16", "native"), ("bfloat16", "native"), ("float32", "tf32"), ("float32", "f16"),
    ("float32", "bf16"), ("float32", "f64"), ("float64", "native"), ("int8", "exact"),
    ("uint8", "exact"), ("float32", "scalar"), ("int64", "scalar"), ("uint16", "scalar"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def granted() -> Iterator[None]:
    """Every grant given."""
    with under(generous()):
        yield


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail on a copy between host and device by the library's own means."""

    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise AssertionError("data were copied between host and device")

    for name in ("copy_to_host", "copy_to_device"):
        monkeypatch.setattr(device, name, refuse)


def test_the_device_is_the_one_of_the_table() -> None:
    assert device.capabilities(0).arch in ("sm_80", "sm_86", "sm_89", "sm_90")


# Libraries


@pytest.mark.parametrize("name", ["cupy", "torch", "jax"])
def test_the_result_is_of_the_operands_library(name: str) -> None:
    a, b = gpu.operands("float16")
    x, y = gpu.TO[name](a), gpu.TO[name](b)
    found = mx.gemm(x, y, precision="native")
    assert array.view(found).library == name
    gpu.assert_same(found, gpu.predicted(a, b, precision="native"))


@pytest.mark.parametrize("name", ["cupy", "torch", "jax"])
@pytest.mark.usefixtures("no_copies")
def test_nothing_is_copied(name: str) -> None:
    a, b = gpu.operands("float32")
    assert mx.gemm(gpu.TO[name](a), gpu.TO[name](b), precision="scalar") is not None


@pytest.mark.parametrize("name", ["cupy", "torch", "jax"])
def test_bfloat16_goes_in_and_out(name: str) -> None:
    a, b = gpu.operands("bfloat16")
    found = mx.gemm(gpu.TO[name](a), gpu.TO[name](b), precision="native")
    gpu.assert_same(found, gpu.predicted(a, b, precision="native"))


@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS)
def test_numpy_arrays_go_to_the_device_and_back(dtype: str, precision: str) -> None:
    a, b = gpu.operands(dtype)
    found = mx.gemm(a, b, precision=precision, device="cuda")
    assert isinstance(found, np.ndarray)
    gpu.assert_same(found, gpu.predicted(a, b, precision=precision))


def test_ml_dtypes_arrays_go_to_the_device_and_back() -> None:
    a, b = gpu.operands("bfloat16")
    found = mx.gemm(a, b, precision="native", device="cuda")
    assert found.dtype == ml_dtypes.bfloat16


def test_numpy_arrays_with_everything_else_on_the_host() -> None:
    a, b = gpu.operands("float16", 40, 24, 56)
    c, bias = gpu.random_like("float16", (40, 24), 2), gpu.random_like("float32", (24,), 3)
    options = {"alpha": 1.5, "beta": -0.5, "epilogue": mx.epilogue.relu(bias=bias), "precision": "native"}
    out = np.zeros((40, 24), np.float16)
    assert mx.gemm(a, b, c, out=out, device="cuda", **options) is out
    gpu.assert_same(out, gpu.predicted(a, b, c, **options))


def test_strided_numpy_arrays_go_to_the_device() -> None:
    a, b = gpu.operands("float32", 30, 50, 44)
    x, y = a[::2, ::-1], b[::-1, ::3]
    out = np.zeros((17, 15), np.float32).T
    mx.gemm(x, y, precision="f64", device="cuda", out=out)
    gpu.assert_same(out, gpu.predicted(x, y, precision="f64"))


def test_cpu_tensors_come_back_as_cpu_tensors() -> None:
    torch = gpu.library("torch")
    a, b = gpu.operands("float32")
    found = mx.gemm(torch.from_numpy(a), torch.from_numpy(b), precision="tf32", device="cuda")
    assert isinstance(found, torch.Tensor)
    assert found.device.type == "cpu"
    gpu.assert_same(found, gpu.predicted(a, b, precision="tf32"))


@pytest.mark.parametrize("name", ["cupy", "torch"])
@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS)
def test_the_cpu_predicts_device_arrays(name: str, dtype: str, precision: str) -> None:
    a, b = (gpu.TO[name](x) for x in gpu.operands(dtype, 33, 47, 129))
    on_device = mx.gemm(a, b, precision=precision)
    model = mx.gemm(a, b, precision=precision, device="cpu")
    assert array.view(model).library == name
    gpu.assert_same(on_device, gpu.host(model))


def test_another_architecture_is_predicted_for_device_arrays() -> None:
    a, b = gpu.operands("float16")
    found = mx.gemm(gpu.to_cupy(a), gpu.to_cupy(b), precision="native", device="cpu:sm_80")
    gpu.assert_same(found, np.asarray(mx.gemm(a, b, precision="native", device="cpu:sm_80")))


def test_mixed_libraries_and_protocols() -> None:
    class Interface:
        def __init__(self, x: Any) -> None:
            self.kept, self.__cuda_array_interface__ = x, x.__cuda_array_interface__

    a, b = gpu.operands("float32")
    x, y = Interface(gpu.to_cupy(a)), gpu.to_torch(b)
    out = gpu.to_torch(np.zeros((65, 72), np.float32))
    assert mx.gemm(x, y, out=out, precision="tf32") is out
    gpu.assert_same(out, gpu.predicted(a, b, precision="tf32"))


def test_what_has_a_gradient_or_cannot_change_is_refused() -> None:
    a, b = gpu.operands("float32")
    x = gpu.to_torch(a).requires_grad_()
    with pytest.raises(UnsupportedError, match="requires_grad"):
        mx.gemm(x, gpu.to_torch(b), precision="scalar")
    y = gpu.to_jax(b)
    with pytest.raises(UnsupportedError, match="immutable"):
        mx.gemm(gpu.to_jax(a), y, precision="scalar", out=gpu.to_jax(np.zeros((65, 72), np.float32)))


# Streams


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_the_product_runs_on_the_librarys_current_stream(name: str) -> None:
    a, b = (gpu.TO[name](x) for x in gpu.operands("float16"))
    module = gpu.library(name)
    if name == "cupy":
        stream = module.cuda.Stream(non_blocking=True)
        handle, current = stream.ptr, stream
    else:
        stream = module.cuda.Stream()
        handle, current = stream.cuda_stream, module.cuda.stream(stream)
    with gpu.launches() as seen, current:
        mx.gemm_outcome(a, b, precision="native")
    stream.synchronize()
    assert set(seen.streams) == {handle}


def test_stream_and_out_decide_before_the_operands() -> None:
    cupy, torch = gpu.library("cupy"), gpu.library("torch")
    a, b = (gpu.to_cupy(x) for x in gpu.operands("float32"))
    out = gpu.to_torch(np.zeros((65, 72), np.float32))
    mine, given = torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True)
    with gpu.launches() as seen, torch.cuda.stream(mine):
        mx.gemm_outcome(a, b, precision="scalar", out=out)
        mx.gemm_outcome(a, b, precision="scalar", out=out, stream=given)
        mx.gemm_outcome(a, b, precision="scalar", out=out, stream=given.ptr)
    torch.cuda.synchronize()
    assert seen.streams == [mine.cuda_stream, given.ptr, given.ptr]


def test_a_warmed_call_waits_for_what_its_stream_holds() -> None:
    torch = gpu.library("torch")
    a, b = gpu.operands("float16")
    x, y, source = gpu.to_torch(np.zeros_like(a)), gpu.to_torch(b), gpu.to_torch(a)
    out, stream = torch.empty((65, 72), dtype=torch.float16, device="cuda"), torch.cuda.Stream()
    for _ in range(3):
        mx.gemm(x, y, out=out, precision="native")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.copy_(source)
        mx.gemm(x, y, out=out, precision="native")
    stream.synchronize()
    gpu.assert_same(out, gpu.predicted(a, b, precision="native"))


# Outcome, plan, verification


@pytest.mark.parametrize("precision", ["f16", "tf32", "bf16"])
def test_operand_overflow_is_flagged(precision: str) -> None:
    a, b = (np.clip(x, -100, 100) for x in gpu.operands("float32"))
    large = a.copy()
    large[3, 5] = np.finfo(np.float32).max
    r = mx.gemm_outcome(gpu.to_cupy(large), gpu.to_cupy(b), precision=precision)
    assert r.outcome.flags == ("operand-overflow",)
    assert mx.gemm_outcome(gpu.to_cupy(a), gpu.to_cupy(b), precision=precision).outcome.flags == ()
    gpu.assert_same(r.array, gpu.predicted(large, b, precision=precision))


def test_fp8_overflow_is_flagged() -> None:
    a, b = (gpu.random_like("float8_e4m3fn", shape, 4) for shape in ((32, 16), (16, 48)))
    options: dict[str, Any] = {"precision": "scalar", "out_dtype": "float8_e4m3fn", "alpha": 500}
    r = mx.gemm_outcome(gpu.to_torch(a), gpu.to_torch(b), **options)
    assert r.outcome.flags == ("fp8-overflow",)
    gpu.assert_same(r.array, gpu.predicted(a, b, **options))


def test_the_plan_names_the_kernel_and_what_is_packed() -> None:
    a, b = gpu.operands("float64", 40, 24, 60)
    x = gpu.to_cupy(a)[:, ::2]
    plan = mx.explain(x, gpu.to_cupy(b[:30]), precision="native")
    assert plan.kernel is not None
    assert plan.workspace_bytes >= 40 * 30 * 8
    assert "packed" in str(plan)
    assert "cuda:0" in str(plan)


def test_explaining_launches_nothing() -> None:
    a, b = (gpu.to_cupy(x) for x in gpu.operands("float16"))
    with gpu.launches() as seen:
        mx.explain(a, b, precision="native")
    assert len(seen) == 0


@pytest.mark.parametrize(("dtype", "precision"), PRECISIONS[:8])
def test_every_entry_is_verified(dtype: str, precision: str) -> None:
    a, b = (gpu.to_torch(x) for x in gpu.operands(dtype))
    r = mx.gemm_outcome(a, b, precision=precision, verify="full")
    assert r.certificate is not None
    assert r.certificate.passed
    assert r.certificate.entries == 65 * 72
    assert array.view(r.array).library == "torch"


def test_a_wrong_result_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = (gpu.to_cupy(x) for x in gpu.operands("float32"))
    out = gpu.to_cupy(np.full((65, 72), 7, np.float32))
    real = array.to_host

    def tampered(view: Any, stream: int | None = None) -> Any:
        # Only the result is fetched on the product's stream.
        return real(view) if stream is None else real(view, stream) * np.float32(1.5) + np.float32(1)

    monkeypatch.setattr(array, "to_host", tampered)
    with pytest.raises(VerificationError):
        mx.gemm(a, b, precision="scalar", verify="full", out=out)
    monkeypatch.undo()
    assert np.all(out.get() == 7)


@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_prepared_call_compiles_and_loads_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = gpu.operands("float32", 48, 80, 112)
    bias = gpu.random_like("float32", (80,), 5)
    silu = mx.epilogue.silu(bias=gpu.TO[name](bias))
    specs = (mx.ArraySpec((48, 112), "float32"), mx.ArraySpec((112, 80), "float32"))
    plan = mx.prepare(*specs, precision="bf16", epilogue=silu)
    assert plan.workspace_bytes == 0

    def refuse(*_arguments: Any, **_more: Any) -> None:
        raise AssertionError("a kernel was loaded")

    monkeypatch.setattr(kernel, "_load", refuse)
    mx.gemm(gpu.TO[name](a), gpu.TO[name](b), precision="bf16", epilogue=silu)


# Shared memory between arguments


def _square(dtype: str = "float32") -> tuple[Any, Any]:
    return gpu.operands(dtype, 48, 48, 48)


@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize(
    ("dtype", "precision"), [("float16", "native"), ("float64", "native"), ("float32", "tf32")]
)
def test_out_may_be_an_operand(which: str, dtype: str, precision: str) -> None:
    a, b = _square(dtype)
    expected = gpu.predicted(a, b, precision=precision)
    x, y = gpu.to_cupy(a), gpu.to_cupy(b)
    out = x if which == "a" else y
    for _ in range(2):  # the second one would be warmed if the first had been without an overlap
        x[...], y[...] = gpu.to_cupy(a), gpu.to_cupy(b)
        assert mx.gemm(x, y, out=out, precision=precision) is out
        gpu.assert_same(out, expected)


def test_a_warmed_call_sees_that_out_became_an_operand() -> None:
    a, b = _square()
    x, y, z = (gpu.to_cupy(one) for one in (a, b, a))
    for _ in range(3):
        mx.gemm(x, y, out=z, precision="tf32")
    mx.gemm(x, y, out=x, precision="tf32")
    gpu.assert_same(x, gpu.predicted(a, b, precision="tf32"))


@pytest.mark.parametrize("shift", [0, 1, 7, -5])
def test_out_may_overlap_an_operand(shift: int) -> None:
    a, b = _square()
    memory = gpu.to_cupy(np.zeros(4 * 48 * 48, np.float32))
    x = memory[3000 : 3000 + 48 * 48].reshape(48, 48)
    x[...] = gpu.to_cupy(a)
    first = 3000 + 48 * shift + shift
    out = memory[first : first + 48 * 48].reshape(48, 48)
    mx.gemm(x, gpu.to_cupy(b), out=out, precision="scalar")
    gpu.assert_same(out, gpu.predicted(a, b, precision="scalar"))


@pytest.mark.parametrize("precision", ["scalar", "tf32", "f64"])
def test_c_may_be_out_in_place_and_warmed(precision: str) -> None:
    a, b = gpu.operands("float32", 48, 40, 56)
    c = gpu.random_like("float32", (48, 40), 6)
    expected = gpu.predicted(a, b, c, precision=precision, alpha=2, beta=0.5)
    x, y, z = gpu.to_cupy(a), gpu.to_cupy(b), gpu.to_cupy(c)
    for _ in range(3):
        z[...] = gpu.to_cupy(c)
        mx.gemm(x, y, z, out=z, precision=precision, alpha=2, beta=0.5)
        gpu.assert_same(z, expected)


def test_c_may_overlap_out_otherwise() -> None:
    a, b = gpu.operands("float32", 32, 32, 24)
    c = gpu.random_like("float32", (32, 32), 7)
    memory = gpu.to_cupy(np.zeros(40 * 32, np.float32))
    z, out = memory[: 32 * 32].reshape(32, 32), memory[5 * 32 : 37 * 32].reshape(32, 32)
    z[...] = gpu.to_cupy(c)
    mx.gemm(gpu.to_cupy(a), gpu.to_cupy(b), z, out=out, precision="tf32", beta=1)
    gpu.assert_same(out, gpu.predicted(a, b, c, precision="tf32", beta=1))


# Launches


def test_one_product_is_one_launch() -> None:
    a, b = (gpu.to_cupy(x) for x in gpu.operands("float64", batch=(3, 2)))
    with gpu.launches() as seen:
        mx.gemm_outcome(a, b, precision="native")
    assert len(seen) == 1


def test_packing_is_a_launch_of_its_own() -> None:
    a, b = gpu.operands("float64", 33, 20, 50)
    x, y = gpu.to_cupy(a)[:, ::2], gpu.to_cupy(b[:25])
    with gpu.launches() as seen:
        r = mx.gemm_outcome(x, y, precision="native")
    assert len(seen) == 2
    assert seen.entries[0].startswith("mxgemm_pack")
    gpu.assert_same(r.array, gpu.predicted(a[:, ::2], b[:25], precision="native"))


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7)])
def test_an_empty_result_launches_nothing(shape: tuple[int, int, int]) -> None:
    a, b = gpu.operands("float16", *shape)
    with gpu.launches() as seen:
        r = mx.gemm_outcome(gpu.to_cupy(a), gpu.to_cupy(b), precision="native")
    assert len(seen) == 0
    assert r.array.shape == (shape[0], shape[1])


def test_k_of_zero_gives_zeros_or_beta_c() -> None:
    a, b = gpu.operands("float16", 5, 6, 0)
    c = gpu.random_like("float16", (5, 6), 8)
    out = gpu.to_cupy(np.full((5, 6), np.nan, np.float16))
    mx.gemm(gpu.to_cupy(a), gpu.to_cupy(b), out=out, precision="native")
    gpu.assert_same(out, np.zeros((5, 6), np.float16))
    mx.gemm(gpu.to_cupy(a), gpu.to_cupy(b), gpu.to_cupy(c), beta=2, out=out, precision="native")
    gpu.assert_same(out, gpu.predicted(a, b, c, beta=2, precision="native"))


def test_many_batch_axes_that_do_not_merge() -> None:
    a, b = gpu.operands("float64", 5, 6, 7, batch=(2, 3, 2, 3, 2))
    x, y = gpu.to_cupy(a), gpu.to_cupy(b)
    spread = gpu.to_cupy(np.zeros((4, 5, 4, 5, 4, 5, 6)))
    out = spread[::2, ::2, ::2, ::2, ::2]
    mx.gemm(x, y, out=out, precision="native")
    gpu.assert_same(gpu.library("cupy").ascontiguousarray(out), gpu.predicted(a, b, precision="native"))


def test_broadcast_batches_and_vectors() -> None:
    a, b = gpu.operands("float16", 9, 12, 16, batch=(4,))
    for x, y in ((a, b[0]), (a[:1], b), (a[0], b), (a[0, 0], b), (a, b[0, :, 0])):
        found = mx.gemm(gpu.to_cupy(x), gpu.to_cupy(y), precision="native")
        gpu.assert_same(found, gpu.predicted(x, y, precision="native"))


def test_two_vectors_give_a_number() -> None:
    a, b = gpu.operands("float16", 1, 1, 100)
    found = mx.gemm(gpu.to_cupy(a[0]), gpu.to_cupy(b[:, 0]), precision="native")
    assert found.shape == ()
    assert float(found) == float(gpu.predicted(a[0], b[:, 0], precision="native"))


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_a_repeated_call_without_out_returns_a_new_array_each_time(library: str) -> None:
    a, b = gpu.operands("float16", 64, 80, 96)
    move = gpu.to_cupy if library == "cupy" else gpu.to_torch
    x, y = move(a), move(b)
    results = [mx.gemm(x, y, alpha=2, precision="native") for _ in range(3)]
    assert len({array.view(r).pointer for r in results}) == 3
    for result in results:
        assert type(result) is type(x)
        gpu.assert_same(result, gpu.predicted(a, b, alpha=2, precision="native"))
    with pytest.raises(mx.ShapeError):
        mx.gemm(x, move(b[:-1]), alpha=2, precision="native")
