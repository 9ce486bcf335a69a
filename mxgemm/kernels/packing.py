"""Packing: operands without a unit stride in either axis are copied into workspace first."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from mxgemm.kernels.instance import building_block, grid_of
from mxgemm.kernels.names import SIZES
from mxgemm.problem import Matrix

__all__ = ["CopiedBatch", "PackInstance", "Packing", "copied_batch", "packing_of"]

_WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_ROWS, _COLUMNS = 16, 128
_PARTS = ("types", "tile_order", "pack")


@dataclass(frozen=True)
class PackInstance:
    """A packing kernel: it depends on the element's size and the number of batch axes."""

    size: int
    batch_axes: int

    threads = 256
    shared_bytes = 0
    blocks = 4
    lowering = "pack"
    programmatic: ClassVar[bool] = False
    parts: ClassVar[tuple[str, ...]] = _PARTS

    @property
    def variant(self) -> str:
        """Element size."""
        return f"{self.size}-byte elements"

    @property
    def entry(self) -> str:
        """Name of the ``extern "C"`` function."""
        return f"mxgemm_pack_{self.size}_{self.batch_axes}"

    def generated(self) -> str:
        """The source's own part."""
        names = ["outer", "inner", "outer_stride", "inner_stride", "products"]
        axes = range(self.batch_axes)
        fields = [(f"batch{i}_{f}", f"batch[{i}].{f}") for i in axes for f in ("extent", "stride")]
        parameters = ", ".join(f"i64 {name}" for name in (*names, *(name for name, _ in fields)))
        fills = "\n".join(f"    p.{field} = {name};" for name, field in [*((n, n) for n in names), *fields])
        return (
            f'// {self}\nextern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks})\n'
            f"{self.entry}(const void* source, void* target, {parameters}) {{\n"
            f"    PackArguments p;\n    p.source = source;\n    p.target = target;\n{fills}\n"
            f"    pack<{_WORDS[self.size]}, {self.batch_axes}>(p);\n}}\n"
        )

    def source(self) -> str:
        """The whole source, without any ``#include``."""
        return "\n".join([*(building_block(name) for name in self.parts), self.generated()])

    def __str__(self) -> str:
        batch = f", {self.batch_axes} batch axes" if self.batch_axes else ""
        return f"{self.lowering} {self.variant}{batch}"


class Packing(NamedTuple):
    """One operand's way into workspace.

    Attributes
    ----------
    name : str
        "a", "b", "c", …, in the canonical problem.
    source : Matrix
        As it lies, without the axes along which it broadcasts.
    batch : tuple of int
        Extents of the batch axes that the operand steps through; broadcast axes are not copied.
    packed : Matrix
        As the kernel sees it, with batch strides for every axis of the problem.
    along_rows : bool
        Whether the copy is contiguous along its columns (else along its rows).
    offset : int
        Bytes from the start of the workspace.
    """

    name: str
    source: Matrix
    batch: tuple[int, ...]
    packed: Matrix
    along_rows: bool
    offset: int

    @property
    def what(self) -> str:
        """What happens to the operand, in words."""
        return "packed into workspace first"

    @property
    def products(self) -> int:
        """Matrices that are copied."""
        return math.prod(self.batch)

    @property
    def bytes(self) -> int:
        """Workspace that the copy takes."""
        return self.products * self.source.rows * self.source.cols * SIZES[self.source.dtype]

    @property
    def instance(self) -> PackInstance:
        """The kernel."""
        return PackInstance(SIZES[self.source.dtype], len(self.batch))

    def _axes(self) -> tuple[int, int, int, int]:
        s = self.source
        if self.along_rows:
            return s.rows, s.cols, s.row_stride, s.col_stride
        return s.cols, s.rows, s.col_stride, s.row_stride

    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        outer, inner, *_ = self._axes()
        return grid_of(-(-outer // _ROWS) * -(-inner // _COLUMNS) * self.products)

    def arguments(self, source: int, workspace: int) -> tuple[int, ...]:
        """Launch arguments, 8 bytes each."""
        outer, inner, outer_stride, inner_stride = self._axes()
        axes = [x for pair in zip(self.batch, self.source.batch_strides, strict=True) for x in pair]
        target = workspace + self.offset
        return (source, target, outer, inner, outer_stride, inner_stride, self.products, *axes)


class CopiedBatch(NamedTuple):
    """The batch of a copy: broadcast axes are copied once and go on broadcasting.

    Attributes
    ----------
    extents, source : tuple of int
        Of the axes that the operand steps through, and its strides there.
    packed : tuple of int
        Strides of the copy for every axis of the problem.
    """

    extents: tuple[int, ...]
    source: tuple[int, ...]
    packed: tuple[int, ...]


def copied_batch(batch: tuple[int, ...], strides: tuple[int, ...], entries: int) -> CopiedBatch:
    """The batch of a copy whose matrices take ``entries`` each, one after the other."""
    step, packed = entries, []
    for extent, stride in zip(reversed(batch), reversed(strides), strict=True):
        packed.append(step if stride else 0)
        step *= extent if stride else 1
    stepped = [(e, s) for e, s in zip(batch, strides, strict=True) if s]
    return CopiedBatch(tuple(e for e, _ in stepped), tuple(s for _, s in stepped), tuple(reversed(packed)))


def packing_of(name: str, x: Matrix, batch: tuple[int, ...], offset: int) -> Packing:
    """Plan the copy of ``x`` into workspace at ``offset``.

    The copy is contiguous along the axis of the smaller stride; axes that broadcast (stride 0) are copied
    once and go on broadcasting.
    """
    rows, cols = (x.rows if x.row_stride else 1), (x.cols if x.col_stride else 1)
    along_rows = rows == 1 or (cols > 1 and abs(x.col_stride) <= abs(x.row_stride))
    row_stride, col_stride = (cols, 1) if along_rows else (1, rows)
    copied = copied_batch(batch, x.batch_strides, rows * cols)
    source = replace(x, rows=rows, cols=cols, batch_strides=copied.source)
    packed = replace(
        x,
        row_stride=row_stride if x.row_stride else 0,
        col_stride=col_stride if x.col_stride else 0,
        batch_strides=copied.packed,
    )
    return Packing(name, source, copied.extents, packed, along_rows, offset)
