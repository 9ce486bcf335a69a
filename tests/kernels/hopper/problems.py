"""Problems for the family, lowered without a device."""

from __future__ import annotations

from typing import Any

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.problem import pose
from mxgemm.shapes import Operand

POINTERS = {"a": 1 << 20, "b": 2 << 20, "c": 3 << 20, "d": 4 << 20}
PRECISIONS = {"float32": "tf32", "int8": "exact"}
RESULTS = {"int8": "int32", "float8_e4m3fn": "float32"}


def matrix(dtype: str, rows: int, cols: int, *, along_cols: bool = True, pad: int = 0) -> Operand:
    strides = (cols + pad, 1) if along_cols else (1, rows + pad)
    return Operand(dtype, (rows, cols), strides)


def lower(
    dtype: str, m: int, n: int, k: int, layouts: str = "kn", *, pad: int = 0, **options: Any
) -> kernels.Lowering:
    a = matrix(dtype, m, k, along_cols=layouts[0] == "k", pad=pad)
    b = matrix(dtype, k, n, along_cols=layouts[1] == "n", pad=pad)
    problem, _ = pose(a, b, None, out_dtype=RESULTS.get(dtype, dtype))
    chosen = configuration(dtype, dtype, PRECISIONS.get(dtype, "native"))
    return kernels.lower(problem, chosen, "sm_90", **options)
