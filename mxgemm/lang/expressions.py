"""Lowering of Python expressions to typed IR."""

from __future__ import annotations

import ast
import types as python_types
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang import ir
from mxgemm.lang.context import Context, describe
from mxgemm.lang.promotion import binary, comparison, unary, unify
from mxgemm.lang.scope import ArrayValue, StaticValue, TupleValue, Value
from mxgemm.lang.stubs import Stub
from mxgemm.lang.types import ArrayType, Scalar, boolean, int64, scalar_of_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxgemm.lang.place import Place

__all__ = ["ExpressionLowering"]

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


class ExpressionLowering(Context):
    """Adds expressions to the context."""

    def evaluate(self, node: ast.expr) -> Value:
        """Lower an expression; side effects are emitted as statements before it."""
        handler = getattr(self, f"_lower_{type(node).__name__}", None)
        if handler is None:
            raise self.refuse(
                node,
                f"{_construct(node)} is not part of the dialect; supported: arithmetic, comparisons, and/or, "
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

    def _lower_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, (str, bytes, complex)) or node.value is Ellipsis:
            raise self.refuse(node, f"{type(node.value).__name__} literals are not part of the dialect")
        return self.constant(self.place(node), node.value)

    def _lower_Name(self, node: ast.Name) -> Value:
        if node.id in self.local_names:
            return self.variable(node)
        found, value = self.source.outer(node.id)
        if not found:
            raise self.refuse(node, f"the name {node.id!r} is not defined")
        if isinstance(value, np.ndarray):
            return self.constant_array(node, value)
        return self.constant(self.place(node), value)

    def constant_array(self, node: ast.AST, value: Any) -> ArrayValue:
        """A host array known at compile time, as a constant array."""
        contiguous = np.ascontiguousarray(value)
        element = scalar_of_dtype(contiguous.dtype)
        if contiguous.ndim == 0 or contiguous.nbytes > 65536:
            raise self.refuse(node, "constant arrays have 1 or more axes and at most 65536 bytes")
        data = contiguous.tobytes()
        array_type = ArrayType(element, contiguous.ndim, "C", "constant", contiguous.shape)
        for declared in self.arrays.values():
            if declared.type == array_type and declared.data == data:
                return ArrayValue(declared.name, array_type)
        name = self.array_hint or "constant"
        if name in self.arrays or name in self.source.parameters:
            name = f"{name}.{len(self.arrays)}"
        self.arrays[name] = ir.ArrayDeclaration(self.place(node), name, array_type, data)
        return ArrayValue(name, array_type)

    def _lower_Tuple(self, node: ast.Tuple) -> Value:
        return TupleValue(tuple(self.evaluate_all(node.elts)))

    def _lower_Attribute(self, node: ast.Attribute) -> Value:
        base = self.evaluate(node.value)
        place = self.place(node)
        if isinstance(base, StaticValue):
            return self._static_attribute(node, base.object)
        if isinstance(base, ArrayValue):
            return self._array_attribute(node, base)
        raise self.refuse(node, f"{describe(base)} has no attribute {node.attr!r} in the dialect ({place})")

    def _static_attribute(self, node: ast.Attribute, base: Any) -> Value:
        place = self.place(node)
        try:
            value = getattr(base, node.attr)
        except AttributeError as error:
            raise self.refuse(node, str(error)) from None
        if isinstance(value, Stub):
            family, _, axis = value.name.partition(".")
            if axis in ("x", "y", "z"):
                return ir.Register(place, family, "xyz".index(axis))
            if value.name in ("laneid", "warpsize"):
                return (
                    ir.Const(place, int64, 32) if value.name == "warpsize" else ir.Register(place, "laneid")
                )
            return StaticValue(value)
        if isinstance(base, (python_types.ModuleType, type, Stub)) or callable(value):
            return (
                self.constant_array(node, value)
                if isinstance(value, np.ndarray)
                else self.constant(place, value)
            )
        raise self.refuse(node, f"attribute {node.attr!r} of {base!r} is not known to the dialect")

    def _array_attribute(self, node: ast.Attribute, base: ArrayValue) -> Value:
        place = self.place(node)
        if node.attr == "shape":
            return TupleValue(tuple(self.extent(place, base, axis) for axis in range(base.type.ndim)))
        if node.attr == "ndim":
            return ir.Const(place, int64, base.type.ndim)
        if node.attr == "size":
            size = self.extent(place, base, 0)
            for axis in range(1, base.type.ndim):
                size = ir.Binary(place, int64, "mul", size, self.extent(place, base, axis))
            return size
        if node.attr == "dtype":
            return StaticValue(base.type.element)
        if node.attr == "T" and base.type.ndim == 1:
            return base
        raise self.refuse(
            node, f"arrays have shape, size, ndim, dtype and indexing in the dialect, not {node.attr!r}"
        )

    def extent(self, place: Place, array: ArrayValue, axis: int) -> ir.Expr:
        """The extent of ``array`` along ``axis``."""
        if array.type.shape is not None and array.type.shape[axis] >= 0:
            return ir.Const(place, int64, array.type.shape[axis])
        return ir.Extent(place, array.name, axis)

    def _lower_BinOp(self, node: ast.BinOp) -> Value:
        operator = BINARY_OPERATORS.get(type(node.op))
        if operator is None:
            raise self.refuse(node, f"the operator {type(node.op).__name__} is not part of the dialect")
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
            folded = _fold(operator, left.value, right.value)
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
        value = self.evaluate(node.operand)
        place = self.place(node)
        if operator == "not":
            return ir.Unary(place, boolean, "not", self.truth(node.operand, value))
        operand = self.scalar(node.operand, value)
        literal = isinstance(operand, ir.Const) and (operand.type.is_float or operand.type == int64)
        if operator == "neg" and isinstance(operand, ir.Const) and (literal or operand.value == 2**63):
            negated = -operand.value
            return ir.Const(place, int64 if isinstance(negated, int) else operand.type, negated)
        result = unary(operator, operand.type)
        if result is None:
            raise self.refuse(node, f"{operand.type} has no operator {operator!r}")
        converted = self.convert(operand, result)
        return converted if operator == "pos" else ir.Unary(place, result, operator, converted)

    def _lower_Compare(self, node: ast.Compare) -> Value:
        place = self.place(node)
        values = self.evaluate_all([node.left, *node.comparators])
        if any(isinstance(v, StaticValue) for v in values):
            return self._static_comparison(node, values)
        nodes = [node.left, *node.comparators]
        operands = [self.scalar(n, v) for n, v in zip(nodes, values, strict=True)]
        if len(operands) > 2:
            operands = [self.spill(operand) for operand in operands]
        result: ir.Expr | None = None
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            name = COMPARE_OPERATORS.get(type(operator))
            if name is None:
                raise self.refuse(node, "comparisons are <, <=, >, >=, == and != in the dialect")
            common = comparison(left.type, right.type)
            test = ir.Compare(place, name, self.convert(left, common), self.convert(right, common))
            result = test if result is None else ir.Logical(place, "and", result, test)
        return ir.Const(place, boolean, True) if result is None else result

    def _static_comparison(self, node: ast.Compare, values: list[Value]) -> Value:
        """``x is None`` and comparisons of types are decided when the kernel is compiled."""
        if len(values) == 2 and isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
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

    def _lower_Subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        place = self.place(node)
        if isinstance(base, TupleValue):
            return self._tuple_item(node, base)
        if not isinstance(base, ArrayValue):
            raise self.refuse(node, f"{describe(base)} cannot be indexed")
        indices = self.indices(node, base)
        if len(indices) == base.type.ndim:
            return ir.Load(place, base.type.element, base.name, indices)
        return self.view(place, base, indices)

    def view(self, place: Place, base: ArrayValue, indices: tuple[ir.Expr, ...]) -> ArrayValue:
        """A row (or plane) of an array, its first indices fixed."""
        view_type = ArrayType(
            base.type.element,
            base.type.ndim - len(indices),
            "C" if base.type.layout == "C" else "A",
            base.type.space,
            None if base.type.shape is None else base.type.shape[len(indices) :],
        )
        name = self.view_names.setdefault(place, f".view{len(self.view_names)}")
        self.emit(ir.BindView(place, name, base.name, indices, view_type))
        return ArrayValue(name, view_type)

    def _tuple_item(self, node: ast.Subscript, base: TupleValue) -> Value:
        index = self.evaluate(node.slice)
        if not isinstance(index, ir.Const) or not isinstance(index.value, int):
            raise self.refuse(node, "a tuple is indexed by a constant in the dialect")
        if not -len(base.items) <= index.value < len(base.items):
            raise self.refuse(node, f"index {index.value} is outside a tuple of {len(base.items)} items")
        return base.items[index.value]

    def indices(self, node: ast.Subscript, base: ArrayValue) -> tuple[ir.Expr, ...]:
        """The integer indices of a subscript."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is Ellipsis):
                raise self.refuse(
                    part,
                    "slices inside a kernel are not part of the dialect; index elements, or rows as a[i]",
                )
        return self.index_values(node, self.evaluate_all(parts), base)

    def index_values(self, node: ast.AST, values: Sequence[Value], base: ArrayValue) -> tuple[ir.Expr, ...]:
        """Check index values: integers, at most one an axis; a tuple stands for its items."""
        flat: list[ir.Expr] = []
        for value in values:
            items = value.items if isinstance(value, TupleValue) else (value,)
            flat += [self.scalar(node, item) for item in items]
        if len(flat) > base.type.ndim or not flat:
            raise self.refuse(node, f"{len(flat)} indices for an array with {base.type.ndim} axes")
        for index in flat:
            if not index.type.is_integer:
                raise self.refuse(node, f"an index of type {index.type}; indices are integers")
        return tuple(self.convert(i, int64) if i.type.kind != "u" else i for i in flat)

    def _lower_Call(self, node: ast.Call) -> Value:
        return self.call(node)

    @abstractmethod
    def call(self, node: ast.Call) -> Value:
        """Lower a call."""


def _construct(node: ast.AST) -> str:
    names = {
        "Lambda": "lambda", "ListComp": "a list comprehension", "GeneratorExp": "a generator",
        "Dict": "a dict", "Set": "a set", "List": "a list", "JoinedStr": "an f-string",
        "NamedExpr": "the walrus operator", "Starred": "a starred expression", "Slice": "a slice",
        "Await": "await", "Yield": "yield",
    }  # fmt: skip
    return names.get(type(node).__name__, type(node).__name__)


def _fold(operator: str, left: Any, right: Any) -> int | None:
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
