"""Records made up for the tests: evidence of every kernel, fresh unless a test says otherwise."""

from __future__ import annotations

from dataclasses import replace

from mxgemm.report import CorrectnessRecord, Environment, KernelCount, Measurement, PerformanceRecord, listed
from mxgemm.report.cases import Case
from mxgemm.report.kernels import source_sha256

ARCH = "sm_75"  # few families: its listing takes a second

ENVIRONMENT = Environment(
    device="A card", arch=ARCH, multiprocessors=132, driver="580.1", cuda="13.0", nvrtc="13.0",
    mxgemm="0.1.0", cupy="14.2", torch="2.11", cuda_core="1.2", cuda_bindings="13.0", numpy="2.4",
    time="2026-01-01T00:00:00+00:00",
)  # fmt: skip


def correctness(arch: str = ARCH) -> CorrectnessRecord:
    """Fresh evidence of every kernel of ``arch``."""
    counts = {one.entry: KernelCount(one.entry, str(one.kernel), one.sha256, 3, 0) for one in listed(arch)}
    environment = replace(ENVIRONMENT, arch=arch)
    return CorrectnessRecord(environment, counts, {"float16/native": {"cases": 3, "mismatches": 0}}, 1.5)


def with_count(record: CorrectnessRecord, entry: str, **changed: object) -> CorrectnessRecord:
    """The record with one kernel's count changed."""
    one = replace(record.kernels[entry], **changed)  # type: ignore[arg-type]  # fields by name
    return replace(record, kernels={**record.kernels, entry: one})


def measurement(case: Case, arch: str = ARCH) -> Measurement:
    """A time of ``case`` with the kernel of today."""
    kernel = case.lowering(arch).instance
    return Measurement(
        "table", case, kernel.entry, source_sha256(kernel), str(kernel), "burst", 10.0, {"torch": 8.0}
    )


def performance(*cases: Case, arch: str = ARCH) -> PerformanceRecord:
    """Times of ``cases`` with the kernels of today."""
    measured = tuple(measurement(case, arch) for case in cases)
    return PerformanceRecord(
        replace(ENVIRONMENT, arch=arch), measured, {"warmed": 5.5}, {"cold": {"float16/native": 700.0}}, 2.0
    )
