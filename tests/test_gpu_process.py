"""gemm() on a GPU from many threads and streams, after a fork, and with the cache folder in every state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from tests import gpu_support as gpu
from tests.policies import generous, in_a_process, under

pytestmark = pytest.mark.gpu

THREADS = 8


@pytest.fixture(autouse=True)
def granted() -> Iterator[None]:
    """Every grant given."""
    with under(generous()):
        yield


def test_eight_threads_on_eight_streams() -> None:
    cupy = gpu.library("cupy")
    products = [gpu.operands("float16", 64 + 8 * i, 72, 96, seed=i) for i in range(THREADS)]
    expected = [gpu.predicted(a, b, precision="native") for a, b in products]
    start = threading.Barrier(THREADS)

    def work(number: int) -> list[np.ndarray]:
        a, b = (gpu.to_cupy(x) for x in products[number])
        outs = [gpu.to_cupy(np.zeros(expected[number].shape, np.float16)) for _ in range(10)]
        cupy.cuda.Device().synchronize()
        start.wait()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for out in outs:
                mx.gemm(a, b, out=out, precision="native")
            fresh = mx.gemm(a, b, precision="native")
            stream.synchronize()
        return [cupy.asnumpy(out) for out in (*outs, fresh)]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(work, range(THREADS)))
    for results, one in zip(found, expected, strict=True):
        for result in results:
            gpu.assert_same(result, one)


def test_threads_that_ask_for_one_new_kernel_together() -> None:
    a, b = gpu.operands("float32", 40, 48, 56)
    options: dict[str, Any] = {"precision": "scalar", "epilogue": mx.epilogue.clamp(-2, 2.5)}
    expected, start = gpu.predicted(a, b, **options), threading.Barrier(THREADS)
    x, y = gpu.to_torch(a), gpu.to_torch(b)
    gpu.library("torch").cuda.synchronize()

    def work(_: int) -> np.ndarray:
        start.wait()
        return gpu.host(mx.gemm(x, y, **options))

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(work, range(THREADS)):
            gpu.assert_same(found, expected)


FORK = """
import os, warnings
warnings.simplefilter("ignore")
import cupy
import mxgemm as mx
a = cupy.ones((16, 16), cupy.float64)
out = cupy.empty_like(a)
if {used}:
    for _ in range(3):
        mx.gemm(a, a, out=out)
cupy.cuda.Device().synchronize()
child = os.fork()
if child == 0:
    try:
        mx.gemm(a, a, out=out)
    except mx.MxgemmError as error:
        print(type(error).__name__, error, flush=True)
    finally:
        os._exit(0)
os.waitpid(child, 0)
print("parent", float(mx.gemm(a, a)[0, 0]))
"""


@pytest.mark.parametrize("used", [True, False], ids=["after a product", "after CuPy alone"])
def test_the_child_of_a_fork_is_told_so(used: bool) -> None:
    gpu.library("cupy")
    run = in_a_process(FORK.format(used=used))
    assert run.returncode == 0, run.stderr[-1000:]
    assert "UnsupportedError" in run.stdout, run.stdout
    assert "spawn" in run.stdout
    assert "parent 16.0" in run.stdout


# The cache folder

CACHED = """
import hashlib, json, logging, sys
import cupy
import mxgemm as mx
lines = []
class Keep(logging.Handler):
    def emit(self, record): lines.append((record.levelname, record.getMessage()))
log = logging.getLogger("mxgemm.device")
log.setLevel(logging.INFO)
log.addHandler(Keep())
a = cupy.arange(64 * 48, dtype=cupy.float64).reshape(64, 48) / 7
b = cupy.arange(48 * 40, dtype=cupy.float64).reshape(48, 40) / 3
d = mx.gemm(a, b)
print(json.dumps({
    "sum": hashlib.sha256(cupy.asnumpy(d).tobytes()).hexdigest(),
    "compiled": sum(text.startswith("compiling") for _, text in lines),
    "warnings": sum(level == "WARNING" for level, _ in lines),
}))
"""


def start(folder: Path | str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MXGEMM_")}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CACHED],
        env={**clean, "MXGEMM_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err[-1000:]
    return dict(json.loads(out.splitlines()[-1]))


def test_the_cache_folder_missing_shared_unusable_or_off(tmp_path: Path) -> None:
    gpu.library("cupy")
    missing = tmp_path / "not" / "there"
    (tmp_path / "file").write_text("no folder")
    places = [missing, missing, tmp_path / "file" / "below", "0"]
    together = [answer(one) for one in [start(place) for place in places]]
    again = answer(start(missing))
    assert {one["sum"] for one in (*together, again)} == {again["sum"]}
    shared, unusable, off = together[:2], together[2], together[3]
    assert again["compiled"] == 0, "the second process found nothing on disk"
    assert max(one["compiled"] for one in shared) == 1
    assert (unusable["compiled"], off["compiled"]) == (1, 1)
    assert unusable["warnings"] >= 1
    assert all(one["warnings"] == 0 for one in (*shared, off, again))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_cache_folder_costs_a_compilation(tmp_path: Path) -> None:
    gpu.library("cupy")
    tmp_path.chmod(0o500)
    try:
        found = answer(start(tmp_path))
    finally:
        tmp_path.chmod(0o700)
    assert found["compiled"] == 1
    assert found["warnings"] >= 1
