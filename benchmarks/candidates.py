"""Candidates of a case, and the vendor's library to measure beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mxgemm import device
from mxgemm.kernels import KernelInstance, PackInstance
from mxgemm.report import Case
from mxgemm.report.compilation import fill_cache, pool

if TYPE_CHECKING:
    from mxgemm.autotune_measure import Call, Peer

PEER = "cuBLAS"


def lowered(case: Case, arch: str, multiprocessors: int) -> dict[str, Any]:
    """Arguments of ``kernels.lower`` and its siblings."""
    return {
        "problem": case.problem, "configuration": case.product.configuration, "arch": arch,
        "alignment": case.alignment, "multiprocessors": multiprocessors,
    }  # fmt: skip


def lowered_here(case: Case) -> dict[str, Any]:
    """As :func:`lowered`, on the device of this machine."""
    here = device.capabilities()
    return lowered(case, here.arch, here.multiprocessors)


def compile_kernels(kernels: Iterable[KernelInstance | PackInstance]) -> int:
    """Fill the disk cache in processes, so that measuring does not wait; how many kernels there are."""
    every = {kernel.entry: kernel for kernel in kernels}
    arch = device.compile_arch(device.capabilities().arch)
    with pool() as workers:
        for future in [workers.submit(fill_cache, k.source(), k.entry, arch) for k in every.values()]:
            future.result()
    return len(every)


def peers_of(case: Case) -> dict[str, Peer]:
    """The vendor's library through torch, on torch's own operands; none where torch lacks the product."""
    import torch

    from benchmarks.subjects import subject_of

    subject = subject_of(case)
    product = subject.torch_peer()
    if product is None:
        return {}

    def peer(stream: int) -> Call:
        on = torch.cuda.ExternalStream(stream)

        def call(number: int) -> None:
            with torch.cuda.stream(on):
                product(number % len(subject.sets))

        # The library's workspace, and memory for what it returns, are of the stream: not to be captured.
        call(0)
        on.synchronize()
        return call

    return {PEER: peer}
