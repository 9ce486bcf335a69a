"""Whole products on a truncating unit: chains along K, and the float32 sums of their results.

For each chain the products of the configuration run in its order, each over the whole
chain in k order, into one unit accumulator started at +0; the float32 sum of the chain's
section, started at +0, adds the chain's result to nearest; the total, started at +0, adds
the sums of the sections, in order, to nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mxgemm.configs import Configuration, UnitArithmetic
from mxgemm.units.formats import Float64, k_first, widen
from mxgemm.units.matrix_unit import Panel, accumulate, panel
from mxgemm.units.splits import Terms
from mxgemm.units.tiles import for_each_tile

__all__ = ["chained_product"]

Float32 = NDArray[np.float32]

PANEL_DEPTH = 256
"""Products along K that are widened at once; a multiple of every unit's group."""


def _panels(terms: Terms, rows: slice, ks: slice) -> list[Panel]:
    """One panel a term: those rows and those products, k first."""
    return [panel(k_first(widen(x[rows, ks])), terms.emin) for x in terms.arrays]


def _spans(start: int, stop: int, step: int) -> Iterator[slice]:
    for k in range(start, stop, step):
        yield slice(k, min(k + step, stop))


class _Product:
    """One product A·Bᵀ of prepared operands (both row by row), tile by tile."""

    def __init__(
        self, a: Terms, b: Terms, configuration: Configuration, unit: UnitArithmetic, turned: bool
    ) -> None:
        self.a, self.b = a, b
        pairs = [(i - 1, j - 1) for i, j in configuration.products]
        self.pairs = [(j, i) for i, j in pairs] if turned else pairs
        self.depth = a.arrays[0].shape[1]
        self.chain = configuration.chain or max(self.depth, 1)
        self.section = configuration.section or max(self.depth, 1)
        self.unit = unit

    def _run_chain(self, rows: slice, columns: slice, ks: slice, c: Float64) -> None:
        spans = list(_spans(ks.start, ks.stop, PANEL_DEPTH))
        if len(spans) == 1:
            left, right = _panels(self.a, rows, ks), _panels(self.b, columns, ks)
            for i, j in self.pairs:
                accumulate(left[i], right[j], c, self.unit)
            return
        for i, j in self.pairs:
            for span in spans:
                left_only = Terms((self.a.arrays[i],), self.a.emin)
                right_only = Terms((self.b.arrays[j],), self.b.emin)
                (x,), (y,) = _panels(left_only, rows, span), _panels(right_only, columns, span)
                accumulate(x, y, c, self.unit)

    def tile(self, rows: slice, columns: slice) -> Float32:
        """The float32 sums of one tile."""
        shape = (rows.stop - rows.start, columns.stop - columns.start, *self.a.arrays[0].shape[2:])
        total, section = np.zeros(shape, np.float32), np.empty(shape, np.float32)
        accumulator = np.empty(shape, np.float64)
        for part in _spans(0, self.depth, self.section):
            section[...] = 0.0
            for ks in _spans(part.start, part.stop, self.chain):
                accumulator[...] = 0.0
                self._run_chain(rows, columns, ks, accumulator)
                section += accumulator.astype(np.float32)
            total += section
        return total


def _unscaled(total: Float32, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[Any]:
    """Undo the scaling of rows and columns in one rounding to float32."""
    exponents = left[:, None] + right
    unscaled: Float32 = np.ldexp(total.astype(np.float64), -exponents).astype(np.float32)
    return unscaled


def chained_product(
    a: Terms, b: Terms, configuration: Configuration, unit: UnitArithmetic, *, turned: bool = False
) -> Float32:
    """Multiply A by Bᵀ on a truncating unit.

    Parameters
    ----------
    a : Terms of (M, K[, G])
    b : Terms of (N, K[, G])
        With a last axis, G products side by side.
    configuration : Configuration
        Gives the products, their order and the lengths of chains and sections.
    unit : UnitArithmetic
        A row of kind "truncating" with a float32 output.
    turned : bool
        Whether ``a`` and ``b`` have changed places, so that the pairs of terms must too.

    Returns
    -------
    (M, N[, G]) float32 array
    """
    product = _Product(a, b, configuration, unit, turned)
    left, right = a.arrays[0].shape, b.arrays[0].shape
    result = np.empty((left[0], right[0], *left[2:]), np.float32)

    def work(rows: slice, columns: slice) -> None:
        total = product.tile(rows, columns)
        if a.scale is not None and b.scale is not None:
            total = _unscaled(total, a.scale[rows], b.scale[columns])
        result[rows, columns] = total

    for_each_tile(result.shape[0], result.shape[1], product.depth * len(product.pairs), work)
    return result
