"""Milliseconds of the first call of each configuration in this process, as one JSON object.

Run in a process of its own, with MXGEMM_CACHE_DIR naming an empty folder (cold) or a filled one.
"""

from __future__ import annotations

import json
import time

import cupy

import mxgemm as mx
from benchmarks.operands import grant_everything

SIZE = 1024
CONFIGURATIONS = (
    ("float16", "native"), ("float32", "tf32"), ("float32", "f16"), ("float32", "bf16"),
    ("float64", "native"), ("float32", "f64"), ("int8", "exact"), ("float32", "scalar"),
    ("float64", "scalar"), ("int32", "scalar"),
)  # fmt: skip


def first(dtype: str, precision: str, size: int) -> float:
    a, b = (cupy.random.randint(-4, 5, (size, size)).astype(dtype) for _ in "ab")
    cupy.cuda.Device().synchronize()
    begin = time.perf_counter()
    mx.gemm(a, b, precision=precision)
    cupy.cuda.Device().synchronize()
    return 1e3 * (time.perf_counter() - begin)


def main() -> None:
    grant_everything()
    # Whatever is first in a process also loads the driver and our kernels, and, cold, cuda.core and NVRTC.
    times = {"first of the process (int16 scalar)": first("int16", "scalar", 16)}
    times |= {f"{dtype}/{precision}": first(dtype, precision, SIZE) for dtype, precision in CONFIGURATIONS}
    print(json.dumps(times))


if __name__ == "__main__":
    main()
