"""The bound of every entry of D as one array."""

from __future__ import annotations

import numpy as np

from mxgemm.bounds.assess import assess
from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.tiles import Array, Operands, Subject, tiles
from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem

__all__ = ["entrywise"]


def entrywise(  # noqa: PLR0917  # the operands come in the order of the formula
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    a: Array,
    b: Array,
    c: Array | None = None,
    *,
    bias: Array | None = None,
    scale_rows: Array | None = None,
    scale_cols: Array | None = None,
) -> Float64:
    """Bound |D − exact D| for each entry, rounded up.

    Parameters
    ----------
    problem : GemmProblem
    configuration : Configuration
    arch : str
    a : (*batch, M, K) array
    b : (*batch, K, N) array
        With op() and broadcasting applied.
    c, bias, scale_rows, scale_cols : (*batch, M, N) arrays, optional
        Broadcast to D; their roundings to the accumulator's type are part of what is exact.

    Returns
    -------
    (*batch, M, N) float64 array
        0 for integers and where NaN or Inf of the operands decides the entry; infinity
        where the result may overflow on the way ("overflow possible").

    Raises
    ------
    UnsupportedError
        When ``arch`` has no row for the configuration's unit.
    """
    found = np.zeros((*problem.batch, problem.m, problem.n))
    if configuration.is_integer:
        return found
    subject = Subject(problem, configuration, arch, Operands(a, b, c, bias, scale_rows, scale_cols))
    for tile in tiles(problem):
        found[tile.index] = assess(subject, tile).bound
    return found
