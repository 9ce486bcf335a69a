"""A module with CuPy's face over no memory at all: pointers, devices and current streams."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np


class ndarray:  # noqa: N801  # CuPy's name
    """A device array of which only the description exists."""

    __module__ = "cupy"

    def __init__(self, like: Any, pointer: Any = 0x10000, ordinal: int = 0) -> None:
        if isinstance(like, tuple):  # CuPy's own constructor: a shape and an element type
            like, pointer = np.empty(like, pointer), 0x90000
        self.shape, self.strides, self.dtype = like.shape, like.strides, like.dtype
        self.data = SimpleNamespace(ptr=pointer, device_id=ordinal)
        self.device = SimpleNamespace(id=ordinal)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])


class FakeCupy:
    """What mxgemm calls of CuPy; remembers on which device and stream it allocated."""

    __version__ = "0.fake"
    ndarray = ndarray

    def __init__(self) -> None:
        self.current = {0: 0, 1: 0x88}
        self.entered: list[object] = []
        self.current_device = 0
        runtime = SimpleNamespace(is_hip=False, getDevice=lambda: self.current_device)
        self.cuda = SimpleNamespace(
            runtime=runtime,
            get_current_stream=lambda ordinal: SimpleNamespace(ptr=self.current[ordinal]),
            Device=lambda ordinal: self._enter(("device", ordinal)),
            ExternalStream=lambda handle, ordinal: self._enter(("stream", handle, ordinal)),
            Stream=SimpleNamespace(null=nullcontext()),
        )

    def _enter(self, what: object) -> Any:
        self.entered.append(what)
        return nullcontext()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> ndarray:
        """Allocate; this CuPy knows no fp8."""
        if dtype == ml_dtypes.float8_e5m2:
            raise ValueError("unsupported dtype")
        return ndarray(np.empty(shape, dtype))
