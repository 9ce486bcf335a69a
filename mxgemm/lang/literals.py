"""Expressions of literals: their values as CPython's compiler folds them, and folds of outer integers."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fold", "python_value"]

_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
#: Larger integers than this CPython leaves to be computed when the code runs.
_LARGEST_BITS: Final = 128


def python_value(node: ast.expr) -> Any:
    """The number that CPython's compiler makes of an expression of literals; None where it makes none.

    Numba reads the compiled code, so ``2**-1`` is the float 0.5 to it, and ``2**63`` a uint64.
    """
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) else None
    try:
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            operand = python_value(node.operand)
            return None if operand is None else _UNARY[type(node.op)](operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            left, right = python_value(node.left), python_value(node.right)
            if left is None or right is None or _too_large(node.op, left, right):
                return None
            return _BINARY[type(node.op)](left, right)
    except (ArithmeticError, ValueError, TypeError):  # left to be computed, or refused, as it stands
        return None
    return None


def _too_large(op: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        return False
    bits: dict[type[ast.operator], int] = {
        ast.Mult: left.bit_length() + right.bit_length(),
        ast.Pow: left.bit_length() * max(right, 0),
        ast.LShift: left.bit_length() + right,
    }
    return bits.get(type(op), 0) > _LARGEST_BITS


def fold(operator: str, left: Any, right: Any) -> int | None:
    """Fold integer literals where nothing overflows."""
    if isinstance(left, float) or isinstance(right, float):
        return None
    left, right = int(left), int(right)
    if operator in ("floordiv", "mod") and right == 0:
        return None
    results = {
        "add": lambda: left + right,
        "sub": lambda: left - right,
        "mul": lambda: left * right,
        "floordiv": lambda: left // right,
        "mod": lambda: left % right,
    }
    if operator not in results:
        return None
    value: int = results[operator]()
    return value if -(2**63) <= value < 2**63 else None
