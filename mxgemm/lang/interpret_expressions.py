"""The interpreter's expressions: values over lanes, or one scalar where all lanes agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang import interpret_functions, ir
from mxgemm.lang.faults import DivisionByZeroError, UninitialisedReadError
from mxgemm.lang.interpret_values import arithmetic, compare, convert, negate_or_invert

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang.interpret_lanes import Lanes
    from mxgemm.lang.interpret_memory import Memory
    from mxgemm.lang.place import Place
    from mxgemm.lang.types import Scalar

__all__ = ["Evaluator", "Frame"]

Mask = Any  # None: all lanes; else which lanes


class Frame:
    """One function's variables and arrays; which lanes returned, and with what."""

    def __init__(self, scalars: dict[str, Any], arrays: dict[str, Memory]) -> None:
        self.parameters = scalars
        self.values: dict[tuple[str, Scalar], Any] = {}
        self.defined: dict[tuple[str, Scalar], Mask] = {}
        self.arrays = arrays
        self.returned: Any = None
        self.results: list[Any] = []
        self.loops: list[Any] = []


class Evaluator:
    """Evaluates expressions for the lanes in a mask; other lanes get any value."""

    lanes: Lanes

    def evaluate(self, e: ir.Expr, mask: Mask, frame: Frame) -> Any:
        """The value of ``e``."""
        return _DISPATCH[type(e)](self, e, mask, frame)

    def _const(self, e: ir.Const, _mask: Mask, _frame: Frame) -> Any:
        if e.type.kind == "b":
            return np.bool_(e.value)
        # NumPy 2 refuses Python integers out of range; the rules have checked that they fit.
        return np.array(e.value).astype(e.type.dtype)[()] if e.type.is_float else e.type.dtype.type(e.value)

    def _local(self, e: ir.Local, mask: Mask, frame: Frame) -> Any:
        key = (e.name, e.type)
        if key not in frame.values:
            if e.name in frame.parameters:
                return frame.parameters[e.name]
            self._unset(e, np.zeros(self.lanes.size, bool), mask)
        defined = frame.defined[key]
        if defined is not None and defined is not mask:
            self._unset(e, defined, mask)
        return frame.values[key]

    def _unset(self, e: ir.Local, defined: Any, mask: Mask) -> None:
        wrong = ~defined if mask is None else mask & ~defined
        if wrong.any():
            message = f"variable {e.name} is read before it is assigned"
            raise self.lanes.fault(UninitialisedReadError, message, e.place, int(np.argmax(wrong)))

    def _register(self, e: ir.Register, _mask: Mask, _frame: Frame) -> Any:
        return self.lanes.register(e.name, e.axis)

    def _extent(self, e: ir.Extent, _mask: Mask, frame: Frame) -> Any:
        return np.int64(frame.arrays[e.array].extents[e.axis])

    def _convert(self, e: ir.Convert, mask: Mask, frame: Frame) -> Any:
        return convert(self.evaluate(e.operand, mask, frame), e.operand.type, e.type)[()]

    def _unary(self, e: ir.Unary, mask: Mask, frame: Frame) -> Any:
        return negate_or_invert(e.operator, e.type, self.evaluate(e.operand, mask, frame))

    def _binary(self, e: ir.Binary, mask: Mask, frame: Frame) -> Any:
        left, right = self.evaluate(e.left, mask, frame), self.evaluate(e.right, mask, frame)
        if e.type.is_integer and e.operator in ("floordiv", "mod"):
            right = self._divisor(e.place, right, mask)
        return arithmetic(e.operator, e.type, left, right)

    def _divisor(self, place: Place, value: Any, mask: Mask) -> Any:
        zero = value == 0
        if not np.any(zero):
            return value
        wrong = np.broadcast_to(zero, (self.lanes.size,))
        wrong = wrong if mask is None else wrong & mask
        if wrong.any():
            raise self.lanes.fault(
                DivisionByZeroError, "integer division by zero", place, int(np.argmax(wrong))
            )
        return np.where(zero, value.dtype.type(1), value)

    def _compare(self, e: ir.Compare, mask: Mask, frame: Frame) -> Any:
        return compare(e.operator, self.evaluate(e.left, mask, frame), self.evaluate(e.right, mask, frame))

    def _logical(self, e: ir.Logical, mask: Mask, frame: Frame) -> Any:
        left = self.evaluate(e.left, mask, frame)
        decides = left if e.operator == "and" else np.logical_not(left)
        if np.ndim(left) == 0:
            return self.evaluate(e.right, mask, frame) if decides else left
        needed = decides if mask is None else decides & mask
        if not needed.any():
            return left
        right = self.evaluate(e.right, mask if needed.all() else needed, frame)
        return left & right if e.operator == "and" else left | right

    def _select(self, e: ir.Select, mask: Mask, frame: Frame) -> Any:
        condition = self.evaluate(e.condition, mask, frame)
        if np.ndim(condition) == 0:
            return self.evaluate(e.left if condition else e.right, mask, frame)
        first = condition if mask is None else condition & mask
        second = ~condition if mask is None else mask & ~condition
        if not second.any():
            return self.evaluate(e.left, mask, frame)
        if not first.any():
            return self.evaluate(e.right, mask, frame)
        return np.where(first, self.evaluate(e.left, first, frame), self.evaluate(e.right, second, frame))

    def _math(self, e: ir.Math, mask: Mask, frame: Frame) -> Any:
        arguments = [self.evaluate(a, mask, frame) for a in e.arguments]
        return np.asarray(interpret_functions.call(e.name, e.arguments[0].type, arguments, e.type))[()]

    def _load(self, e: ir.Load, mask: Mask, frame: Frame) -> Any:
        indices = [self.evaluate(i, mask, frame) for i in e.indices]
        return frame.arrays[e.array].load(e.place, self.lanes, indices, mask)


_DISPATCH: Final[dict[type, Callable[..., Any]]] = {
    ir.Const: Evaluator._const,
    ir.Local: Evaluator._local,
    ir.Register: Evaluator._register,
    ir.Extent: Evaluator._extent,
    ir.Convert: Evaluator._convert,
    ir.Unary: Evaluator._unary,
    ir.Binary: Evaluator._binary,
    ir.Compare: Evaluator._compare,
    ir.Logical: Evaluator._logical,
    ir.Select: Evaluator._select,
    ir.Math: Evaluator._math,
    ir.Load: Evaluator._load,
}
