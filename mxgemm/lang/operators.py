"""Lowering of operators, comparisons and choices, whose operands may be left out when the kernel runs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir
from mxgemm.lang.context import Context
from mxgemm.lang.literals import fold, python_value
from mxgemm.lang.promotion import binary, comparison, unary, unify
from mxgemm.lang.scope import ArrayValue, StaticValue, TupleValue, Value
from mxgemm.lang.types import Scalar, boolean, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BINARY_OPERATORS", "OperatorLowering", "construct"]

BINARY_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARE_OPERATORS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
UNARY_OPERATORS: Final[dict[type[ast.unaryop], str]] = {
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not",
}  # fmt: skip

_COMPARISONS: Final = "comparisons are <, <=, >, >=, == and != in the dialect"


class OperatorLowering(Context):
    """Adds operators to the context; ``_lower_<node>`` methods of later classes add the other expressions."""

    def evaluate(self, node: ast.expr) -> Value:
        """Lower an expression; side effects are emitted as statements before it."""
        handler = getattr(self, f"_lower_{type(node).__name__}", None)
        if handler is None:
            raise self.refuse(
                node,
                f"{construct(node)} is not part of the dialect; supported: arithmetic, comparisons, and/or, "
                "not, choices, indexing, tuples and calls of the functions in docs/dialect.md",
            )
        value: Value = handler(node)
        return value

    def evaluate_scalar(self, node: ast.expr) -> ir.Expr:
        """Lower an expression that must be a number."""
        return self.scalar(node, self.evaluate(node))

    def evaluate_all(self, nodes: Sequence[ast.expr]) -> list[Value]:
        """Lower operands left to right; an effect in a later one spills the earlier ones first."""
        values: list[Value] = []
        outer = self.output
        for node in nodes:
            self.output = []
            value = self.evaluate(node)
            emitted, self.output = self.output, outer
            if emitted:
                values = [self._settle(earlier) for earlier in values]
                self.output.extend(emitted)
            values.append(value)
        return values

    def _settle(self, value: Value) -> Value:
        if isinstance(value, (ArrayValue, StaticValue)):
            return value
        if isinstance(value, TupleValue):
            return TupleValue(tuple(self._settle(item) for item in value.items))
        return self.spill(value)

    def truth(self, node: ast.AST, value: Value) -> ir.Expr:
        """``value`` as a condition."""
        expression = self.scalar(node, value)
        if expression.type == boolean:
            return expression
        zero = ir.Const(expression.place, expression.type, 0.0 if expression.type.is_float else 0)
        return ir.Compare(expression.place, "ne", expression, zero)

    def _lower_BinOp(self, node: ast.BinOp) -> Value:
        operator = BINARY_OPERATORS.get(type(node.op))
        if operator is None:
            raise self.refuse(node, f"the operator {type(node.op).__name__} is not part of the dialect")
        known = python_value(node)
        if known is not None:
            return self.constant(self.place(node), known)
        left, right = self.evaluate_all([node.left, node.right])
        if isinstance(left, TupleValue) and isinstance(right, TupleValue) and operator == "add":
            return TupleValue(left.items + right.items)
        return self.operate(node, operator, self.scalar(node.left, left), self.scalar(node.right, right))

    def operate(self, node: ast.AST, operator: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
        """``left operator right`` with Numba's operand conversions."""
        typing = binary(operator, left.type, right.type)
        if typing is None:
            raise self.refuse(node, f"{left.type} and {right.type} have no operator {operator!r}")
        if isinstance(left, ir.Const) and isinstance(right, ir.Const):
            folded = fold(operator, left.value, right.value)
            if folded is not None and typing.result == int64:
                return ir.Const(self.place(node), int64, folded)
        return ir.Binary(
            self.place(node),
            typing.result,
            operator,
            self.convert(left, typing.left),
            self.convert(right, typing.right),
        )

    def _lower_UnaryOp(self, node: ast.UnaryOp) -> Value:
        operator = UNARY_OPERATORS[type(node.op)]
        place, known = self.place(node), python_value(node)
        if known is not None:
            return self.constant(place, known)
        value = self.evaluate(node.operand)
        if operator == "not":
            return ir.Unary(place, boolean, "not", self.truth(node.operand, value))
        operand = self.scalar(node.operand, value)
        if operator == "neg" and isinstance(operand, ir.Const) and _has_negative(operand):
            return ir.Const(place, operand.type, -operand.value)
        result = unary(operator, operand.type)
        if result is None:
            raise self.refuse(node, f"{operand.type} has no operator {operator!r}")
        converted = self.convert(operand, result)
        return converted if operator == "pos" else ir.Unary(place, result, operator, converted)

    def _lower_Compare(self, node: ast.Compare) -> Value:
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            raise self.refuse(node, _COMPARISONS)
        left, right = self.evaluate_all([node.left, node.comparators[0]])
        if isinstance(left, StaticValue) or isinstance(right, StaticValue):
            return self._static_comparison(node, left, right)
        return self._chain(node, 0, self.scalar(node.left, left), right)

    def _chain(self, node: ast.Compare, at: int, left: ir.Expr, value: Value) -> ir.Expr:
        """Comparison ``at`` of a chain, and the ones after it, whose operands are evaluated if it holds."""
        place, right_node = self.place(node), node.comparators[at]
        name = COMPARE_OPERATORS.get(type(node.ops[at]))
        if name is None:
            raise self.refuse(node, _COMPARISONS)
        right = self.scalar(right_node, value)
        last = at + 1 == len(node.ops)
        right = right if last or isinstance(right, ir.Local) else self.spill(right)
        common = comparison(left.type, right.type)
        test = ir.Compare(place, name, self.convert(left, common), self.convert(right, common))
        if last:
            return test
        outer, self.output = self.output, []
        rest = self._chain(node, at + 1, right, self.evaluate(node.comparators[at + 1]))
        statements, self.output = self.output, outer
        if not statements:
            return ir.Logical(place, "and", test, rest)
        target = self.temporary(place, boolean)
        self.emit(ir.Assign(place, target, test))
        self.emit(ir.If(place, target, (*statements, ir.Assign(place, target, rest))))
        return target

    def _static_comparison(self, node: ast.Compare, *values: Value) -> Value:
        """``x is None`` and comparisons of types are decided when the kernel is compiled."""
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            left, right = (v.object if isinstance(v, StaticValue) else v for v in values)
            same = left is right or (isinstance(left, Scalar) and left == right)
            return ir.Const(self.place(node), boolean, same is isinstance(node.ops[0], (ast.Is, ast.Eq)))
        raise self.refuse(node, "objects known at compile time compare with is, is not, == and != only")

    def _lower_BoolOp(self, node: ast.BoolOp) -> Value:
        operator = "and" if isinstance(node.op, ast.And) else "or"
        result = self.evaluate(node.values[0])
        for operand in node.values[1:]:
            result = self._logical(node, operator, self.scalar(node, result), operand)
        return result

    def _logical(self, node: ast.BoolOp, operator: str, left: ir.Expr, operand: ast.expr) -> ir.Expr:
        place = self.place(node)
        if isinstance(left, ir.Const):
            decided = bool(left.value) is (operator == "or")
            return left if decided else self.evaluate_scalar(operand)
        statements, value = self.aside(operand)
        right = self.scalar(operand, value)
        if not statements and left.type == right.type == boolean:
            return ir.Logical(place, operator, left, right)
        common = unify(left.type, right.type)
        target = self.temporary(place, common)
        held = self.spill(left)
        self.emit(ir.Assign(place, target, self.convert(held, common)))
        statements.append(ir.Assign(place, target, self.convert(right, common)))
        test = self.truth(node, held)
        if operator == "or":
            test = ir.Unary(place, boolean, "not", test)
        self.emit(ir.If(place, test, tuple(statements)))
        return target

    def aside(self, node: ast.expr) -> tuple[list[ir.Statement], Value]:
        """Lower an expression that may not be evaluated, with its effects kept apart."""
        outer, self.output = self.output, []
        value = self.evaluate(node)
        statements, self.output = self.output, outer
        return statements, value

    def _lower_IfExp(self, node: ast.IfExp) -> Value:
        place = self.place(node)
        condition = self.truth(node.test, self.evaluate(node.test))
        if isinstance(condition, ir.Const):
            return self.evaluate(node.body if condition.value else node.orelse)
        then, left_value = self.aside(node.body)
        otherwise, right_value = self.aside(node.orelse)
        left, right = self.scalar(node.body, left_value), self.scalar(node.orelse, right_value)
        common = unify(left.type, right.type)
        left, right = self.convert(left, common), self.convert(right, common)
        if not then and not otherwise:
            return ir.Select(place, common, condition, left, right)
        target = self.temporary(place, common)
        then.append(ir.Assign(place, target, left))
        otherwise.append(ir.Assign(place, target, right))
        self.emit(ir.If(place, condition, tuple(then), tuple(otherwise)))
        return target


def _has_negative(value: ir.Const) -> bool:
    return value.type.is_float or (value.type == int64 and value.value != -(2**63))


def construct(node: ast.AST) -> str:
    """Name a Python construct for an error message."""
    names = {
        "Lambda": "lambda", "ListComp": "a list comprehension", "GeneratorExp": "a generator",
        "Dict": "a dict", "Set": "a set", "List": "a list", "JoinedStr": "an f-string",
        "NamedExpr": "the walrus operator", "Starred": "a starred expression", "Slice": "a slice",
        "Await": "await", "Yield": "yield",
    }  # fmt: skip
    return names.get(type(node).__name__, type(node).__name__)
