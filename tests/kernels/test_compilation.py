"""A covering set of kernels compiles for every architecture, without spills and within shared memory."""

import pytest

from mxgemm import device
from mxgemm.kernels import KernelInstance
from mxgemm.kernels.limits import SHARED_KIB
from mxgemm.report.compilation import Compiled, compile_all
from tests.kernels.offered import covering_set

pytest.importorskip("cuda.core", reason="kernels are compiled through cuda-core")

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FEW, MOST = 4, 28  # of each architecture: 28 and at most 196 in all


def faults(found: Compiled, arch: str) -> list[str]:
    """What is wrong with a compiled kernel."""
    stack, limit = found.resources.stack, SHARED_KIB[arch] * 1024
    checks = (
        (found.spilled_bytes == 0, f"spills {found.spilled_bytes} bytes"),
        (stack == 0, f"has a stack of {stack} bytes"),
        (found.shared_bytes <= limit, f"wants {found.shared_bytes} of {limit} bytes of shared memory"),
    )
    return [f"{found.kernel} {what}" for holds, what in checks if not holds]


def check(arch: str, chosen: list[KernelInstance]) -> None:
    compiled = compile_all(chosen, device.compile_arch(arch), processes=2)
    assert [fault for found in compiled for fault in faults(found, arch)] == []


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_share_of_the_covering_set_compiles_without_spills(arch: str) -> None:
    # The architectures' sets are much alike, and each compiles another seventh.
    share, shares = ARCHITECTURES.index(arch), len(ARCHITECTURES)
    check(arch, covering_set(arch, FEW * shares)[share::shares])


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_covering_set_compiles_without_spills(arch: str) -> None:
    check(arch, covering_set(arch, MOST))


def test_a_spill_is_a_fault() -> None:
    (kernel,) = covering_set("sm_80", 1)
    found = Compiled(kernel, device.Resources(spill_stores=8, stack=8), 2**18, (), 0.0)
    assert len(faults(found, "sm_80")) == 3
