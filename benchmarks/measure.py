"""Measurements of one product each: our call and its peers in turn; host costs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

import mxgemm as mx
from benchmarks.subjects import ENOUGH, MOST_SETS, Subject, cupy_peer, subject_of
from benchmarks.timing import Call, bursts, host_microseconds, sustained
from mxgemm.report import Case, CopyTime, Measurement, source_sha256, timed


def measurement(group: str, mode: str, subject: Subject, times: dict[str, float]) -> Measurement:
    kernel: Any = subject.plan().kernel
    peers = {name: round(found, 3) for name, found in times.items() if name != "mxgemm"}
    one = Measurement(
        group, subject.case, kernel.entry, source_sha256(kernel), str(kernel), mode,
        round(times["mxgemm"], 3), peers,
    )  # fmt: skip
    ratio = "" if one.ratio is None else f"  ratio {one.ratio:5.2f}"
    print(f"{group:10} {mode:9} {one.teraflops:8.1f} TFLOP/s{ratio}  {subject.case}", flush=True)
    return one


def compared(group: str, mode: str, case: Case, *, quick: bool) -> Measurement:
    """Our call and torch's, in turn."""
    subject = subject_of(case)
    calls = {"mxgemm": subject.ours}
    peer = subject.torch_peer()
    if peer:
        calls["torch"] = peer
    measure = bursts if mode == "burst" else sustained
    seconds = {"burst": 0.25, "sustained": 0.3}[mode] / (3 if quick else 1)
    one = measurement(group, mode, subject, measure(calls, len(subject.sets), seconds=seconds))
    del subject, calls, peer
    if case.product.work > 1e11:
        torch.cuda.empty_cache()  # the largest operands take tens of gigabytes with their captured results
    return one


def through_cupy(case: Case) -> Measurement:
    subject = subject_of(case)
    calls = {"mxgemm": subject.ours, "cupy": cupy_peer(subject), "torch": subject.torch_peer()}
    given = {name: call for name, call in calls.items() if call}
    # Library calls outside torch's own capture are not sure to be captured.
    return measurement("cupy", "burst", subject, bursts(given, len(subject.sets), graphs=False))


def copy_times(sizes: Iterable[int]) -> tuple[CopyTime, ...]:
    """Copies that read and write so many bytes together, on sets that do not fit the cache."""
    return tuple(_copy_time(nbytes) for nbytes in sizes)


def _copy_time(nbytes: int) -> CopyTime:
    sets = min(MOST_SETS, max(2, -(-ENOUGH // nbytes)))
    empty = partial(torch.empty, nbytes // 2, dtype=torch.uint8, device="cuda")
    memory = [[empty().random_() for _ in "ab"] for _ in range(sets)]
    calls = {"copy": lambda i: memory[i][0].copy_(memory[i][1])}
    one = CopyTime(2 * (nbytes // 2), round(bursts(calls, sets, seconds=0.1)["copy"], 3))
    print(f"copy       {one.rate:8.0f} GB/s  {one.nbytes} bytes read and written", flush=True)
    return one


def epilogue_costs(arch: str) -> list[Measurement]:
    """Each variant in turn with the plain product, and torch's where it has one call for it."""
    subjects = {name: subject_of(case) for name, case in timed.epilogues(arch)}
    library = {f"torch {name}": call for name, call in _library_epilogues().items()}
    times = bursts({**{name: one.ours for name, one in subjects.items()}, **library}, 2, seconds=0.9)
    found = []
    for name, one in subjects.items():
        peers = {key: times[key] for key in (f"torch {name}", "torch plain") if f"torch {name}" in times}
        kept = {"mxgemm": times[name], "plain": times["plain"], **peers}
        found.append(measurement(f"epilogue: {name}", "burst", one, kept))
    return found


def _library_epilogues() -> dict[str, Call]:
    m, n, k = timed.SQUARE
    shapes = ((m, k), (k, n), (m, n), (m, n))
    sets = [tuple(torch.randn(*shape, device="cuda").half() for shape in shapes) for _ in "ab"]
    bias = torch.randn(n, device="cuda").half()
    return {
        "plain": lambda i: torch.mm(*sets[i][:2], out=sets[i][3]),
        "alpha, beta C": lambda i: torch.addmm(
            sets[i][2], *sets[i][:2], alpha=1.25, beta=0.75, out=sets[i][3]
        ),
        "bias": lambda i: torch.addmm(bias, *sets[i][:2], out=sets[i][3]),
    }  # fmt: skip


def host_costs() -> dict[str, float]:
    """Warmed calls on small arrays, so that the device never holds the host up."""
    import cupy

    a, b = (torch.randn(64, 64, device="cuda").half() for _ in "ab")
    d = torch.empty_like(a)
    x, y, z = (cupy.asarray(one) for one in (a, b, d))
    f, g, h = (one.astype(cupy.float32) for one in (x, y, z))
    i, j = (one.astype(cupy.int8) for one in (x, y))
    k = cupy.empty((64, 64), cupy.int32)
    packed = cupy.zeros((64, 128), cupy.int8)[:, ::2]
    c, bias = torch.randn_like(a), torch.randn(64, device="cuda").half()
    u, v = cupy.asarray(c), cupy.asarray(bias)
    layer, same = mx.epilogue.relu(bias=v), mx.epilogue.relu(bias=bias)
    found = host_microseconds(
        {
            "mxgemm, CuPy, float16": lambda: mx.gemm(x, y, out=z, precision="native"),
            "mxgemm, CuPy, float32 tf32": lambda: mx.gemm(f, g, out=h, precision="tf32"),
            "mxgemm, CuPy, int8": lambda: mx.gemm(i, j, out=k),
            "mxgemm, torch, float16": lambda: mx.gemm(a, b, out=d, precision="native"),
            "cupy.matmul, float16": lambda: cupy.matmul(x, y, out=z),
            "torch.mm, float16": lambda: torch.mm(a, b, out=d),
            "mxgemm, CuPy, float16, bias and relu": lambda: mx.gemm(
                x, y, out=z, precision="native", epilogue=layer
            ),
            "mxgemm, torch, float16, bias and relu": lambda: mx.gemm(
                a, b, out=d, precision="native", epilogue=same
            ),
            "torch.addmm, float16, bias": lambda: torch.addmm(bias, a, b, out=d),
            "mxgemm, CuPy, float16, C": lambda: mx.gemm(x, y, u, beta=1.0, out=z, precision="native"),
            "mxgemm, torch, float16, C": lambda: mx.gemm(a, b, c, beta=1.0, out=d, precision="native"),
            "mxgemm, CuPy, float16, new result": lambda: mx.gemm(x, y, precision="native"),
            "mxgemm, torch, float16, new result": lambda: mx.gemm(a, b, precision="native"),
            "cupy.matmul, float16, new result": lambda: cupy.matmul(x, y),
            "torch.mm, float16, new result": lambda: torch.mm(a, b),
            "mxgemm, CuPy, int8, A packed into workspace": lambda: mx.gemm(packed, j, out=k),
        }
    )
    for name, microseconds in found.items():
        print(f"host       {microseconds:8.2f} us  {name}", flush=True)
    return {name: round(microseconds, 2) for name, microseconds in found.items()}
