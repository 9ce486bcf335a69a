"""A bound launch gives its parameters where the compiled kernel reads them."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest

from mxgemm import device, kernels
from mxgemm.configs import configuration
from mxgemm.device import driver, parameter_layout
from mxgemm.device.tensor_map import EncodedMap, TensorMap
from mxgemm.kernels import Launch
from mxgemm.problem import pose
from mxgemm.shapes import Operand, contiguous
from tests.device.cubin_parameters import parameters
from tests.device.fakes import FIRST_MAP, handle_of, places_of

PROLOGUE = """
typedef long long i64;
typedef unsigned long long u64;
struct alignas(64) TensorMap { u64 opaque[16]; };
"""


@lru_cache(maxsize=32)
def compiled_parameters(listed: str) -> list[tuple[int, int]]:
    """Offset and bytes of each of a list of parameters, as the compiler has them on sm_90."""
    source = f'{PROLOGUE}extern "C" __global__ void k({listed}) {{}}'
    return parameters(device.compile_cubin(source, "k", "sm_90a").code, "k")


def launches() -> Iterator[Launch]:
    """Of kernels with and without maps, C, flags and side arrays."""
    for dtype, precision, shape, arch in (
        ("float16", "native", (512, 512, 512), "sm_90"), ("float32", "tf32", (512, 512, 512), "sm_90"),
        ("float16", "native", (513, 511, 509), "sm_90"), ("int8", "exact", (512, 512, 512), "sm_90"),
        ("float16", "native", (512, 512, 512), "sm_80"), ("float64", "native", (96, 64, 64), "sm_90"),
        ("float32", "scalar", (96, 64, 64), "sm_90"),
    ):  # fmt: skip
        m, n, k = shape
        result = "int32" if dtype == "int8" else dtype
        b = Operand(dtype, (k, n), (1, k)) if dtype == "int8" else contiguous(dtype, (k, n))
        for c in (None, contiguous(result, (m, n))):
            problem, _ = pose(contiguous(dtype, (m, k)), b, c, beta=0 if c is None else 2, out_dtype=result)
            lowering = kernels.lower(problem, configuration(dtype, dtype, precision), arch)
            at = dict.fromkeys("abd" if c is None else "abdc", 1 << 30)
            yield from lowering.launches(at, workspace=1 << 40, flags=1 << 20)


def cxx(declared: str) -> str:
    """A parameter of the same kind that needs no types of ours."""
    if "TensorMap" in declared:
        return "const __grid_constant__ TensorMap"
    return "const void*" if "*" in declared else declared.strip().rpartition(" ")[0]


def bind(monkeypatch: pytest.MonkeyPatch, listed: str, sizes: list[int]) -> int | None:
    """What :func:`first_offset` makes of a driver that tells what the compiler has."""
    told = compiled_parameters(listed)
    monkeypatch.setattr(driver, "is_current", lambda _: True)
    monkeypatch.setattr(driver, "call_if_known", lambda _name, _handle, index: told[index])
    cubin = device.CompiledCubin(b"", "k", "sm_90a", "", device.Resources())
    return parameter_layout.first_offset(device.CompiledKernel(cubin, 0, 0, 0), sizes)


def test_a_map_comes_first_off_64_bytes_in_the_kernel_itself() -> None:
    """As on the fake driver."""
    for maps, words in ((1, 1), (3, 15), (0, 3)):
        listed = ["const __grid_constant__ TensorMap"] * maps + ["long long"] * words
        found = compiled_parameters(", ".join(f"{one} p{i}" for i, one in enumerate(listed)))
        assert found == places_of(handle_of(maps + words, maps))
        assert found[0][0] == (FIRST_MAP if maps else 0)


def test_every_kernels_parameters_are_those_that_its_launch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty kernels with the parameter lists of ours: the layout depends on nothing else."""
    seen: dict[str, int] = {}
    for launch in launches():
        source = launch.instance.source()
        declared = re.search(rf"\b{launch.instance.entry}\(([^)]*)\)", source)
        assert declared is not None
        listed = ", ".join(f"{cxx(one)} p{i}" for i, one in enumerate(declared[1].split(",")))
        if listed in seen:
            continue
        seen[listed] = len(launch.maps)
        if launch.maps:
            assert "struct alignas(64) TensorMap { u64 opaque[16]; };" in source
        sizes = [128] * len(launch.maps) + [8] * len(launch.arguments)
        assert len(compiled_parameters(listed)) == len(sizes)
        assert bind(monkeypatch, listed, sizes) == (FIRST_MAP if launch.maps else 0), launch.instance.entry
    assert len(seen) >= 5
    assert {0, 3} <= set(seen.values())


