"""Integer products, exactly modulo 2^64, by limbs that float64 BLAS multiplies without rounding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds.tiles import Array, Subject, Tile
from mxgemm.configs import Configuration
from mxgemm.problem import GemmProblem

__all__ = ["expected"]

LIMB = 16
DEPTH = 1 << 20
"""Products of one exact float64 sum: 2^20 terms below 2^32 stay below 2^53."""

_MASK = (1 << 64) - 1


def _limbs(x: Array) -> list[NDArray[np.float64]]:
    """16-bit limbs, lowest first; the highest carries the sign."""
    bits = 8 * x.dtype.itemsize
    if bits <= LIMB:
        return [x.astype(np.float64)]
    shifted = [x >> x.dtype.type(LIMB * i) for i in range(bits // LIMB)]
    low = [part & x.dtype.type(0xFFFF) for part in shifted[:-1]]
    return [part.astype(np.float64) for part in (*low, shifted[-1])]


def _product(a: Array, b: Array) -> NDArray[np.uint64]:
    """A·B modulo 2^64."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.uint64)
    for start in range(0, a.shape[-1], DEPTH):
        part = slice(start, start + DEPTH)
        right = _limbs(b[..., part, :])
        for i, x in enumerate(_limbs(a[..., part])):
            for j, y in enumerate(right):
                if (shift := LIMB * (i + j)) < 64:
                    total += np.matmul(x, y).astype(np.int64).view(np.uint64) << np.uint64(shift)
    return total


def _words(x: Array) -> NDArray[np.uint64]:
    """Integers of any type modulo 2^64, sign-extended."""
    return x.astype(np.uint64) if x.dtype.kind == "u" else x.astype(np.int64).view(np.uint64)


def _accumulator(problem: GemmProblem, configuration: Configuration) -> np.dtype[np.generic]:
    """The type in which the sum wraps: the table's, or D's where that is wider."""
    kind, wanted = np.dtype(configuration.accumulator), np.dtype(problem.d.dtype)
    return wanted if wanted.itemsize > kind.itemsize else kind


def _limited(x: Array, problem: GemmProblem) -> Array:
    """Apply relu or clamp in the accumulator's type; bounds beyond its range are its ends."""
    spec, ends = problem.epilogue, np.iinfo(x.dtype)
    if spec.activation == "identity":
        return x
    lo, hi = (spec.lo, spec.hi) if spec.activation == "clamp" else (0, int(ends.max))
    low, high = (x.dtype.type(min(max(int(bound), int(ends.min)), int(ends.max))) for bound in (lo, hi))
    limited: Array = np.clip(x, low, high)
    return limited


def expected(subject: Subject, tile: Tile) -> Array:
    """The only right entries of one tile of D, (matrices, rows, columns)."""
    problem, operands = subject.problem, subject.operands
    total = np.zeros(tile.shape, np.uint64)
    if problem.reads_operands:
        product = _product(_native(tile.of_a(operands.a)), _native(tile.of_b(operands.b)))
        total += product * np.uint64(int(problem.alpha) & _MASK)
    addend, bias = tile.of_d(operands.c), tile.of_d(operands.bias)
    if problem.reads_c and addend is not None:
        total += _words(_native(addend)) * np.uint64(int(problem.beta) & _MASK)
    if bias is not None:
        total += _words(_native(bias))
    kind = _accumulator(problem, subject.configuration)
    wrapped = total.astype(f"u{kind.itemsize}").view(kind)
    return _limited(wrapped, problem).astype(problem.d.dtype)


def _native(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder("="))
