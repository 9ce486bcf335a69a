"""Reading what a CUDA device offers into :class:`mxgemm.capabilities.Capabilities`."""

from __future__ import annotations

from functools import lru_cache

from mxgemm.capabilities import Capabilities
from mxgemm.device import driver
from mxgemm.errors import UnsupportedError

__all__ = ["capabilities", "compile_arch"]

# Architectures whose own instructions NVRTC offers only under another name.
_COMPILE_ARCH = {"sm_90": "sm_90a"}


def compile_arch(arch: str) -> str:
    """NVRTC's name for an architecture of the configuration table: "sm_90" is compiled as "sm_90a"."""
    return _COMPILE_ARCH.get(arch, arch)


def capabilities(ordinal: int = 0) -> Capabilities:
    """Read a device; the answer is kept, since a device does not change.

    Raises
    ------
    UnsupportedError
        Without cuda-core, a driver or that device, and after a fork.
    """
    driver.check_process()
    return _read(ordinal)


@lru_cache(maxsize=64)
def _read(ordinal: int) -> Capabilities:
    devices = driver.count()
    if not 0 <= ordinal < devices:
        raise UnsupportedError(f"there is no CUDA device {ordinal}; this machine has {devices}")
    device = driver.call("cuDeviceGet", ordinal)

    def attribute(name: str) -> int:
        return int(driver.call("cuDeviceGetAttribute", driver.constant("CUdevice_attribute", name), device))

    major = attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR")
    minor = attribute("CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR")
    name = driver.call("cuDeviceGetName", 128, device)
    return Capabilities(
        backend=f"cuda:{ordinal}",
        arch=f"sm_{major}{minor}",
        name=name.split(b"\0")[0].decode(),
        multiprocessors=attribute("CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        shared_memory_per_block=attribute("CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
    )
