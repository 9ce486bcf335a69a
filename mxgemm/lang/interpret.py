"""The reference interpreter: IR over all threads of a batch of blocks at once, in lockstep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.lang import ir
from mxgemm.lang.interpret_lanes import Lanes, Triple
from mxgemm.lang.interpret_memory import Memory
from mxgemm.lang.interpret_races import Epochs, Races
from mxgemm.lang.interpret_statements import Frame, Machine
from mxgemm.lang.types import ArrayType

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ArrayArgument", "interpret"]

#: Lanes run together: enough to keep NumPy busy, few enough to stay in a cache.
_BATCH = 16384


class ArrayArgument:
    """A kernel's array argument: elements of one-dimensional ``flat`` from ``base`` on."""

    __slots__ = ("base", "extents", "flat", "strides")

    def __init__(self, flat: Any, base: int, extents: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.flat, self.base, self.extents, self.strides = flat, base, extents, strides


def interpret(
    kernel: ir.Kernel, grid: Triple, block: Triple, shared_bytes: int, arguments: Mapping[str, Any]
) -> None:
    """Run a launch.

    Parameters
    ----------
    kernel
        Checked IR.
    grid, block
        Blocks and threads along x, y, z.
    shared_bytes
        Dynamic shared memory a block, in bytes.
    arguments
        NumPy scalars and ``ArrayArgument`` by parameter name; arrays are written in place.

    Raises
    ------
    KernelFaultError
        For an index out of bounds, a race on shared memory, a divergent barrier, an uninitialised
        read or an integer division by zero; with file, line, block and thread.
    """
    threads = block[0] * block[1] * block[2]
    total = grid[0] * grid[1] * grid[2]
    step = max(1, _BATCH // max(threads, 1))
    machine = Machine(kernel)
    with np.errstate(all="ignore"):
        for first in range(0, total, step):
            lanes = Lanes(grid, block, first, min(step, total - first))
            epochs = Epochs(lanes)
            arrays = _parameters(kernel, arguments)
            batch = _Batch(lanes, epochs, shared_bytes)
            arrays.update(batch.arrays(kernel))
            functions = {f.name: batch.arrays(f) for f in kernel.functions}
            scalars = {n: arguments[n] for n, t in kernel.parameters if not isinstance(t, ArrayType)}
            machine.run(lanes, epochs, Frame(scalars, arrays), functions)


def _parameters(kernel: ir.Kernel, arguments: Mapping[str, Any]) -> dict[str, Memory]:
    arrays = {}
    for name, t in kernel.parameters:
        if isinstance(t, ArrayType):
            a = arguments[name]
            arrays[name] = Memory(name, t, a.flat, np.int64(a.base), a.extents, a.strides)
    return arrays


class _Batch:
    """The arrays that kernels and device functions declare, for one batch of blocks."""

    def __init__(self, lanes: Lanes, epochs: Epochs, shared_bytes: int) -> None:
        self.lanes, self.epochs, self.shared_bytes = lanes, epochs, shared_bytes
        self.padded = -(-shared_bytes // 16) * 16
        self.dynamic = np.zeros(lanes.count * self.padded, np.uint8)
        self.written: dict[int, Any] = {}
        self.races: dict[int, Races] = {}

    def arrays(self, root: ir.Kernel | ir.Function) -> dict[str, Memory]:
        """The arrays that ``root`` declares, by name."""
        return {declared.name: self._array(declared) for declared in root.arrays}

    def _array(self, declared: ir.ArrayDeclaration) -> Memory:
        t, shape = declared.type, declared.type.shape or ()
        dtype, strides = t.element.dtype, _contiguous(shape)
        if t.space == "constant":
            return Memory(declared.name, t, np.frombuffer(declared.data, dtype), np.int64(0), shape, strides)
        if -1 in shape:
            return self._dynamic(declared)
        count = int(np.prod(shape))
        shared = t.space == "shared"
        owner = self.lanes.block_in_batch if shared else np.arange(self.lanes.size)
        size = (self.lanes.count if shared else self.lanes.size) * count
        races = Races(size, self.epochs) if shared else None
        written = np.zeros(size, bool)
        base = owner * np.int64(count)
        return Memory(declared.name, t, np.zeros(size, dtype), base, shape, strides, written, races)

    def _dynamic(self, declared: ir.ArrayDeclaration) -> Memory:
        """Dynamic shared arrays lie over each other, as in Numba; each element size is checked for itself."""
        dtype = declared.type.element.dtype
        size, elements = dtype.itemsize, self.dynamic.size // dtype.itemsize
        if size not in self.races:
            self.races[size] = Races(elements, self.epochs)
            self.written[size] = np.zeros(elements, bool)
        races, written = self.races[size], self.written[size]
        if len(self.written) > 1:  # another element size may have written these bytes
            for known in self.written.values():
                known[:] = True
        base = self.lanes.block_in_batch * np.int64(self.padded // size)
        extents = (self.shared_bytes // size,)
        return Memory(
            declared.name, declared.type, self.dynamic.view(dtype), base, extents, (1,), written, races
        )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    return tuple(strides[::-1])
