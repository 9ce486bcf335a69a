"""Device arrays for a case: laid out as it says, in poisoned memory with guard bands around."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mxgemm.array import ArrayView
from mxgemm.report.cases import Case, strides_of
from mxgemm.units.formats import numpy_dtype

Array = np.ndarray[Any, Any]

GUARD = 512  # bytes on each side
POISON = 0xFF  # NaN in every float type, and -1


@dataclass
class Placed:
    """One array on the device.

    Attributes
    ----------
    raw : uint8 array
        The memory as it was uploaded, guard bands included.
    seen : array
        The elements inside ``raw``, as a strided view.
    first : int
        Byte of ``raw`` at which the element with all indices 0 lies.
    memory : torch.Tensor
        The same on the device.
    """

    raw: Array
    seen: Array
    first: int
    memory: Any

    def caller(self, *, transposed: bool = False) -> Any:
        """The array as a caller passes it: a torch tensor.

        torch has no negative strides: for those a CuPy array, or a view of ours where NumPy has no such type.
        """
        import torch

        x = self.seen
        steps = tuple(s // x.itemsize for s in x.strides)
        if min(steps) < 0:
            found = _cupy_view(self) if x.dtype.isbuiltin == 1 else _own_view(self)
        else:
            typed = self.memory.view(getattr(torch, x.dtype.name))
            found = typed.as_strided(x.shape, steps, self.first // x.itemsize)
        return found.swapaxes(-1, -2) if transposed else found

    def poison_again(self) -> None:
        """Give the memory the contents that it was uploaded with."""
        import torch

        self.memory.copy_(torch.from_numpy(self.raw))

    def download(self) -> Array:
        """The memory's bytes now; waits for the device."""
        return self.memory.cpu().numpy()


def _cupy_view(placed: Placed) -> Any:
    import cupy

    memory = placed.memory
    owner = cupy.cuda.UnownedMemory(memory.data_ptr(), memory.numel(), placed, memory.get_device())
    at = cupy.cuda.MemoryPointer(owner, placed.first)
    return cupy.ndarray(placed.seen.shape, placed.seen.dtype, at, strides=placed.seen.strides)


def _own_view(placed: Placed) -> ArrayView:
    x, memory = placed.seen, placed.memory
    steps = tuple(s // x.itemsize for s in x.strides)
    address = memory.data_ptr() + placed.first
    return ArrayView("other", "cuda", memory.get_device(), address, x.shape, steps, x.dtype.name, placed)


def place(values: Array | None, case: Case, name: str) -> Placed:
    """Lay ``values`` (D: nothing but poison) out as the case says and upload it."""
    import torch

    dtype, shape = case.product.shapes[name]
    kind, main = numpy_dtype(dtype), name in ("a", "b", "c", "d")
    strides = strides_of(shape, case.layout.order_of(name), case.layout.padding if main else 0)
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if extent]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    offset = case.layout.offset if main else 0
    size = (high - low + 1 + offset) * kind.itemsize
    raw = np.full(2 * GUARD + -(-size // 16) * 16, POISON, np.uint8)
    first = GUARD + (offset - low) * kind.itemsize
    seen: Array = np.ndarray(shape, kind, raw, first, tuple(s * kind.itemsize for s in strides))
    if values is not None:
        seen[...] = values
    return Placed(raw, seen, first, torch.from_numpy(raw.copy()).cuda())


def place_all(arrays: dict[str, Array], case: Case) -> dict[str, Placed]:
    """Every array of a case, D included."""
    return {name: place(arrays.get(name), case, name) for name in case.product.shapes}
