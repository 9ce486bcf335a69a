"""Shape rules: ``numpy.matmul``'s, on metadata alone.

An :class:`Operand` is what an array argument looks like; transposition, broadcasting
and 1-d operands become element strides, so that nothing here touches data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from mxgemm.errors import ShapeError

__all__ = ["Operand", "ProductShape", "broadcast", "contiguous", "product_shape", "with_matrix_axes"]


@dataclass(frozen=True, slots=True)
class Operand:
    """Metadata of one array argument: element type, shape and element strides."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _transposed(x: Operand) -> Operand:
    if len(x.shape) < 2:
        return x
    order = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
    return Operand(x.dtype, tuple(x.shape[i] for i in order), tuple(x.strides[i] for i in order))


def _as_matrix(x: Operand, side: str) -> Operand:
    """1-d operands become one row (A) or one column (B), as in ``numpy.matmul``."""
    if not x.shape:
        raise ShapeError(
            f"operand {side} is 0-dimensional; a product needs at least one axis: use alpha= to scale"
        )
    if len(x.shape) > 1:
        return x
    if side == "A":
        return Operand(x.dtype, (1, *x.shape), (x.shape[0] * x.strides[0], *x.strides))
    return Operand(x.dtype, (*x.shape, 1), (*x.strides, 1))


def broadcast(x: Operand, shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """Element strides of ``x`` broadcast to ``shape`` as NumPy broadcasts, 0 on broadcast axes.

    Raises
    ------
    ShapeError
        When it does not broadcast, naming both shapes.
    """
    missing = len(shape) - len(x.shape)
    if missing < 0 or any(s not in (1, t) for s, t in zip(x.shape, shape[missing:], strict=True)):
        raise ShapeError(f"{what} of shape {x.shape} does not broadcast to {shape}")
    pairs = zip(x.shape, x.strides, shape[missing:], strict=True)
    return (0,) * missing + tuple(0 if s == 1 and t != 1 else st for s, st, t in pairs)


def _batch_of(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    missing = len(a) - len(b)
    pairs = zip((1,) * -missing + a, (1,) * missing + b, strict=True)
    found = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            raise ShapeError(f"batch axes {a} of A and {b} of B do not broadcast")
        found.append(y if x == 1 else x)
    return tuple(found)


class ProductShape(NamedTuple):
    """Shapes of one product after op() and broadcasting, and D's shape as the caller sees it.

    Attributes
    ----------
    a, b : Operand
        With both matrix axes, (…, M, K) and (…, K, N).
    batch : tuple of int
        Broadcast leading axes.
    result : tuple of int
        D's shape as the caller sees it.
    dropped : tuple of int
        Negative positions at which D's missing matrix axes are inserted, in order: -1 for the columns
        that a 1-d B removes, then -2 for the rows that a 1-d A removes.
    """

    a: Operand
    b: Operand
    batch: tuple[int, ...]
    result: tuple[int, ...]
    dropped: tuple[int, ...] = ()

    @property
    def full(self) -> tuple[int, ...]:
        """D with both matrix axes present."""
        return (*self.batch, self.a.shape[-2], self.b.shape[-1])


def product_shape(
    a: Operand, b: Operand, transpose_a: bool = False, transpose_b: bool = False
) -> ProductShape:
    """Apply op() and ``numpy.matmul``'s shape rules.

    Raises
    ------
    ShapeError
        For 0-d operands, inner axes that differ, or batches that do not broadcast.
    """
    left = _as_matrix(_transposed(a) if transpose_a else a, "A")
    right = _as_matrix(_transposed(b) if transpose_b else b, "B")
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            f"inner axes differ: op(A) is {left.shape[-2]}x{left.shape[-1]} and op(B) is "
            f"{right.shape[-2]}x{right.shape[-1]} (A has shape {a.shape}, B {b.shape})"
        )
    batch = _batch_of(left.shape[:-2], right.shape[:-2])
    rows = () if len(a.shape) == 1 else (left.shape[-2],)
    cols = () if len(b.shape) == 1 else (right.shape[-1],)
    dropped = (() if cols else (-1,)) + (() if rows else (-2,))
    return ProductShape(left, right, batch, (*batch, *rows, *cols), dropped)


def with_matrix_axes(x: Operand, shape: ProductShape) -> Operand:
    """``x`` (an array that broadcasts to the caller's D) with the matrix axes that 1-d operands removed.

    The axes come back where :attr:`ProductShape.dropped` says, with extent 1 and stride 0.
    """
    extents, strides = list(x.shape), list(x.strides)
    for position in shape.dropped:
        at = len(extents) + 1 + position
        extents.insert(at, 1)
        strides.insert(at, 0)
    return Operand(x.dtype, tuple(extents), tuple(strides))


def contiguous(dtype: str, shape: tuple[int, ...]) -> Operand:
    """Metadata of a new C-ordered array."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return Operand(dtype, shape, tuple(reversed(strides)))
