"""The kernel dialect against Numba on a GPU: time of generated kernels, and what a launch costs the host.

``python benchmarks/dialect.py --write reports/<device>`` measures and writes ``dialect.json`` there.  The
same source runs under both imports (``tests/lang/written_kernels.py`` and the kernels below), mxgemm's with
``fma=True`` because Numba contracts.  Peers take turns within a round and change places from round to round;
figures are medians over rounds.  A kernel's time is that of many launches between two events, divided.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

SOURCES = (ROOT / "tests" / "lang" / "written_kernels.py", Path(__file__))
LIMIT_RATIO = 0.95
LIMIT_LAUNCH_US = 10.0
ROUNDS = 15
TARGET_MS = 4.0

OWN_KERNELS = """
@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def integers(x, y):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        for k in range(1, 64):
            v = (v * 3 + k) % 1000003 ^ (v >> 2)
        y[i] = v


@cuda.jit
def launch_cost(a, b, c, d, e, f, n, m, k, s, t, u):
    i = cuda.grid(1)
    if i < 0:
        a[i] = b[i] + c[i] + d[i] + e[i] + f[i] + n + m + k + s + t + u
"""


@dataclass(frozen=True)
class Workload:
    """One kernel with its launch and arguments; ``exact`` when both peers must give the same bits."""

    kernel: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    output: int
    tolerance: float = 0.0


def workloads(cupy: Any) -> list[Workload]:
    """Sizes at which a kernel takes far longer than its launch."""
    random = cupy.random.default_rng(2026)

    def real(*shape: int) -> Any:
        return random.random(shape, dtype=np.float32)

    def zeros(*shape: int, dtype: Any = np.float32) -> Any:
        return cupy.zeros(shape, dtype)

    n, big = 1024, 1 << 24
    tiles = (n // 16, n // 16)
    ints = random.integers(0, 1 << 20, big).astype(np.int32)
    cells = (ints % 2).astype(np.uint8).reshape(4096, 4096)
    image = zeros(1024, 1024, dtype=np.uint8)
    points, coefficients = (real(count).astype(np.float64) for count in (big // 4, 5))
    return [
        Workload("axpy", big // 256, 256, (np.float32(2), real(big), real(big)), 2, 1e-6),
        Workload("matmul", tiles, (16, 16), (real(n, n), real(n, n), zeros(n, n)), 2, 1e-4),
        Workload("fast_matmul", tiles, (16, 16), (real(n, n), real(n, n), zeros(n, n)), 2, 1e-4),
        Workload("block_sums", 1056, 128, (real(big), zeros(1056)), 1, 1e-4),
        Workload("warp_sum", big // 256, 256, (real(big), zeros(big // 32)), 1, 1e-5),
        Workload("stencil", (256, 256), (16, 16), (real(4096, 4096), zeros(4096, 4096)), 1, 1e-6),
        Workload("transpose", (256, 256), (16, 16), (real(4096, 4096), zeros(4096, 4096)), 1),
        Workload("shared_histogram", big // 256, 256, (ints, zeros(16, dtype=np.int32)), 1),
        Workload("life", (256, 256), (16, 16), (cells, zeros(4096, 4096, dtype=np.uint8)), 1),
        # Contraction moves points on the edge of the set, by any number of iterations.
        Workload("mandelbrot", (64, 64), (16, 16), (-2.0, 1.0, -1.0, 1.0, image, 100), 4, 255.0),
        Workload("nbody", 64, 128, (real(8192, 3), real(8192), zeros(8192, 3), np.float32(1e-3)), 2, 1e-3),
        Workload("polynomial", big // 1024, 256, (points, coefficients, cupy.zeros_like(points)), 2, 1e-12),
        Workload("integers", big // 1024, 256, (ints[: big // 4], zeros(big // 4, dtype=np.int64)), 1),
    ]  # fmt: skip


def kernels(import_line: str, jit: str) -> dict[str, Any]:
    """Every kernel's source under one import."""
    text = SOURCES[0].read_text() + OWN_KERNELS
    text = text.replace("from mxgemm import cuda", import_line).replace("@cuda.jit\n", f"@cuda.jit{jit}\n")
    name = f"<{import_line}>"
    import linecache

    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)  # noqa: S102  # the project's own text
    return namespace


def events_ms(cupy: Any, work: Callable[[], None], repeats: int) -> float:
    """Milliseconds of one call, over ``repeats`` calls between two events."""
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record(cupy.cuda.Stream.null)
    for _ in range(repeats):
        work()
    end.record(cupy.cuda.Stream.null)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / repeats