ECHO = (
    PROLOGUE
    + """
extern "C" __global__ void echo(const __grid_constant__ TensorMap m, u64* out, u64* other, i64 x, double y) {
    const int i = threadIdx.x;
    if (i < 16) { out[i] = m.opaque[i]; }
    if (i == 16) { out[16] = (u64)out; out[17] = (u64)other; out[18] = x; out[19] = __double_as_longlong(y); }
}
extern "C" __global__ void words(u64* out, i64 x, double y) {
    out[0] = (u64)out; out[1] = x; out[2] = __double_as_longlong(y);
}
"""
)
ROWS = TensorMap("a", 4, (32, 64, 1), (128, 128 * 64), (32, 1, 1), swizzled=False)  # 64 rows of 128 bytes


def test_the_kernels_that_a_device_echoes_with_compile() -> None:
    for entry in ("echo", "words"):
        found = parameters(device.compile_cubin(ECHO, entry, "sm_90a").code, entry)
        assert found[0][0] == (0 if entry == "words" else FIRST_MAP)


def bits(value: float) -> int:
    return int(struct.unpack("=Q", struct.pack("=d", value))[0])


def encoded(*targets: int) -> list[int]:
    """The words of a map in memory of its own that was aimed at these."""
    memory = (ctypes.c_ubyte * 192)()
    first = ctypes.addressof(memory) + -ctypes.addressof(memory) % 64
    made = EncodedMap(ROWS, first)
    for target in targets:
        made.aim(target)
    return list((ctypes.c_uint64 * 16).from_address(first))


def needs_hopper() -> None:
    if int(device.capabilities(0).arch.removeprefix("sm_")) < 90:
        pytest.skip("tensor maps need compute capability 9.0")


@pytest.mark.gpu
@pytest.mark.parametrize("tells", [True, False])
def test_a_device_reads_the_map_and_the_words_that_a_bound_launch_gives(
    monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """In one buffer, and from addresses; the second launch writes other pointers into the same memory."""
    cupy = pytest.importorskip("cupy")
    needs_hopper()
    if not tells:
        monkeypatch.setattr(driver, "call_if_known", lambda *_: None)
    kernel = device.compiled(ECHO, "echo")
    bound = device.BoundLaunch(kernel, (1,), (32,), 2, (-77, 2.5), ((1, ROWS),))
    assert (bound.before is not None) == tells
    arrays = [(cupy.zeros(20, np.uint64), cupy.zeros((64, 16), np.uint64)) for _ in range(2)]
    cupy.cuda.Device().synchronize()
    targets = []
    for out, source in arrays:
        targets.append(source.data.ptr)
        bound(device.LEGACY, out.data.ptr, source.data.ptr)
        words = [out.data.ptr, source.data.ptr, 2**64 - 77, bits(2.5)]
        assert out.get().tolist() == [*encoded(*targets), *words]


@pytest.mark.gpu
def test_a_device_reads_words_that_no_map_leads() -> None:
    cupy = pytest.importorskip("cupy")
    out = cupy.zeros(3, np.uint64)
    cupy.cuda.Device().synchronize()
    device.BoundLaunch(device.compiled(ECHO, "words"), (1,), (1,), 1, (5, 2.5))(device.LEGACY, out.data.ptr)
    assert out.get().tolist() == [out.data.ptr, 5, bits(2.5)]
