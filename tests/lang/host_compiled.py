"""Generated CUDA C compiled by the host's C++ compiler: what the GPU would compute, thread after thread."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

from mxgemm.lang.cuda_source import CudaSource

#: The words of CUDA that kernels without shared memory use, for one thread at a time.
WORDS = """
#include <cmath>
#include <cstring>
using std::isnan; using std::isinf; using std::isfinite;
#define __device__
#define __global__
#define __forceinline__ inline
struct position { unsigned x, y, z; };
static position threadIdx, blockIdx, blockDim, gridDim;
static float __uint_as_float(unsigned u) { float f; memcpy(&f, &u, 4); return f; }
static unsigned __float_as_uint(float f) { unsigned u; memcpy(&u, &f, 4); return u; }
static float __int_as_float(int u) { float f; memcpy(&f, &u, 4); return f; }
static float __double2float_rz(double x) {
    float t = (float)x;
    return std::fabs((double)t) > std::fabs(x) ? std::nextafterf(t, 0.0f) : t;
}
"""

#: The two conversions that are inline PTX, in the compiler's own half type.
PTX = (
    (r'asm\("cvt\.f32\.f16.*?\);', "_Float16 h; memcpy(&h, &x.bits, 2); y = (float)h;"),
    (r'asm\("cvt\.rn\.f16\.f(32|64).*?\);', "_Float16 h = (_Float16)x; memcpy(&y.bits, &h, 2);"),
)


def compiler_for(folder: Path) -> str | None:
    """A C++ compiler that knows half precision, or None."""
    probe = folder / "probe.cpp"
    probe.write_text("_Float16 half(float x) { return (_Float16)x; }\n")
    for name in ("g++", "clang++"):
        try:
            done = subprocess.run(
                [name, "-c", str(probe), "-o", str(folder / "probe.o")], capture_output=True, check=False
            )
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            return name
    return None


def run(
    compiler: str, folder: Path, source: CudaSource, arrays: list[Any], *, blocks: int, threads: int
) -> None:
    """Compile ``source`` and run it over one-dimensional blocks; ``arrays`` are the parameters."""
    text = source.text
    for pattern, replacement in PTX:
        text = re.sub(pattern, replacement, text)
    signature = re.search(rf'extern "C" __global__ void {source.entry}\((.*?)\) \{{', text, re.DOTALL)
    assert signature is not None
    kinds = [parameter.strip().rpartition(" ")[0] for parameter in signature[1].split(",")]
    passed = ", ".join(f"({kind})v[{i}]" for i, kind in enumerate(kinds))
    loop = f"""
extern "C" void launch(long long* v, int blocks, int threads) {{
    blockDim.x = threads;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++) {source.entry}({passed});
}}
"""
    path = folder / "kernel.cpp"
    path.write_text(WORDS + text + loop)
    library = folder / "kernel.so"
    options = ["-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-std=c++17"]
    subprocess.run([compiler, *options, str(path), "-o", str(library)], check=True, capture_output=True)
    words = [
        arrays[a.position].ctypes.data if a.what == "pointer" else arrays[a.position].shape[a.axis]
        for a in source.arguments
    ]
    ctypes.CDLL(str(library)).launch((ctypes.c_longlong * len(words))(*words), blocks, threads)
