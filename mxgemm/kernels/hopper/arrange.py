"""Arranging: operands are copied into workspace as the copy engine wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from mxgemm.kernels.instance import grid_of
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.packing import PackInstance, copied_batch
from mxgemm.problem import Matrix

__all__ = ["ArrangeInstance", "Arrangement", "arrangement_of"]

_WORDS = {1: "u8", 2: "u16", 4: "u32"}
_PIECE, _LINE = 16, 128  # bytes: what the copy engine needs, and what it reads at once
_LONG = 8 * _LINE  # bytes of a row to which whole lines add at most an eighth
_ROWS, _PIECES = 32, 32
_TURNED = 64  # a tile's rows and columns


@dataclass(frozen=True)
class ArrangeInstance(PackInstance):
    """A copying kernel.

    Attributes
    ----------
    turned : bool
        Whether the source is contiguous along the other axis than the copy.
    """

    turned: bool = False

    lowering = "arrange"
    programmatic: ClassVar[bool] = True
    blocks = 3
    parts: ClassVar[tuple[str, ...]] = (
        "types", "arguments", "tile_order", "hopper/succession", "hopper/arrange",
    )  # fmt: skip

    @property
    def variant(self) -> str:
        """Element size, and what happens to the elements."""
        return f"{self.size}-byte elements{', turned' * self.turned}"

    @property
    def entry(self) -> str:
        """Name of the ``extern "C"`` function."""
        return f"mxgemm_arrange_{self.size}_{self.batch_axes}{'_turned' * self.turned}"

    def generated(self) -> str:
        """The source's own part."""
        names = ["outer", "inner", "outer_stride", "inner_stride", "leading", "products"]
        axes = range(self.batch_axes)
        fields = [(f"batch{i}_{f}", f"batch[{i}].{f}") for i in axes for f in ("extent", "stride")]
        pointers = {"source": "const void*", "target": "void*"}
        pairs = [*((name, name) for name in (*pointers, *names)), *fields]
        parameters = ", ".join(f"{pointers.get(name, 'i64')} {name}" for name, _ in pairs)
        fills = "\n".join(f"    p.{field} = {name};" for name, field in pairs)
        kind = "Turned" if self.turned else "Along"
        return (
            f'// {self}\nextern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks})\n'
            f"{self.entry}({parameters}) {{\n    ArrangeArguments p;\n{fills}\n"
            f"    wait_for_predecessor();\n    {kind}<{_WORDS[self.size]}, {self.batch_axes}>::run(p);\n}}\n"
        )


class Arrangement(NamedTuple):
    """One operand's way into workspace.

    Attributes
    ----------
    name : str
        "a" or "b", in the canonical problem.
    source : Matrix
        As it lies, with the strides of those batch axes that it steps through.
    batch : tuple of int
        Extents of these axes; broadcast axes are not copied.
    packed : Matrix
        As the kernel sees it, with batch strides for every axis of the problem.
    along_rows : bool
        Whether the copy is contiguous along its columns (else along its rows).
    leading : int
        Elements from one row of the copy to the next: whole 16-byte pieces, and of long rows whole
        128-byte lines: 128 bytes along K that lie in two of them cost two reads of L2.
    offset : int
        Bytes from the start of the workspace.
    """

    name: str
    source: Matrix
    batch: tuple[int, ...]
    packed: Matrix
    along_rows: bool
    leading: int
    offset: int

    @property
    def what(self) -> str:
        """What happens to the operand, in words."""
        return "arranged in workspace first"

    @property
    def _axes(self) -> tuple[int, int, int, int]:
        """Extents and strides of the copy's outer and inner axis; an axis of one entry counts as dense."""
        s = self.source
        axes = [(s.rows, s.row_stride), (s.cols, s.col_stride)]
        (outer, outer_stride), (inner, inner_stride) = axes if self.along_rows else reversed(axes)
        return outer, inner, outer_stride if outer > 1 else 0, inner_stride if inner > 1 else 1

    @property
    def bytes(self) -> int:
        """Workspace that the copy takes."""
        return math.prod(self.batch) * self._axes[0] * self.leading * SIZES[self.source.dtype]

    @property
    def instance(self) -> ArrangeInstance:
        """The kernel."""
        _, _, outer_stride, inner_stride = self._axes
        turned = inner_stride != 1 and outer_stride == 1
        return ArrangeInstance(SIZES[self.source.dtype], len(self.batch), turned)

    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y and z."""
        outer = self._axes[0]
        rows, cols = _ROWS, _PIECES * _PIECE // self.instance.size
        if self.instance.turned:
            rows = cols = _TURNED
        return grid_of(-(-outer // rows) * -(-self.leading // cols) * math.prod(self.batch))

    def arguments(self, source: int, workspace: int) -> tuple[int, ...]:
        """Launch arguments, 8 bytes each."""
        axes = [x for pair in zip(self.batch, self.source.batch_strides, strict=True) for x in pair]
        return (source, workspace + self.offset, *self._axes, self.leading, math.prod(self.batch), *axes)


def arrangement_of(
    name: str, x: Matrix, batch: tuple[int, ...], offset: int, *, along_rows: bool
) -> Arrangement:
    """Plan the copy of ``x`` into workspace at ``offset``, contiguous along its columns or its rows.

    Rows that lie on each other (stride 0) are copied each; batch axes that broadcast are copied once.
    """
    outer, inner = (x.rows, x.cols) if along_rows else (x.cols, x.rows)
    size = SIZES[x.dtype]
    piece = (_LINE if inner * size >= _LONG else _PIECE) // size
    leading = -(-inner // piece) * piece
    copied = copied_batch(batch, x.batch_strides, outer * leading)
    row_stride, col_stride = (leading, 1) if along_rows else (1, leading)
    return Arrangement(
        name,
        replace(x, batch_strides=copied.source),
        copied.extents,
        replace(x, row_stride=row_stride, col_stride=col_stride, batch_strides=copied.packed),
        along_rows, leading, offset,
    )  # fmt: skip
