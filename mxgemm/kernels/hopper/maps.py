"""The tensor maps of a product: which box of which matrix one bulk copy moves."""

from __future__ import annotations

from mxgemm.device.tensor_map import TensorMap
from mxgemm.kernels.hopper.tiles import ROW_BYTES
from mxgemm.kernels.names import SIZES
from mxgemm.problem import Matrix

__all__ = ["matrix_map", "panel_map", "store_maps", "turned_store_maps"]

_LEAST_STRIDE = 16  # bytes: what the driver takes for an axis of one entry
_STORE_ROWS = 64


def matrix_map(
    name: str, x: Matrix, products: int, *, turned: bool, outer: int, to_tf32: bool = False
) -> TensorMap:
    """The map of ``x``, whose contiguous axis is its columns, or, ``turned``, its rows.

    A box is one row of 128 bytes wide and ``outer`` rows high.
    """
    size = SIZES[x.dtype]
    inner_extent, outer_extent = (x.rows, x.cols) if turned else (x.cols, x.rows)
    outer_stride = x.col_stride if turned else x.row_stride
    step = x.batch_strides[0] if x.batch_strides else 0
    strides = (
        max(outer_stride * size, _LEAST_STRIDE) if outer_extent > 1 else _LEAST_STRIDE,
        max(step * size, _LEAST_STRIDE),
    )
    extents = (inner_extent, outer_extent, products if step else 1)
    return TensorMap(name, size, extents, strides, (ROW_BYTES // size, outer, 1), to_tf32=to_tf32)


def panel_map(made: TensorMap) -> TensorMap:
    """The map with boxes of one panel: rows run along M or N, 128 bytes wide."""
    return made._replace(box=(ROW_BYTES // made.itemsize, made.box[1], 1))


def turned_store_maps(x: Matrix, products: int, columns: int, name: str = "d") -> tuple[TensorMap, ...]:
    """The map of a D or C that lies along its rows: boxes of 128 bytes of rows, a chunk of columns high.

    A second one is for what is left of a tile's columns.
    """
    wide = ROW_BYTES // SIZES[x.dtype]
    heights = (wide, columns % wide) if columns % wide else (wide,)
    return tuple(matrix_map(name, x, products, turned=True, outer=height) for height in heights)


def store_maps(x: Matrix, products: int, columns: int, name: str = "d") -> tuple[TensorMap, ...]:
    """The map of D or C for boxes of 64 rows of 128 bytes, and one for what is left of a tile's columns."""
    whole = matrix_map(name, x, products, turned=False, outer=_STORE_ROWS)
    left = columns % whole.box[0]
    tail = whole._replace(box=(left, _STORE_ROWS, 1), swizzled=False)
    return (whole, tail) if left else (whole,)
