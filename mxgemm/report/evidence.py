"""Records: what was measured, frozen, kept as JSON, and whether it describes the source of today.

A record says for each kernel the SHA-256 of the whole source that ran.  Evidence is *fresh* when that is
the hash of the source generated today for the same instance; *stale* when it is another's; *missing*
when the record does not have the kernel; *failed* when the record says that bits differed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from mxgemm.errors import UnsupportedError
from mxgemm.report.cases import Case
from mxgemm.report.environment import Environment

__all__ = [
    "CORRECTNESS_FILE",
    "PERFORMANCE_FILE",
    "CopyTime",
    "CorrectnessRecord",
    "KernelCount",
    "Measurement",
    "PerformanceRecord",
    "Status",
]

Status = Literal["fresh", "stale", "missing", "failed"]

CORRECTNESS_FILE, PERFORMANCE_FILE = "correctness.json", "performance.json"
_SCHEMA = 1


def _read(path: Path, kind: str) -> dict[str, Any] | None:
    """The JSON of a record; None where there is no file."""
    if not path.exists():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedError(f"{path} is no JSON ({error}); measure it again") from error
    found = (values.get("kind"), values.get("schema")) if isinstance(values, dict) else None
    if found != (kind, _SCHEMA):
        raise UnsupportedError(
            f"{path} holds {found}; supported is a {kind} record of schema {_SCHEMA}: measure it again"
        )
    return dict(values)


def _write(path: Path, kind: str, environment: Environment, rest: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {"kind": kind, "schema": _SCHEMA, "environment": environment.as_json(), **rest}
    path.write_text(json.dumps(values, indent=1, allow_nan=False) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class KernelCount:
    """How one kernel compared with the CPU run.

    Attributes
    ----------
    entry : str
        The instance's name.
    kernel : str
        The instance in words.
    sha256 : str
        Of the source that ran.
    cases, mismatches : int
        Results compared, and those that differed.
    """

    entry: str
    kernel: str
    sha256: str
    cases: int
    mismatches: int


@dataclass(frozen=True)
class CorrectnessRecord:
    """Every kernel that ran against the CPU run of the same Plan, and counts by configuration.

    Attributes
    ----------
    environment : Environment
    kernels : mapping of str to KernelCount
        By entry.
    configurations : mapping of str to mapping of str to int
        By the configuration's name: "cases", "entries", "mismatches" and so on.
    seconds : float
        That the run took.
    failures : tuple of str
        The first mismatches in words.
    left_out : int
        Cases of the plan that the run's time limit left out.
    """

    environment: Environment
    kernels: Mapping[str, KernelCount]
    configurations: Mapping[str, Mapping[str, int]]
    seconds: float
    failures: tuple[str, ...] = ()
    left_out: int = 0

    def status(self, entry: str, sha256: str) -> Status:
        """Whether the record describes the kernel whose source of today has this hash."""
        found = self.kernels.get(entry)
        if found is None:
            return "missing"
        if found.sha256 != sha256:
            return "stale"
        return "failed" if found.mismatches else "fresh"

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        rest = {
            "seconds": self.seconds,
            "configurations": {name: dict(counts) for name, counts in self.configurations.items()},
            "failures": list(self.failures),
            "left_out": self.left_out,
            "kernels": [asdict(one) for one in self.kernels.values()],
        }
        _write(path, "correctness", self.environment, rest)

    @classmethod
    def load(cls, path: Path) -> CorrectnessRecord | None:
        """Read what :meth:`save` wrote; None where there is no such file.

        Raises
        ------
        UnsupportedError
            For a file of another kind or schema.
        """
        values = _read(path, "correctness")
        if values is None:
            return None
        counts = [KernelCount(**one) for one in values["kernels"]]
        return cls(
            Environment.from_json(values["environment"]), {one.entry: one for one in counts},
            values["configurations"], values["seconds"], tuple(values["failures"]), values["left_out"],
        )  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """One timed product.

    Attributes
    ----------
    group : str
        The part of the table that it belongs to.
    case : Case
    entry, sha256, kernel : str
        The instance that ran, the hash of its source, and the instance in words.
    mode : str
        "burst" or "sustained".
    microseconds : float
        Median of one product.
    peers : mapping of str to float
        The same of each peer, by its name, measured in turn with ours.
    """

    group: str
    case: Case
    entry: str
    sha256: str
    kernel: str
    mode: str
    microseconds: float
    peers: Mapping[str, float]

    @property
    def teraflops(self) -> float:
        """2·M·N·K of the product that the caller asked for, over the time, in 10¹² a second."""
        return 2e-6 * self.case.product.work / self.microseconds

    @property
    def ratio(self) -> float | None:
        """The first peer's time over ours; above 1 is faster than the peer."""
        return next((time / self.microseconds for time in self.peers.values()), None)


@dataclass(frozen=True, slots=True)
class CopyTime:
    """A copy from device memory to device memory.

    Attributes
    ----------
    nbytes : int
        Read and written, together.
    microseconds : float
    """

    nbytes: int
    microseconds: float

    @property
    def rate(self) -> float:
        """Bytes read and written, in 10⁹ a second."""
        return 1e-3 * self.nbytes / self.microseconds


@dataclass(frozen=True)
class PerformanceRecord:
    """Times of products, and of everything around them.

    Attributes
    ----------
    environment : Environment
    measurements : tuple of Measurement
    host : mapping of str to float
        Microseconds of host time of warmed calls.
    first_calls : mapping of str to mapping of str to float
        Milliseconds of first calls, "cold" and from the "disk cache", by configuration.
    seconds : float
        That the run took.
    copies : tuple of CopyTime
        What products of few rows are held against; empty in records that were written without.
    """

    environment: Environment
    measurements: tuple[Measurement, ...]
    host: Mapping[str, float]
    first_calls: Mapping[str, Mapping[str, float]]
    seconds: float
    copies: tuple[CopyTime, ...] = ()

    def status(self, entry: str, sha256: str) -> Status:
        """Whether the record has a time of the kernel whose source of today has this hash."""
        hashes = {one.sha256 for one in self.measurements if one.entry == entry}
        if not hashes:
            return "missing"
        return "fresh" if hashes == {sha256} else "stale"

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        rest = {
            "seconds": self.seconds,
            "host": dict(self.host),
            "first_calls": {name: dict(times) for name, times in self.first_calls.items()},
            "copies": [{**asdict(one), "rate": one.rate} for one in self.copies],
            "measurements": [
                {**asdict(one), "teraflops": one.teraflops, "ratio": one.ratio} for one in self.measurements
            ],
        }
        _write(path, "performance", self.environment, rest)

    @classmethod
    def load(cls, path: Path) -> PerformanceRecord | None:
        """Read what :meth:`save` wrote; None where there is no such file.

        Raises
        ------
        UnsupportedError
            For a file of another kind or schema.
        """
        values = _read(path, "performance")
        if values is None:
            return None
        names = ("group", "entry", "sha256", "kernel", "mode", "microseconds", "peers")
        measurements = [
            Measurement(case=Case.from_json(one["case"]), **{name: one[name] for name in names})
            for one in values["measurements"]
        ]
        copies = tuple(CopyTime(one["nbytes"], one["microseconds"]) for one in values.get("copies", ()))
        return cls(
            Environment.from_json(values["environment"]), tuple(measurements), values["host"],
            values["first_calls"], values["seconds"], copies,
        )  # fmt: skip
