"""Arrays on a device with guard bands: any layout, leading dimension, offset and batch, poisoned around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mxgemm.units.formats import numpy_dtype

GUARD = 512
POISON = 0xFE  # NaN or a large number in every type


@dataclass
class GuardedArray:
    """A strided array in a larger buffer.

    Attributes
    ----------
    host : ndarray
        The values, in the buffer's host image.
    device : torch.Tensor
        The same on the device.
    """

    host: np.ndarray[Any, Any]
    device: Any
    _raw: np.ndarray[Any, Any]
    _memory: Any

    def guards_hold(self) -> bool:
        """Whether every byte outside the array still has its poison or its input's value."""
        now = self._memory.cpu().numpy().copy()
        image = self._raw.copy()
        for bytes_ in (now, image):
            self._inside(bytes_)[...] = 0
        return bool(np.array_equal(now, image))

    def _inside(self, raw: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        size = self.host.dtype.itemsize
        first = self.host.__array_interface__["data"][0] - self._raw.__array_interface__["data"][0]
        shape, strides = (*self.host.shape, size), (*self.host.strides, 1)
        return np.ndarray(shape, np.uint8, raw, first, strides)

    def download(self) -> np.ndarray[Any, Any]:
        """The device's values."""
        raw = self._memory.cpu().numpy()
        return np.ascontiguousarray(self._inside(raw)).view(self.host.dtype)[..., 0]

    def poison(self) -> None:
        """Fill the array on the device and on the host, guards included."""
        self._raw[...] = POISON
        self._memory.fill_(POISON)


def guarded(
    shape: tuple[int, ...], dtype: str, *, column_major: bool = False, pad: int = 0, offset: int = 0,
    values: np.ndarray[Any, Any] | None = None,
) -> GuardedArray:  # fmt: skip
    """An array of ``shape`` (…, rows, columns) whose leading dimension is ``pad`` longer than it must be."""
    import torch

    kind = numpy_dtype(dtype)
    *batch, rows, cols = shape
    leading = (rows if column_major else cols) + pad
    strides = [1, leading] if column_major else [leading, 1]
    step = leading * (cols if column_major else rows)
    for extent in reversed(batch):
        strides.insert(0, step)
        step *= extent
    raw = np.full(2 * GUARD + (step + offset) * kind.itemsize, POISON, np.uint8)
    first = GUARD + offset * kind.itemsize
    host = np.ndarray(shape, kind, raw, first, tuple(s * kind.itemsize for s in strides))
    if values is not None:
        host[...] = values
    memory = torch.from_numpy(raw).cuda()
    typed = memory[GUARD % kind.itemsize :].view(getattr(torch, dtype))
    return GuardedArray(host, typed.as_strided(shape, strides, first // kind.itemsize), raw, memory)


def same_bits(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have equal bits, any NaN being equal to any other."""
    unsigned = f"u{x.dtype.itemsize}"
    bits = np.ascontiguousarray(x).view(unsigned) == np.ascontiguousarray(y).view(unsigned)
    if x.dtype.kind in "iu":
        return bool(bits.all())
    with np.errstate(invalid="ignore"):
        nans = np.isnan(x.astype(np.float32)) & np.isnan(y.astype(np.float32))
    return bool((bits | nans).all())
