"""Fake kernels and tensor maps for tests of launches."""

from __future__ import annotations

from mxgemm import device
from mxgemm.device import compiler
from mxgemm.device.tensor_map import TensorMap
from tests.device.fakes import handle_of


def kernel_on(
    ordinal: int, parameters: int = 0, shared_bytes: int = 0, *, maps: int = 0
) -> device.CompiledKernel:
    """A fake kernel with so many parameters, tensor maps included."""
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())
    return device.CompiledKernel(cubin, ordinal, shared_bytes, handle_of(parameters, maps))


def parameters_of(count: int, ordinal: int = 0) -> device.CompiledKernel:
    """As :func:`kernel_on`, with shared memory."""
    return kernel_on(ordinal, count, 2048)


class NoMap:
    """A tensor map that nobody reads."""

    def __init__(self, _spec: object, _address: int) -> None:
        pass

    def aim(self, target: int) -> None:
        pass


def device_map() -> tuple[tuple[int, TensorMap], ...]:
    return ((0, TensorMap("a", 2, (8, 8, 1), (16, 128), (8, 8, 1))),)
