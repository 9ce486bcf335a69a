"""Packing: operands without a unit stride in either axis are copied into workspace first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from mxgemm.kernels.instance import building_block, grid_of
from mxgemm.kernels.names import SIZES
from mxgemm.problem import Matrix

__all__ = ["PackInstance", "Packing", "packing_of"]

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
    parts = _PARTS

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
        fields = [(f"batch{i}_{f}", f"batch[{i}].{f}") for i in range(self.batch_axes) for f in ("extent", "stride")]
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
        return f"pack {self.variant}{batch}"


@dataclass(frozen=True)
class Packing:
    """One operand's way into workspace.

    Attributes
    ----------
    name : str
        "a" or "b", in the canonical problem.
    source : Matrix
        As it lies.
    batch : tuple of int
        Extents of the batch axes that the operand steps through; broadcast axes are not copied.
    packed : Matrix
        As the kernel sees it, with batch strides for every axis of the problem.
    offset : int
        Bytes from the start of the workspace.
    """

    name: str
    source: Matrix
    batch: tuple[int, ...]
    packed: Matrix
    offset: int

    @property
    def along_rows(self) -> bool:
        """Whether the packed copy is contiguous along its columns (else along its rows)."""
        return self.packed.col_stride == 1

    @cached_property
    def bytes(self) -> int:
        """Workspace that the copy takes."""
        products = 1
        for extent in self.batch:
            products *= extent
        return products * self.source.rows * self.source.cols * SIZES[self.source.dtype]

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
        products = self.bytes // (outer * inner * SIZES[self.source.dtype])
        return grid_of(-(-outer // _ROWS) * -(-inner // _COLUMNS) * products)

    def arguments(self, source: int, workspace: int) -> tuple[int, ...]:
        """Launch arguments, 8 bytes each."""
        outer, inner, outer_stride, inner_stride = self._axes()
        products = self.bytes // (outer * inner * SIZES[self.source.dtype])
        strides = [s for s in self.source.batch_strides if s != 0]
        axes = [x for pair in zip(self.batch, strides, strict=True) for x in pair]
        return (source, workspace + self.offset, outer, inner, outer_stride, inner_stride, products, *axes)


def packing_of(name: str, x: Matrix, batch: tuple[int, ...], offset: int) -> Packing:
    """Plan the copy of ``x`` into workspace at ``offset``; the axis of the smaller stride comes out contiguous."""
    along_rows = abs(x.col_stride) <= abs(x.row_stride)
    row_stride, col_stride = (x.cols, 1) if along_rows else (1, x.rows)
    kept = [(extent, stride) for extent, stride in zip(batch, x.batch_strides, strict=True) if stride != 0]
    step, strides = x.rows * x.cols, []
    for extent, stride in zip(reversed(batch), reversed(x.batch_strides), strict=True):
        strides.append(step if stride else 0)
        step *= extent if stride else 1
    packed = replace(x, row_stride=row_stride, col_stride=col_stride, batch_strides=tuple(reversed(strides)))
    return Packing(name, x, tuple(extent for extent, _ in kept), packed, offset)
