"""A result's tiles, spread over threads; NumPy releases the interpreter lock inside each step.

Every entry is computed by itself, so tiles and threads change no bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

__all__ = ["for_each_tile"]

TILE_ROWS = 64
TILE_ENTRIES = 64 * 512
"""Five float64 buffers of this size stay in a second-level cache of 1 to 2 MiB."""

SERIAL_PRODUCTS = 1 << 21
"""Below this many products starting threads costs more than it saves."""

Work = Callable[[slice, slice], None]


def _tiles(rows: int, columns: int) -> list[tuple[slice, slice]]:
    height = min(rows, TILE_ROWS)
    width = min(columns, TILE_ENTRIES // height)
    return [
        (slice(i, min(i + height, rows)), slice(j, min(j + width, columns)))
        for i in range(0, rows, height)
        for j in range(0, columns, width)
    ]


def _quietly(work: Work, rows: slice, columns: slice) -> None:
    """Run one tile; overflow and invalid operations are results here, not accidents."""
    with np.errstate(all="ignore"):
        work(rows, columns)


def for_each_tile(rows: int, columns: int, depth: int, work: Work) -> None:
    """Call ``work(row slice, column slice)`` for every tile of a rows x columns result.

    Parameters
    ----------
    rows, columns : int
        Shape of the result.
    depth : int
        Products of one entry, by which it is decided whether threads pay.
    work : callable
        Writes its tile of the result and nothing else.
    """
    if rows == 0 or columns == 0:
        return
    tiles = _tiles(rows, columns)
    threads = min(os.cpu_count() or 1, len(tiles))
    if threads == 1 or rows * columns * depth < SERIAL_PRODUCTS:
        for tile in tiles:
            _quietly(work, *tile)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(_quietly, work, *tile) for tile in tiles]:
            done.result()
