"""Generated CUDA C: held by golden files, and compiled for every construct and type."""

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.lang.cuda_source import cuda_source
from mxgemm.lang.cuda_types import Names
from mxgemm.lang.functions import FUNCTIONS as TABLE
from mxgemm.lang.passes import build
from mxgemm.lang.source import KernelSource
from mxgemm.lang.types import SCALARS, ArrayType, Type
from mxgemm.lang.words import ATOMIC_TYPES
from tests.lang import kernels_at_random, written_kernels
from tests.lang.running import function

GOLDEN = Path(__file__).parent / "golden"


def array(name: str, ndim: int = 1, layout: str = "C") -> ArrayType:
    return ArrayType(SCALARS[name], ndim, layout)


F1, F2, I1, D1, B2 = (
    array("float32"),
    array("float32", 2),
    array("int32"),
    array("float64"),
    array("uint8", 2),
)
F = SCALARS["float32"]
D, I64 = SCALARS["float64"], SCALARS["int64"]

WRITTEN: dict[str, tuple[Type, ...]] = {
    "matmul": (F2, F2, F2),
    "fast_matmul": (F2, F2, F2),
    "array_sum": (I1,),
    "block_sums": (F1, F1),
    "warp_sum": (F1, F1),
    "inclusive_scan": (I1, I1),
    "stencil": (F2, array("float32", 2, "F")),
    "smooth": (F1, array("float32", 1, "A")),
    "histogram": (F1, F, F, I1),
    "shared_histogram": (I1, I1),
    "transpose": (F2, F2),
    "mandelbrot": (D, D, D, D, B2, I64),
    "nbody": (F2, F1, F2, F),
    "life": (B2, B2),
    "polynomial": (D1, D1, D1),
}


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_generated_source_equals_the_golden_file(name: str) -> None:
    """MXGEMM_WRITE_GOLDEN=1 writes the files anew; read the difference before keeping it."""
    kernel = build(getattr(written_kernels, name).source_view, WRITTEN[name])
    text = cuda_source(kernel).text
    path = GOLDEN / f"{name}.cu"
    if os.environ.get("MXGEMM_WRITE_GOLDEN") == "1":
        path.write_text(text)
    assert text == path.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.cu")} == set(WRITTEN)


def compiled(kernel: Any, arch: str = "sm_90a") -> Any:
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    from mxgemm.device import compile_cubin

    source = cuda_source(kernel)
    return compile_cubin(source.text, source.entry, arch)


@pytest.mark.parametrize("name", ["fast_matmul", "histogram", "mandelbrot", "nbody", "smooth", "warp_sum"])
def test_written_kernels_compile_without_spills(name: str) -> None:
    cubin = compiled(build(getattr(written_kernels, name).source_view, WRITTEN[name]))
    assert cubin.resources.spill_stores == 0


def everything() -> str:
    """Operators over every pair of types, in one kernel."""
    lines = ["def kernel(" + ", ".join(f"a_{t}, o_{t}" for t in SCALARS) + "):", "    i = cuda.grid(1)"]
    for left in SCALARS:
        for right in SCALARS:
            a, b = f"a_{left}[i]", f"a_{right}[i]"
            lines.append(f"    o_{left}[i] = {a} + {b} * {a} if {a} < {b} else -{a}")
            if left == right or {left, right} <= {"int64", "uint64", "bfloat16"}:
                lines.append(f"    o_{right}[i] = {a} // {b} + {a} % {b} - {b} / {a}")
                if not SCALARS[left].is_float and not SCALARS[right].is_float:
                    lines.append(
                        f"    o_{left}[i] = ({a} & {b}) ^ ({a} | ~{b}) ^ ({a} << {b}) ^ ({a} >> {b})"
                    )
                    lines.append(f"    o_{right}[i] = {a} ** {b}")
    return "\n".join(lines) + "\n"


def test_every_operator_compiles_for_every_pair_of_types() -> None:
    types = tuple(t for name in SCALARS for t in (array(name), array(name)))
    compiled(build(KernelSource(function(everything())), types))


FUNCTIONS = [
    "sqrt",
    "exp",
    "log",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "expm1",
    "log1p",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "fabs",
    "floor",
    "ceil",
    "trunc",
    "radians",
    "degrees",
    "isnan",
    "isinf",
    "isfinite",
]


@pytest.mark.parametrize("element", ["float16", "bfloat16", "float32", "float64", "int32"])
def test_every_function_compiles(element: str) -> None:
    lines = [f"    o[i] += math.{f}(x[i])" for f in FUNCTIONS]
    lines += [f"    o[i] += math.{f}(x[i], x[i])" for f in ("fmod", "copysign", "atan2", "hypot", "pow")]
    lines += [
        "    o[i] += math.ldexp(x[i], i)",
        "    o[i] += min(x[i], o[i], 1) + max(x[i], 2) + abs(x[i]) + round(x[i])",
    ]
    if element in ("float32", "float64"):
        lines.append("    o[i] += cuda.fma(x[i], x[i], o[i]) + cuda.cbrt(x[i])")
    text = "def kernel(x, o):\n    i = cuda.grid(1)\n" + "\n".join(lines) + "\n"
    compiled(build(KernelSource(function(text)), (array(element), D1)))


