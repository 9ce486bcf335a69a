"""Environment: the device and the versions that a measurement belongs to."""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import mxgemm
from mxgemm import device
from mxgemm.device import driver

__all__ = ["Environment", "read_environment"]

# CuPy's distribution is named after the CUDA that it was built for.
_DISTRIBUTIONS = {
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "torch": ("torch",),
    "cuda_core": ("cuda-core",),
    "cuda_bindings": ("cuda-bindings",),
    "numpy": ("numpy",),
}
ABSENT = "not installed"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Environment:
    """What a record was measured on.

    Attributes
    ----------
    device : str
        The GPU's name.
    arch : str
        Of the configuration table, for example "sm_90".
    multiprocessors : int
    driver : str
        Version of the driver package; "unknown" where nothing tells it.
    cuda : str
        Newest CUDA version that the driver offers.
    nvrtc, mxgemm, cupy, torch, cuda_core, cuda_bindings, numpy : str
        Versions; "not installed" where it is not.
    time : str
        UTC, ISO 8601, seconds.
    """

    device: str
    arch: str
    multiprocessors: int
    driver: str
    cuda: str
    nvrtc: str
    mxgemm: str
    cupy: str
    torch: str
    cuda_core: str
    cuda_bindings: str
    numpy: str
    time: str

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Environment:
        """What :meth:`as_json` wrote."""
        return cls(**values)


def _version_of(name: str) -> str:
    for distribution in _DISTRIBUTIONS[name]:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return ABSENT


def _driver_version() -> str:
    """As ``nvidia-smi`` tells it; the driver API has only the CUDA version."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)  # noqa: S603 — a fixed command
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN
    lines = run.stdout.split()
    return lines[0] if lines else UNKNOWN


def now() -> str:
    """The time, UTC, in seconds."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def read_environment(ordinal: int = 0) -> Environment:
    """Read the device and the versions of now.

    Raises
    ------
    UnsupportedError
        Without a usable CUDA device.
    """
    offered = device.capabilities(ordinal)
    cuda = int(driver.call("cuDriverGetVersion"))
    major, minor = device.nvrtc_version()
    return Environment(
        device=offered.name,
        arch=offered.arch,
        multiprocessors=offered.multiprocessors,
        driver=_driver_version(),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        nvrtc=f"{major}.{minor}",
        mxgemm=mxgemm.__version__,
        time=now(),
        **{name: _version_of(name) for name in _DISTRIBUTIONS},
    )
