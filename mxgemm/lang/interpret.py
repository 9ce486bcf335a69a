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
    from collections.abc import Iterator, Mapping

__all__ = ["ArrayArgument", "interpret"]

#: Lanes run together: enough to keep NumPy busy, few enough to stay in a cache.
_BATCH = 65536


class ArrayArgument:
    """A kernel's array argument: elements in one-dimensional ``flat`` from ``base`` on, strides in elements."""

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
            arrays.update(_declared(kernel, lanes, epochs, shared_bytes))
            functions = {f.name: dict(_declared(f, lanes, epochs, shared_bytes)) for f in kernel.functions}
            scalars = {n: arguments[n] for n, t in kernel.parameters if not isinstance(t, ArrayType)}
            machine.run(lanes, epochs, Frame(scalars, arrays), functions)


def _parameters(kernel: ir.Kernel, arguments: Mapping[str, Any]) -> dict[str, Memory]:
    arrays = {}
    for name, t in kernel.parameters:
        if isinstance(t, ArrayType):
            a = arguments[name]
            arrays[name] = Memory(name, t, a.flat, np.int64(a.base), a.extents, a.strides)
    return arrays


def _declared(
    root: ir.Kernel | ir.Function, lanes: Lanes, epochs: Epochs, shared_bytes: int
) -> Iterator[tuple[str, Memory]]:
    dynamic: dict[str, Any] = {}
    for declared in root.arrays:
        yield declared.name, _declare(declared, lanes, epochs, shared_bytes, dynamic)


def _declare(
    declared: ir.ArrayDeclaration, lanes: Lanes, epochs: Epochs, shared_bytes: int, dynamic: dict[str, Any]
) -> Memory:
    t = declared.type
    dtype = t.element.dtype
    shape = t.shape or ()
    if t.space == "constant":
        return Memory(
            declared.name, t, np.frombuffer(declared.data, dtype), np.int64(0), shape, _contiguous(shape)
        )
    if -1 in shape:
        return _dynamic(declared, lanes, epochs, shared_bytes, dynamic)
    count = int(np.prod(shape))
    copies = lanes.count if t.space == "shared" else lanes.size
    owner = lanes.block_in_batch if t.space == "shared" else np.arange(lanes.size)
    size = copies * count
    races = Races(size, epochs) if t.space == "shared" else None
    return Memory(
        declared.name, t, np.zeros(size, dtype), owner * np.int64(count), shape, _contiguous(shape),
        np.zeros(size, bool), races,
    )  # fmt: skip


def _dynamic(
    declared: ir.ArrayDeclaration, lanes: Lanes, epochs: Epochs, shared_bytes: int, dynamic: dict[str, Any]
) -> Memory:
    """Dynamic shared arrays lie over each other, as in Numba; races are seen between equal element sizes."""
    dtype = declared.type.element.dtype
    count = shared_bytes // dtype.itemsize
    padded = -(-shared_bytes // 16) * 16
    raw = dynamic.setdefault("bytes", np.zeros(lanes.count * padded, np.uint8))
    written = dynamic.setdefault(("written", dtype.itemsize), np.zeros(raw.size // dtype.itemsize, bool))
    races = dynamic.setdefault(("races", dtype.itemsize), Races(raw.size // dtype.itemsize, epochs))
    several = sum(1 for key in dynamic if isinstance(key, tuple) and key[0] == "written") > 1
    base = lanes.block_in_batch * np.int64(padded // dtype.itemsize)
    return Memory(
        declared.name,
        declared.type,
        raw.view(dtype),
        base,
        (count,),
        (1,),
        None if several else written,
        races,
    )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    return tuple(strides[::-1])
