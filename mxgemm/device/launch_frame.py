"""What the driver reads at a launch: configuration, parameters and where they are, laid out once.

The structures are CUlaunchConfig and CUlaunchAttribute of the CUDA driver API (cuLaunchKernelEx, CUDA 11.8).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from mxgemm.device import driver

__all__ = ["Buffer", "Configuration", "Frame", "Scattered"]

_SINCE = 12000  # the driver API's version that is asked for cuLaunchKernelEx
_BUFFER, _BUFFER_BYTES, _END = 1, 2, 0  # CU_LAUNCH_PARAM_BUFFER_POINTER, _BUFFER_SIZE, _END
_ALIGNMENT = 64  # of a tensor map, the most that a parameter here asks for
_CLUSTER_DIMENSION, _PROGRAMMATIC = 4, 6  # CUlaunchAttributeID


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint), ("padding", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Configuration(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


class Configuration(NamedTuple):
    """A launch configuration as a value.

    Attributes
    ----------
    grid, block : tuple of 1 to 3 ints
        Blocks (with ``cluster``: clusters) and threads.
    shared_bytes : int
        Dynamic shared memory of a block, in bytes.
    cluster : tuple of 1 to 3 ints, optional
        Blocks of a thread-block cluster.
    programmatic : bool
        Whether the launch may begin while its predecessor in the stream ends.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    cluster: tuple[int, ...] | None = None
    programmatic: bool = False

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Blocks and threads along x, y and z, as the driver counts them."""
        grid, cluster = _three(self.grid), _three(self.cluster or ())
        return (*(blocks * many for blocks, many in zip(grid, cluster, strict=True)), *_three(self.block))

    @property
    def attributes(self) -> list[tuple[int, tuple[int, ...]]]:
        """Numbers and values of the attributes that the driver is told of."""
        cluster = [] if self.cluster is None else [(_CLUSTER_DIMENSION, _three(self.cluster))]
        return [*cluster, *([(_PROGRAMMATIC, (1,))] if self.programmatic else [])]


def _three(extents: tuple[int, ...]) -> tuple[int, ...]:
    return (*extents, *(1,) * (3 - len(extents)))


class Scattered:
    """Parameters that the driver reads one by one, each as wide as the kernel declares it.

    Parameters
    ----------
    places : sequence of int
        Addresses of the parameters.
    """

    __slots__ = ("_addresses",)

    def __init__(self, places: Sequence[int]) -> None:
        self._addresses = (ctypes.c_void_p * len(places))(*places)

    @property
    def handed(self) -> tuple[Any, Any]:
        """The driver's ``kernelParams`` and ``extra``."""
        return _pointer(ctypes.addressof(self._addresses)), None


class Buffer:
    """Parameters that the driver copies as a whole, which costs it less; zeros at first.

    Parameters
    ----------
    before : int
        Bytes of the device's layout before the first parameter: see :mod:`mxgemm.device.parameter_layout`.
    nbytes : int
        From the first parameter on.

    Attributes
    ----------
    first : int
        Address of the first parameter, aligned to 64 bytes.
    """

    __slots__ = ("_extra", "_memory", "_nbytes", "first")

    def __init__(self, before: int, nbytes: int) -> None:
        self._memory = (ctypes.c_ubyte * (before + nbytes + _ALIGNMENT))()
        least = ctypes.addressof(self._memory) + before
        self.first = least + -least % _ALIGNMENT
        self._nbytes = ctypes.c_size_t(before + nbytes)
        self._extra = (ctypes.c_void_p * 5)(
            _BUFFER, self.first - before, _BUFFER_BYTES, ctypes.addressof(self._nbytes), _END
        )

    @property
    def handed(self) -> tuple[Any, Any]:
        """The driver's ``kernelParams`` and ``extra``."""
        return None, _pointer(ctypes.addressof(self._extra))


class Frame:
    """Memory of one launch at a time, and the prepared call that gives it to the driver.

    Parameters
    ----------
    kernel : int
        The driver's handle.
    configuration : Configuration
    parameters : Scattered or Buffer

    Attributes
    ----------
    launch : callable
        Queues the launch on ``stream`` and returns the driver's status; called with ``arguments``.
    arguments : tuple
        A tuple costs the call less than a partial does.
    stream : int
        The handle that the configuration holds; 0 before the first.
    """

    __slots__ = ("_attributes", "_configuration", "_parameters", "arguments", "launch", "stream")

    def __init__(self, kernel: int, configuration: Configuration, parameters: Scattered | Buffer) -> None:
        told = configuration.attributes
        self._attributes = (_Attribute * len(told))()
        for attribute, (number, values) in zip(self._attributes, told, strict=True):
            attribute.id, attribute.value[: len(values)] = number, values
        self._configuration = _Configuration(
            configuration.dimensions[:3], configuration.dimensions[3:], configuration.shared_bytes, None,
            ctypes.addressof(self._attributes) if told else None, len(told),
        )  # fmt: skip
        self._parameters = parameters
        self.launch = driver.foreign("cuLaunchKernelEx", _SINCE)
        where = _pointer(ctypes.addressof(self._configuration))
        self.arguments = (where, _pointer(kernel), *parameters.handed)
        self.stream = 0

    def send_to(self, stream: int) -> None:
        """Let the next launches go to a stream."""
        self._configuration.stream = stream
        self.stream = stream


def _pointer(address: int) -> Any:
    """An address as ctypes passes it, converted once instead of at each launch."""
    return ctypes.c_void_p.from_param(address)