def interleaved(peers: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Medians of peers measured in turn; the order turns around from round to round."""
    taken: dict[str, list[float]] = {name: [] for name in peers}
    for i in range(rounds):
        for name in list(peers)[:: 1 if i % 2 == 0 else -1]:
            taken[name].append(peers[name]())
    return {name: statistics.median(values) for name, values in taken.items()}


def launcher(cuda: Any, kernel: Any, work: Workload) -> tuple[Callable[[], None], Any]:
    """A call that launches on device arrays of the peer's own kind, and the array that it writes."""
    own = [a.copy() if hasattr(a, "__cuda_array_interface__") else a for a in work.arguments]
    arguments = [cuda.as_cuda_array(a) if hasattr(a, "__cuda_array_interface__") else a for a in own]
    configured = kernel[work.grid, work.block]
    return (lambda: configured(*arguments)), own[work.output]


def measure_kernel(cupy: Any, work: Workload, peers: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """One row: the first results compared, then times."""
    calls = {name: launcher(cuda, namespace[work.kernel], work) for name, (cuda, namespace) in peers.items()}
    for call, _ in calls.values():
        call()
    first, second = (output.get().astype(np.float64) for _, output in calls.values())
    error = float(np.max(np.abs(first - second) / np.maximum(1.0, np.abs(second))))
    agrees = error <= work.tolerance
    alone = max(events_ms(cupy, call, 3) for call, _ in calls.values())
    repeats = max(3, min(200, round(TARGET_MS / max(alone, 1e-3))))
    turns = {name: partial(events_ms, cupy, call, repeats) for name, (call, _) in calls.items()}
    times = interleaved(turns, ROUNDS)
    ratio = times["numba"] / times["mxgemm"]
    return {
        "kernel": work.kernel,
        **{f"{name}_us": round(1e3 * value, 2) for name, value in times.items()},
        "ratio": round(ratio, 4),
        "holds": ratio >= LIMIT_RATIO,
        "agrees": agrees,
        "largest_difference": error,
    }


def measure_launch(cupy: Any, peers: dict[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Host microseconds of one warmed launch with 12 arguments, beside a raw cuda.core launch."""
    from cuda import core
    from cuda.bindings import driver

    from mxgemm import device

    arrays = [cupy.zeros(64, np.float32) for _ in range(6)]
    scalars = (1, 2, 3, 4.0, 5.0, 6.0)
    work = Workload("launch_cost", 1, 32, (*arrays, *scalars), 0)
    calls = {
        name: launcher(cuda, namespace[work.kernel], work)[0] for name, (cuda, namespace) in peers.items()
    }
    source = (
        'extern "C" __global__ void raw(float* a, float* b, float* c, float* d, float* e, float* f, '
        "long long n, long long m, long long k, double s, double t, double u) "
        "{ if (n < 0) a[0] = b[0] + c[0] + d[0] + e[0] + f[0] + n + m + k + s + t + u; }"
    )
    kernel = driver.CUkernel(int(device.compiled(source, "raw").handle))
    config = core.LaunchConfig(grid=1, block=32)
    stream = core.LEGACY_DEFAULT_STREAM
    raw_arguments = (*(a.data.ptr for a in arrays), *scalars)
    calls["cuda.core"] = lambda: core.launch(stream, config, kernel, *raw_arguments)

    def host_us(call: Callable[[], None]) -> float:
        cupy.cuda.runtime.deviceSynchronize()
        start = time.perf_counter()
        for _ in range(200):  # fewer than the queue holds, so that no launch waits
            call()
        return 1e6 * (time.perf_counter() - start) / 200

    for call in calls.values():
        host_us(call)
    times = interleaved({name: partial(host_us, call) for name, call in calls.items()}, 31)
    extra = times["mxgemm"] - times["cuda.core"]
    return {
        **{f"{name}_us": round(value, 2) for name, value in times.items()},
        "extra_us": round(extra, 2),
        "limit_us": LIMIT_LAUNCH_US,
        "holds": extra <= LIMIT_LAUNCH_US,
    }


def source_hash() -> str:
    """SHA-256 of the dialect's sources and of the measured kernels, names and bytes in order."""
    files = [*sorted((ROOT / "mxgemm" / "lang").glob("*.py")), ROOT / "mxgemm" / "cuda.py", *SOURCES]
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def environment(cupy: Any) -> dict[str, Any]:
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    packages = ("numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x", "cupy", "cuda-core", "torch", "numpy")
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {
        "device": properties["name"].decode(),
        "driver": cupy.cuda.runtime.driverGetVersion(),
        "python": platform.python_version(),
        "versions": versions,
        "source_sha256": source_hash(),
        "measured": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", type=Path, help="folder for dialect.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Numba warns of deprecated names
    import cupy
    from numba import cuda as numba_cuda

    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010 — removed in NumPy 2.5; numba-cuda 0.30 still names it

    from mxgemm import cuda

    peers = {
        "mxgemm": (cuda, kernels("from mxgemm import cuda", "(fma=True)")),
        "numba": (numba_cuda, kernels("from numba import cuda", "")),
    }
    rows = []
    for work in workloads(cupy):
        rows.append(measure_kernel(cupy, work, peers))
        r = rows[-1]
        print(
            f"{r['kernel']:18s} mxgemm {r['mxgemm_us']:10.1f} us  numba {r['numba_us']:10.1f} us  "
            f"ratio {r['ratio']:.3f}{'' if r['holds'] else '  BELOW'}{'' if r['agrees'] else '  DIFFERS'}"
        )
    launch = measure_launch(cupy, peers)
    print(f"launch: {launch}")
    report = {**environment(cupy), "limit_ratio": LIMIT_RATIO, "kernels": rows, "launch": launch}
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        (options.write / "dialect.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(r["holds"] and r["agrees"] for r in rows) and launch["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