WORDS = """
SIZES = np.arange(5, dtype=np.float16)

@cuda.jit(device=True)
def pair(a, i):
    if i > 3:
        return i, a[i, 0]
    return 2.5, a[0, i]

@cuda.jit(device=True)
def fill(a, v):
    for k in range(len(a)):
        a[k] = v

def kernel(double, x, n, flag):
    dyn = cuda.shared.array(0, cuda.float32)
    tile = cuda.shared.array((4, 8), cuda.float16)
    mine = cuda.local.array(6, cuda.bfloat16)
    sizes = cuda.const.array_like(SIZES)
    t = cuda.threadIdx.x + cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.z
    int = t * 3
    dyn[t] = len(dyn)
    fill(mine, n)
    fill(tile[2], 1)
    tile[t, 1] = mine[2] + sizes[t]
    p, q = pair(double, t)
    row = double[1]
    row[-t] = p + q + int
    for k in range(n, -3, n - 5):
        double[0, k] += tile[0, k]
        if k == 3 or double[1, k]:
            continue
        while flag:
            flag = not flag
            if k > 2:
                break
    v = cuda.shfl_down_sync(0xFFFFFFFF, q, 3) if n else 0
    m, same = cuda.match_all_sync(cuda.activemask(), t)
    cuda.syncwarp()
    cuda.threadfence()
    cuda.threadfence_block()
    cuda.threadfence_system()
    x[0] = cuda.syncthreads_count(t > 3) + m + same + v + cuda.laneid
    x[0] += cuda.popc(t) + cuda.clz(n) + cuda.ffs(t)
    x[1] = cuda.atomic.cas(x, 3, 4, 5) + cuda.atomic.compare_and_swap(x, 1, 2)
    x[2] = cuda.gridsize(1) + cuda.warpsize + cuda.eq_sync(0xFFFFFFFF, t) + cuda.lanemask_lt()
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_every_word_compiles_for_every_architecture(arch: str) -> None:
    kernel = build(
        KernelSource(function(WORDS)),
        (array("float64", 2, "A"), array("int64"), SCALARS["int16"], SCALARS["bool"]),
    )
    compiled(kernel, arch)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
def test_every_atomic_compiles(dtype: str) -> None:
    lines = []
    for operator, allowed in ATOMIC_TYPES.items():
        if dtype in allowed and operator != "cas":
            word = f"{operator}_" if operator in ("and", "or") else operator
            lines += [f"    cuda.atomic.{word}(a, 0, 3)", f"    a[1] = cuda.atomic.{word}(s, 0, 3)"]
    text = f"def kernel(a):\n    s = cuda.shared.array(2, cuda.{dtype})\n" + "\n".join(lines) + "\n"
    compiled(build(KernelSource(function(text)), (array(dtype),)))


def test_random_kernels_compile() -> None:
    from hypothesis import HealthCheck, Phase, given, settings

    types = tuple(array(name) for name in kernels_at_random.TYPES) * 2

    @given(kernels_at_random.kernels())
    @settings(
        max_examples=12, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck)
    )
    def compile_one(source: str) -> None:
        compiled(build(KernelSource(function(source)), types))

    compile_one()


def test_launch_bounds_appear_in_the_signature() -> None:
    kernel = build(written_kernels.matmul.source_view, WRITTEN["matmul"])
    assert "__launch_bounds__(256, 2) matmul(" in cuda_source(kernel, (256, 2)).text


def test_unused_extents_are_not_passed() -> None:
    kernel = build(KernelSource(function("def kernel(x, n):\n    x[0, 1] = 1\n")), (F2, I64))
    source = cuda_source(kernel)
    assert [(a.position, a.what, a.axis) for a in source.arguments] == [(0, "pointer", 0), (0, "extent", 1)]


def test_reserved_words_and_library_names_may_be_variables() -> None:
    body = "    float_ = 1.0\n    sqrt = double\n    exp = sqrt + float_\n    x[0] = math.sqrt(exp)\n"
    text = f"def kernel(x, double):\n{body}"
    compiled(build(KernelSource(function(text)), (D1, SCALARS["float64"])))


@pytest.mark.parametrize(
    "name", ["norm", "tanh", "log2f", "max", "free", "std", "mx_add_i64", "__double", "double", "linux", "Δt"]
)
def test_a_kernel_may_have_any_name(name: str) -> None:
    text = f"def {name}(x, mx_wrap, __x, y0):\n    fmin = mx_wrap + __x + y0\n    x[0] = min(fmin, 1.0)\n"
    compiled(build(KernelSource(function(text, name)), (D1, *(SCALARS["float64"],) * 3)))


def library() -> str:
    """Every function and atomic on both float types."""
    lines = ["def kernel(x, y, n):", "    i = cuda.grid(1)"]
    homes = {"math": math, "np": np, "cuda": cuda}
    for name, row in TABLE.items():
        home = next((word for word, module in homes.items() if hasattr(module, name)), "")
        called = f"{home}.{name}" if home and row.kind != "minmax" else name
        arrays = "n" if row.kind == "integer" else "xy"
        lines += [f"    {a}[i] = {called}({', '.join([f'{a}[i]'] * row.arity)})" for a in arrays]
    for name, types in ATOMIC_TYPES.items():
        for array_name, element in (("x", "float32"), ("y", "float64"), ("n", "uint32")):
            if element in types:
                word = f"{name}_" if name in ("and", "or") else name
                lines.append(f"    cuda.atomic.{word}({array_name}, i, {'1, 2' if name == 'cas' else 1})")
    return "\n".join(line for line in lines if " rsqrt(" not in line) + "\n"


def test_no_variable_takes_the_name_of_a_function_that_is_called() -> None:
    text = cuda_source(
        build(KernelSource(function(library())), (array("float32"), array("float64"), array("uint32")))
    ).text
    called = set(re.findall(r"\b([A-Za-z]\w*)\(", text)) - {"return", "if", "asm", "kernel"}
    assert {"fmaxf", "sqrt", "tanhf", "atomicAdd", "atomicCAS"} <= called
    assert [name for name in sorted(called) if Names().of(name) == name] == []
