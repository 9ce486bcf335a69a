"""What a device offers, as a value: admission reads this and never the device itself."""

from __future__ import annotations

from dataclasses import dataclass

from mxgemm.configs import ARCHITECTURES, UNITS
from mxgemm.errors import UnsupportedError, one_of

__all__ = ["CPU_DEFAULT_ARCH", "Capabilities", "cpu_model"]

CPU_DEFAULT_ARCH = "sm_90"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """One place where a product can run.

    Attributes
    ----------
    backend : str
        ``cuda:<ordinal>`` for a GPU, ``cpu:<arch>`` for the CPU model of one.
    arch : str
        The architecture whose rows of the configuration table apply, for example "sm_90".
    name : str
        The device's name, for people.
    multiprocessors : int
        Streaming multiprocessors; 0 on the CPU model.
    shared_memory_per_block : int
        Bytes of shared memory that one block may ask for; 0 on the CPU model.
    """

    backend: str
    arch: str
    name: str = ""
    multiprocessors: int = 0
    shared_memory_per_block: int = 0

    @property
    def is_cpu(self) -> bool:
        """Whether this is the CPU model of an architecture."""
        return self.backend.startswith("cpu:")

    @property
    def units(self) -> tuple[str, ...]:
        """Matrix units with confirmed arithmetic here."""
        return tuple(unit for unit, arch in UNITS if arch == self.arch)


def cpu_model(device: str = "cpu") -> Capabilities:
    """The CPU model that ``device`` names: "cpu" (Hopper) or "cpu:sm_80" and the like.

    Raises
    ------
    UnsupportedError
        For an architecture that the table does not know.
    """
    arch = CPU_DEFAULT_ARCH if device == "cpu" else device.removeprefix("cpu:")
    if device not in ("cpu", f"cpu:{arch}") or arch not in ARCHITECTURES:
        models = one_of(["cpu", *(f"cpu:{a}" for a in ARCHITECTURES)])
        raise UnsupportedError(f"device {device!r} is not known; CPU models are {models}")
    return Capabilities(f"cpu:{arch}", arch, f"exact model of {arch} on the CPU")
