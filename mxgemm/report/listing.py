"""The listing: every kernel with the state of its evidence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mxgemm.report.evidence import (
    CORRECTNESS_FILE,
    PERFORMANCE_FILE,
    CorrectnessRecord,
    Measurement,
    PerformanceRecord,
    Status,
)
from mxgemm.report.kernels import ListedKernel, listed, source_sha256

__all__ = ["Row", "failures", "outdated", "rows"]


@dataclass(frozen=True)
class Row:
    """One kernel and its evidence.

    Attributes
    ----------
    listed : ListedKernel
    correctness : str
        "fresh", "stale", "missing" or "failed".
    performance : str
        "fresh", "stale", or "missing" where it was never timed: only the kernels of the timed shapes are.
    """

    listed: ListedKernel
    correctness: Status
    performance: Status

    @property
    def holds(self) -> bool:
        """Whether nothing about the kernel has to be measured again."""
        return self.correctness == "fresh" and self.performance in ("fresh", "missing")

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        kernel = self.listed.kernel
        return {
            "entry": kernel.entry, "kernel": str(kernel),
            "family": kernel.lowering, "variant": kernel.variant,
            "configurations": list(self.listed.configurations), "case": str(self.listed.case),
            "sha256": self.listed.sha256, "correctness": self.correctness, "performance": self.performance,
        }  # fmt: skip


def rows(arch: str, folder: Path) -> tuple[Row, ...]:
    """Every kernel of ``arch`` with the state of the evidence in ``folder``.

    A record of another architecture is no evidence.

    Raises
    ------
    UnsupportedError
        For a file in ``folder`` that is no record.
    """
    correctness = CorrectnessRecord.load(folder / CORRECTNESS_FILE)
    performance = PerformanceRecord.load(folder / PERFORMANCE_FILE)
    if correctness and correctness.environment.arch != arch:
        correctness = None
    if performance and performance.environment.arch != arch:
        performance = None
    return tuple(
        Row(
            one,
            correctness.status(one.entry, one.sha256) if correctness else "missing",
            performance.status(one.entry, one.sha256) if performance else "missing",
        )
        for one in listed(arch)
    )


def failures(arch: str, folder: Path) -> tuple[str, ...]:
    """Mismatches on record in words, also those of products that launch no kernel.

    Raises
    ------
    UnsupportedError
        For a file in ``folder`` that is no record.
    """
    record = CorrectnessRecord.load(folder / CORRECTNESS_FILE)
    return record.failures if record and record.environment.arch == arch else ()


def outdated(arch: str, folder: Path) -> tuple[Measurement, ...]:
    """Timed products that today run another kernel, or another source of it.

    Raises
    ------
    UnsupportedError
        For a file in ``folder`` that is no record.
    """
    record = PerformanceRecord.load(folder / PERFORMANCE_FILE)
    if record is None or record.environment.arch != arch:
        return ()
    return tuple(_changed(record.measurements, arch))


def _changed(measurements: Iterable[Measurement], arch: str) -> Iterable[Measurement]:
    for one in measurements:
        kernel = one.case.lowering(arch).instance
        if (kernel.entry, source_sha256(kernel)) != (one.entry, one.sha256):
            yield one
