"""What the fakes cannot show: kernels, streams, graphs, threads and array libraries on a real device."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxgemm import array, device
from mxgemm.errors import DTypeError, UnsupportedError

pytestmark = pytest.mark.gpu

SOURCE = """
extern "C" __global__ void scale(float* x, double factor, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] = (float)factor * x[i];
}
"""
REVERSE = """
extern "C" __global__ void reverse(int* x, long long n) {
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = tile[n - 1 - i];
}
"""


@pytest.fixture(scope="module")
def cupy() -> Any:
    """CuPy."""
    return pytest.importorskip("cupy")


def scale(x: Any, factor: float, stream: int | None = None) -> None:
    """X *= factor on the device."""
    found = array.view(x, "x", writable=True)
    kernel = device.compiled(SOURCE, "scale", ordinal=found.ordinal)
    launcher = device.Launcher(kernel, ((found.shape[0] + 255) // 256,), (256,))
    launcher(array.current_stream(found) if stream is None else stream, found.pointer, factor, found.shape[0])


def test_the_device_is_what_cupy_says(cupy: Any) -> None:
    found = device.capabilities(0)
    assert found.arch == f"sm_{cupy.cuda.Device(0).compute_capability}"
    assert found.multiprocessors == cupy.cuda.Device(0).attributes["MultiProcessorCount"]
    assert device.count() == cupy.cuda.runtime.getDeviceCount()


def test_a_kernel_runs_with_arguments_of_every_kind(cupy: Any) -> None:
    x = cupy.arange(1000, dtype=np.float32)
    scale(x, 3.0)
    assert np.array_equal(x.get(), 3 * np.arange(1000, dtype=np.float32))


def test_float32_subnormals_are_kept(cupy: Any) -> None:
    values = np.array([2.0**-140, 3 * 2.0**-149, -(2.0**-126)], np.float32)
    x = cupy.asarray(values)
    scale(x, 0.5)
    assert np.array_equal(x.get(), np.float32(0.5) * values)
    assert np.all(x.get() != 0)


def test_more_than_48_kib_of_dynamic_shared_memory(cupy: Any) -> None:
    n = device.capabilities(0).shared_memory_per_block // 4
    x = cupy.arange(n, dtype=np.int32)
    kernel = device.compiled(REVERSE, "reverse", shared_bytes=4 * n)
    device.launch(kernel, (1,), (1024,), array.current_stream(array.view(x)), (x.data.ptr, n))
    assert np.array_equal(x.get(), np.arange(n)[::-1])


def test_a_bound_launch_gives_pointers_and_constants(cupy: Any) -> None:
    x = cupy.ones(1000, np.float32)
    kernel = device.compiled(SOURCE, "scale")
    bound = device.BoundLaunch(kernel, (4,), (256,), 1, (3.0, 1000))
    for _ in range(2):
        bound(array.current_stream(array.view(x)), x.data.ptr)
    assert np.all(x.get() == 9)


def test_a_thread_that_never_used_cuda_launches(cupy: Any) -> None:
    x = cupy.ones(256, np.float32)
    kernel = device.compiled(SOURCE, "scale")
    launcher = device.Launcher(kernel, (1,), (256,))
    cupy.cuda.Device().synchronize()
    bound = device.BoundLaunch(kernel, (1,), (256,), 1, (3.0, 256))
    for target, arguments in ((launcher, (x.data.ptr, 2.0, 256)), (bound, (x.data.ptr,))):
        thread = threading.Thread(target=target, args=(device.LEGACY, *arguments))
        thread.start()
        thread.join()
    assert np.all(x.get() == 6)


def test_eight_threads_on_eight_streams(cupy: Any) -> None:
    arrays = [cupy.ones(4096, np.float32) for _ in range(8)]
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(8)]
    cupy.cuda.Device().synchronize()

    def work(number: int) -> None:
        for _ in range(20):
            scale(arrays[number], 2.0, device.stream_handle(streams[number]))
        streams[number].synchronize()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    for x in arrays:
        assert np.all(x.get() == 2.0**20)


def test_a_launch_follows_cupys_current_stream(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.ones(1 << 24, np.float32)
        for _ in range(10):
            x += 1
        scale(x, 2.0)
        x += 1
        assert array.current_stream(array.view(x)) == stream.ptr
        assert np.all(x.get() == 23)


def test_a_captured_launch_runs_at_each_replay(cupy: Any) -> None:
    x = cupy.ones(1024, np.float32)
    scale(x, 1.0)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        capturing = device.is_capturing(stream.ptr, 0)
        with pytest.raises(UnsupportedError, match="capturing a CUDA graph and a test says so"):
            device.refuse_capture(stream.ptr, 0, "a test says so")
        scale(x, 2.0)
        graph = stream.end_capture()
        assert capturing
        assert not device.is_capturing(stream.ptr, 0)
        for _ in range(3):
            graph.launch(stream)
    stream.synchronize()
    assert np.all(x.get() == 8)


@pytest.mark.parametrize("is_done", [True, False])
def test_memory_that_goes_during_a_capture_leaves_the_graph_whole(cupy: Any, is_done: bool) -> None:
    x = cupy.ones(1024, np.float32)
    scale(x, 1.0)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        memory = device.allocate_zeroed(1 << 20, 0, stream.ptr)
        if is_done:
            memory.done(stream.ptr)
        stream.synchronize()
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        try:
            del memory
            scale(x, 2.0)
        finally:
            graph = stream.end_capture()
        graph.launch(stream)
        assert np.all(x.get() == 2)


def test_memory_goes_after_its_stream(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    memory = device.allocate_zeroed(1 << 20, 0, stream.ptr)
    memory.done(stream.ptr)
    assert not device.copy_to_host(memory.pointer, 1 << 20, 0, stream.ptr).any()
    del stream, memory
    cupy.cuda.Device().synchronize()


def test_a_named_stream_is_waited_for(cupy: Any) -> None:
    producer, consumer = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    for _ in range(5):
        with producer:
            x = cupy.ones(1 << 24, np.float32)
            for _ in range(20):
                x += 1
            said = {**x.__cuda_array_interface__, "stream": producer.ptr}
            named = type("Named", (), {"__cuda_array_interface__": said})()
        found = array.view(named)
        assert (found.ordinal, found.stream) == (0, producer.ptr)
        array.acquire(consumer.ptr, [found])
        scale(x, 2.0, consumer.ptr)
        array.release(consumer.ptr, found)
        with producer:
            x += 1
            assert np.all(x.get() == 43)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "bfloat16", "float32", "float64", "int64"])
def test_cupy_arrays_and_results(cupy: Any, dtype: str) -> None:
    host = np.arange(48).reshape(6, 8).astype(array.numpy_dtype(dtype))
    found = array.view(cupy.zeros((2, 2), np.float32))
    x = array.from_host(host, found).owner
    strided = array.view(x[::-2, 1::3])
    assert (strided.dtype, strided.library) == (dtype, "cupy")
    assert np.array_equal(array.to_host(strided), host[::-2, 1::3])


@pytest.mark.parametrize("dtype", array.DTYPES)
def test_torch_tensors_and_results(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    host = np.arange(8).reshape(2, 4).astype(array.numpy_dtype(dtype))
    x = torch.arange(8).reshape(2, 4).to(getattr(torch, dtype)).cuda()
    found = array.view(x.T)
    assert (found.backend, found.dtype, found.pointer) == ("cuda:0", dtype, x.data_ptr())
    assert np.array_equal(array.to_host(found).astype(float), host.T.astype(float))
    back: Any = array.deliver(array.from_host(host, found))
    assert back.dtype == x.dtype
    assert torch.equal(back.cpu().to(torch.float64), x.cpu().to(torch.float64))
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        assert array.current_stream(found) == torch.cuda.current_stream().cuda_stream
        assert array.fingerprint(x)[1] == array.fingerprint(x.clone())[1]


@pytest.mark.parametrize("dtype", ["int8", "float16", "bfloat16", "float32", "int32"])
def test_jax_arrays_and_results(dtype: str) -> None:
    jax = pytest.importorskip("jax")
    host = np.arange(48).reshape(6, 8).astype(array.numpy_dtype(dtype))
    x = jax.device_put(host, jax.devices("cuda")[0]) * 1
    found = array.view(x)
    assert (found.library, found.backend, found.dtype, found.readonly) == ("jax", "cuda:0", dtype, True)
    assert found.pointer == x.unsafe_buffer_pointer()
    assert np.array_equal(array.to_host(found), host)
    made = array.from_host(host, found)
    result: Any = array.deliver(made, array.current_stream(made))
    assert isinstance(result, jax.Array)
    assert result.dtype == x.dtype
    assert np.array_equal(np.asarray(result + 0), host)


def test_a_jax_result_waits_for_the_launch(cupy: Any) -> None:
    jax = pytest.importorskip("jax")
    like = array.view(jax.device_put(np.zeros((2, 2), np.float32), jax.devices("cuda")[0]))
    stream = cupy.cuda.Stream(non_blocking=True)
    for _ in range(5):
        made = array.empty_like_owner(like, (1 << 24,), "float32", stream=stream.ptr)
        device.copy_to_device(made.pointer, np.ones(1 << 24, np.float32), 0, stream.ptr)
        kernel = device.compiled(SOURCE, "scale")
        for _ in range(40):
            device.launch(kernel, (1 << 16,), (256,), stream.ptr, (made.pointer, 1.0, 1 << 24))
        device.launch(kernel, (1 << 16,), (256,), stream.ptr, (made.pointer, 2.0, 1 << 24))
        result: Any = array.deliver(made, stream.ptr)
        assert float((result + 1).min()) == 3


def test_an_uploaded_array_comes_back(cupy: Any) -> None:
    x = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)).astype(ml_dtypes.bfloat16)
    stream = cupy.cuda.Stream()
    assert np.array_equal(array.to_host(array.upload(array.view(x), 0, stream.ptr), stream.ptr), x)


def test_the_second_device_needs_no_switch_by_the_caller(cupy: Any) -> None:
    if device.count() < 2:
        pytest.skip("needs two devices")
    with cupy.cuda.Device(1):
        x = cupy.ones(1000, np.float32)
    scale(x, 3.0)
    bound = device.BoundLaunch(device.compiled(SOURCE, "scale", ordinal=1), (4,), (256,), 1, (3.0, 1000))
    bound(array.current_stream(array.view(x)), x.data.ptr)
    assert cupy.cuda.runtime.getDevice() == 0
    assert np.all(x.get() == 9)


def test_a_forked_child_is_told_to_spawn(cupy: Any) -> None:
    code = """
import os, sys
from mxgemm import device
device.capabilities(0)
child = os.fork()
if child == 0:
    try:
        device.capabilities(0)
    except device.driver.UnsupportedError as error:
        os._exit(7 if "spawn" in str(error) else 8)
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    assert subprocess.run(command, check=False).returncode == 7
    assert cupy is not None


def test_a_result_type_that_cupy_lacks_is_named(cupy: Any) -> None:
    like = array.view(cupy.zeros((2, 2), np.float32))
    try:
        made = array.empty_like_owner(like, (2, 2), "float8_e4m3fn")
    except DTypeError as error:
        assert "CuPy" in str(error)  # noqa: PT017  # newer CuPy may have it
    else:
        assert made.dtype == "float8_e4m3fn"
