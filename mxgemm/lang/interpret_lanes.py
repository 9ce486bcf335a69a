"""The threads that the interpreter runs together: whole blocks, block after block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mxgemm.lang.faults import KernelFaultError
    from mxgemm.lang.place import Place

__all__ = ["Lanes", "Triple"]

Triple = tuple[int, int, int]


@dataclass(frozen=True)
class Lanes:
    """Blocks ``first`` … ``first + count − 1`` of a launch, one lane a thread, x fastest."""

    grid: Triple
    block: Triple
    first: int
    count: int

    @property
    def threads(self) -> int:
        """Threads a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def size(self) -> int:
        """Lanes."""
        return self.count * self.threads

    @cached_property
    def thread(self) -> NDArray[np.int64]:
        """Linear thread index of each lane."""
        return np.tile(np.arange(self.threads), self.count)

    @cached_property
    def block_in_batch(self) -> NDArray[np.int64]:
        """Number of each lane's block in this batch."""
        return np.repeat(np.arange(self.count), self.threads)

    @cached_property
    def warps(self) -> int:
        """Warps a block."""
        return -(-self.threads // 32)

    @cached_property
    def warp(self) -> NDArray[np.int64]:
        """Number of each lane's warp in this batch."""
        return self.block_in_batch * self.warps + self.thread // 32

    def register(self, name: str, axis: int) -> Any:
        """A special register: a scalar where all lanes agree."""
        if name == "blockDim":
            return np.int32(self.block[axis])
        if name == "gridDim":
            return np.int32(self.grid[axis])
        if name == "laneid":
            return (self.thread % 32).astype(np.int32)
        extents, linear = (self.block, self.thread) if name == "threadIdx" else (self.grid, None)
        if extents[axis] == 1:
            return np.int32(0)
        if linear is None:
            linear = self.first + self.block_in_batch
        below = extents[0] if axis == 1 else extents[0] * extents[1]
        index = linear if axis == 0 else linear // below
        return (index % extents[axis]).astype(np.int32)

    def fault(self, kind: type[KernelFaultError], message: str, place: Place, lane: int) -> KernelFaultError:
        """An error that names the lane's block and thread."""
        block = _unravel(self.first + lane // self.threads, self.grid)
        return kind(message, place, block, _unravel(lane % self.threads, self.block))


def _unravel(linear: int, extents: Triple) -> Triple:
    x, y = extents[0], extents[1]
    return int(linear % x), int(linear // x % y), int(linear // (x * y))
