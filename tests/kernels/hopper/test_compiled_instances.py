"""A covering set compiles for sm_90a: nothing spills, nothing has a stack, no wgmma is serialised."""

from dataclasses import replace

import pytest

from mxgemm import device
from mxgemm.report.compilation import Compiled, compile_all
from tests.kernels.hopper.chosen import chosen

pytest.importorskip("cuda.core", reason="kernels are compiled through cuda-core")

SHARED_LIMIT = 227 * 1024


def faults(found: Compiled) -> list[str]:
    """What is wrong with a compiled kernel."""
    checks = (
        (found.spilled_bytes == 0, f"spills {found.spilled_bytes} bytes"),
        (found.resources.stack == 0, f"has a stack of {found.resources.stack} bytes"),
        (found.shared_bytes <= SHARED_LIMIT, f"wants {found.shared_bytes} bytes of shared memory"),
        (not found.remarks, "; ".join(found.remarks)),
    )
    return [f"{found.kernel}: {what}" for holds, what in checks if not holds]


def test_a_covering_set_compiles_without_spills_and_without_remarks() -> None:
    assert [
        fault for found in compile_all(chosen().values(), "sm_90a", processes=2) for fault in faults(found)
    ] == []


def test_spills_stack_shared_memory_and_remarks_are_faults() -> None:
    clean = Compiled(chosen()["tf32"], device.Resources(), SHARED_LIMIT, (), 0.0)
    assert faults(clean) == []
    wrong = replace(
        clean, resources=device.Resources(spill_loads=4, stack=8), shared_bytes=SHARED_LIMIT + 1,
        remarks=("info : (C7514) wgmma.mma_async instructions are serialized",),
    )  # fmt: skip
    assert len(faults(wrong)) == 4
