"""What a block may have on each architecture."""

from __future__ import annotations

__all__ = ["SHARED_KIB", "has_async_copies"]

SHARED_KIB = {
    "sm_70": 96, "sm_75": 64, "sm_80": 163, "sm_86": 99, "sm_89": 99,
    "sm_90": 227, "sm_100": 227, "sm_120": 99,
}  # fmt: skip
"""KiB of shared memory that one block may have (CUDA C++ Programming Guide, "Compute Capabilities")."""


def has_async_copies(arch: str) -> bool:
    """Whether ``arch`` has cp.async."""
    return arch not in ("sm_70", "sm_75")
