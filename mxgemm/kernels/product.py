"""ProductClass: all that a kernel's code depends on, a problem without its extents."""

from __future__ import annotations

from typing import Literal, NamedTuple

from mxgemm.configs import Configuration
from mxgemm.kernels.instance import EpilogueClass
from mxgemm.kernels.operands import OperandClass

__all__ = ["BiasAxis", "ProductClass"]

BiasAxis = Literal["columns", "rows", "entries"]
"""What a bias has one value for: each column, each row, or possibly each entry."""


class ProductClass(NamedTuple):
    """All that a kernel's code depends on: a problem without its extents, on one architecture.

    Attributes
    ----------
    configuration : Configuration
    arch : str
    accumulator : str
        Element type of the sums: the configuration's, or a wider integer result's own.
    a, b : OperandClass
    epilogue : EpilogueClass
    batch_axes : int
    k : int
        Products of one entry; it decides whether chains end inside, and into how many parts it is cut.
    reads_c : bool
        Whether beta != 0.
    d_piece, c_piece : int
        Neighbouring entries of a row of D and of C that every row and matrix of them has as one aligned
        piece: as many as make 16 bytes, else two of C, or 1.  Columns count instead where D is turned.
    d_turned : bool
        Whether D's contiguous axis is its rows.
    bias_along : str
        What the bias has one value for: "columns", "rows" or "entries".
    multiprocessors : int
        Of the device: persistent kernels have a block for each.
    """

    configuration: Configuration
    arch: str
    accumulator: str
    a: OperandClass
    b: OperandClass
    epilogue: EpilogueClass
    batch_axes: int
    k: int
    reads_c: bool = True
    d_piece: int = 1
    c_piece: int = 1
    d_turned: bool = False
    bias_along: BiasAxis = "entries"
    multiprocessors: int = 132
