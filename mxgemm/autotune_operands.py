"""Random operands in memory of our own, laid out as a problem says, in sets that do not fit the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm import device
from mxgemm.array import numpy_dtype
from mxgemm.device import driver
from mxgemm.kernels.canonical import ARRAYS
from mxgemm.kernels.names import SIZES
from mxgemm.kernels.operands import LARGEST_ALIGNMENT
from mxgemm.problem import GemmProblem, Matrix

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_SETS", "Operands", "Span", "sets_of", "span_of"]

MOST_SETS = 8
_ENOUGH = 160 << 20  # bytes of all sets together: more than the cache holds
_PATTERN = 16381 * 256  # bytes of random values that repeat; a prime, so that no row length divides it
_ALIGNED = 256
_SAMPLED = 4 << 20  # bytes of each end of D that are compared


@dataclass(frozen=True, slots=True)
class Span:
    """The memory of one array.

    Attributes
    ----------
    nbytes : int
        From the first byte of memory of our own to the last of an element.
    first : int
        Byte at which the element with all indices 0 lies.
    """

    nbytes: int
    first: int


def span_of(x: Matrix, batch: tuple[int, ...], alignment: int) -> Span:
    """The span of an array whose pointer is aligned to exactly ``alignment`` bytes, or to 16 and more."""
    size = SIZES[x.dtype]
    axes = zip((*batch, x.rows, x.cols), (*x.batch_strides, x.row_stride, x.col_stride), strict=True)
    reach = [(extent - 1) * stride * size for extent, stride in axes]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    first = -(low // _ALIGNED) * _ALIGNED + (alignment if alignment < LARGEST_ALIGNMENT else 0)
    return Span(first + high + size, first)


def sets_of(spans: Mapping[str, Span]) -> int:
    """How many sets of arrays it takes so that a call finds none of its own in the cache."""
    return min(MOST_SETS, max(2, -(-_ENOUGH // max(1, sum(span.nbytes for span in spans.values())))))


class Operands:
    """Sets of arrays on the device; fewer than asked for where memory does not allow more.

    Parameters
    ----------
    problem : GemmProblem
    alignment : mapping of str to int
        Bytes that pointers are aligned to, by name; 16 where not named.
    ordinal, stream : int
        Where, and the stream in whose order the memory is filled.

    Attributes
    ----------
    pointers : list of dict
        For each set: addresses by the names that kernels know arrays by.

    Raises
    ------
    DriverError
        When not even one set fits.
    """

    def __init__(self, problem: GemmProblem, alignment: Mapping[str, int], ordinal: int, stream: int) -> None:
        self._where, self._d = (ordinal, stream), problem.d.dtype
        matrices = {name: x for name in ARRAYS if (x := getattr(problem, name)) is not None}
        self._spans = {
            name: span_of(x, problem.batch, alignment.get(name, LARGEST_ALIGNMENT))
            for name, x in matrices.items()
        }
        rng = np.random.default_rng(0)
        patterns = {dtype: _random(dtype, rng) for dtype in {x.dtype for x in matrices.values()}}
        self._memory: list[dict[str, device.Buffer]] = []
        for _ in range(sets_of(self._spans)):
            try:
                made = {
                    name: _filled(span.nbytes, patterns[matrices[name].dtype], *self._where)
                    for name, span in self._spans.items()
                }
            except device.DriverError:
                if not self._memory:
                    raise
                break
            self._memory.append(made)
        self.pointers = [
            {name: buffer.pointer + self._spans[name].first for name, buffer in one.items()}
            for one in self._memory
        ]

    def poison_d(self) -> None:
        """Fill the first set's D with bytes that are NaN in every float type."""
        ordinal, stream = self._where
        with driver.on_device(ordinal):
            target = driver.handle("CUdeviceptr", self._memory[0]["d"].pointer)
            on = driver.handle("CUstream", stream)
            driver.call("cuMemsetD8Async", target, 0xFF, self._memory[0]["d"].nbytes, on)

    def sample_of_d(self) -> np.ndarray[Any, Any]:
        """Both ends of the first set's D, what lies between its rows included; waits for the stream."""
        size = SIZES[self._d]
        start, elements = self._memory[0]["d"].pointer, self._spans["d"].nbytes // size
        most = _SAMPLED // size
        head, tail = min(elements, most), min(max(elements - most, 0), most)
        parts = [(start, head), (start + (elements - tail) * size, tail)]
        found = [device.copy_to_host(at, count * size, *self._where) for at, count in parts]
        return np.concatenate(found).view(numpy_dtype(self._d))

    def done(self) -> None:
        """Say that everything that uses the memory is queued."""
        for one in self._memory:
            for buffer in one.values():
                buffer.done(self._where[1])


def _random(dtype: str, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Standard normal values, or integers of every bit pattern."""
    kind = numpy_dtype(dtype)
    if "int" in dtype:
        return rng.integers(0, 256, _PATTERN, np.uint8).view(kind)
    return rng.standard_normal(_PATTERN // kind.itemsize, np.float32).astype(kind)


def _filled(nbytes: int, pattern: np.ndarray[Any, Any], ordinal: int, stream: int) -> device.Buffer:
    """Memory that holds the pattern again and again."""
    buffer = device.allocate(nbytes, ordinal, stream)
    filled = min(nbytes, pattern.nbytes)
    device.copy_to_device(buffer.pointer, pattern.view(np.uint8)[:filled], ordinal, stream)
    with driver.on_device(ordinal):
        on, source = driver.handle("CUstream", stream), driver.handle("CUdeviceptr", buffer.pointer)
        while filled < nbytes:
            count = min(filled, nbytes - filled)
            target = driver.handle("CUdeviceptr", buffer.pointer + filled)
            driver.call("cuMemcpyDtoDAsync", target, source, count, on)
            filled += count
    return buffer
