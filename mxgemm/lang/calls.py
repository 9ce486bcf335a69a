"""Lowering of calls: conversions, scalar functions, device functions; words go to ``words``."""

from __future__ import annotations

import ast
from abc import abstractmethod
from functools import cache
from typing import TYPE_CHECKING, Any

from mxgemm.lang import ir
from mxgemm.lang.context import assigned_names, describe, static_scalar
from mxgemm.lang.expressions import ExpressionLowering
from mxgemm.lang.functions import FUNCTIONS, MathFunction, python_functions
from mxgemm.lang.promotion import math_operand, unary, unify
from mxgemm.lang.scope import ArrayValue, StaticValue, TupleValue, Value
from mxgemm.lang.signatures import accepts
from mxgemm.lang.stubs import Stub
from mxgemm.lang.types import SCALARS, Scalar, TupleType, Type, boolean, float32, float64, int32, int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxgemm.lang.signatures import Signature
    from mxgemm.lang.types import ArrayType

__all__ = ["CallLowering"]

#: Functions that Numba evaluates in float16 for float16 arguments.
_KEEP_FLOAT16 = frozenset(
    {"sqrt", "fabs", "floor", "ceil", "trunc", "exp", "log", "log2", "log10", "sin", "cos", "rint"}
)


@cache
def _python_functions() -> dict[Any, str]:
    return python_functions()


@cache
def _known() -> list[str]:
    """The functions a kernel may call, as users name them; NumPy's of the same meaning aside."""
    return sorted(set(python_functions().values()) | {"len", "bool", "int", "float"})


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class CallLowering(ExpressionLowering):
    """Adds calls to expressions."""

    def call(self, node: ast.Call) -> Value:
        """Lower a call of anything that the dialect knows."""
        callee = self.evaluate(node.func)
        if not isinstance(callee, StaticValue):
            raise self.refuse(node, "this is not a function")
        target = callee.object
        if isinstance(target, Stub):
            return self.word(node, target.name)
        if getattr(target, "is_mxgemm_function", False):
            return self._device_call(node, target)
        if target is bool:
            value = self.evaluate(self._arguments(node, "bool", 1)[0])
            return self.truth(node, value)
        if target in (int, float) if _hashable(target) else False:
            return self._builtin_conversion(node, target)
        scalar = static_scalar(callee)
        if scalar is not None:
            return self.cast(node, self.evaluate_scalar(self._arguments(node, scalar.name, 1)[0]), scalar)
        if target is len:
            return self._length(node)
        name = _python_functions().get(target) if _hashable(target) else None
        if name is None:
            raise self.refuse(node, self._unknown(target))
        return self._function(node, name)

    @abstractmethod
    def word(self, node: ast.Call, name: str) -> Value:
        """Lower a call of a word of the dialect (``cuda.…``)."""

    def cast(self, node: ast.AST, value: ir.Expr, scalar: Scalar) -> ir.Expr:
        """An explicit conversion; to bool it asks whether the value is not zero."""
        return self.truth(node, value) if scalar == boolean else self.convert(value, scalar)

    def _unknown(self, target: Any) -> str:
        name = getattr(target, "__qualname__", repr(target))
        if target is print:
            return "print inside a kernel is not supported; write to an array instead"
        if callable(target) and hasattr(target, "__code__"):
            return f"{name} is a plain Python function; put @cuda.jit(device=True) on it to call it here"
        return f"{name} is not a function of the dialect; supported: {', '.join(_known())}"

    def _arguments(self, node: ast.Call, name: str, count: int) -> list[ast.expr]:
        if node.keywords or len(node.args) != count:
            raise self.refuse(
                node, f"{name} takes {count} positional argument{'s' if count > 1 else ''} here"
            )
        return node.args

    def _builtin_conversion(self, node: ast.Call, target: Any) -> Value:
        value = self.evaluate_scalar(self._arguments(node, target.__name__, 1)[0])
        if target is int:
            keeps = value.type.is_integer and value.type != boolean
            return value if keeps else self.convert(value, int64)
        return value if value.type.is_float else self.convert(value, float64)

    def _length(self, node: ast.Call) -> Value:
        value = self.evaluate(self._arguments(node, "len", 1)[0])
        if isinstance(value, TupleValue):
            return ir.Const(self.place(node), int64, len(value.items))
        if isinstance(value, ArrayValue):
            return self.extent(self.place(node), value, 0)
        raise self.refuse(node, "len takes an array or a tuple")

    def _function(self, node: ast.Call, name: str) -> Value:
        if node.keywords:
            raise self.refuse(node, f"{name} takes no keywords in the dialect")
        operands = [self.scalar(n, v) for n, v in zip(node.args, self.evaluate_all(node.args), strict=True)]
        return self.apply(node, name, operands)

    def apply(self, node: ast.AST, name: str, operands: Sequence[ir.Expr]) -> ir.Expr:
        """Apply a scalar function to evaluated operands."""
        place = self.place(node)
        if name == "pow" and len(operands) == 2:
            return self._math_pow(node, operands)
        if name == "abs" and len(operands) == 1:
            result = unary("abs", operands[0].type) or operands[0].type
            return ir.Unary(place, result, "abs", self.convert(operands[0], result))
        if name == "round" and len(operands) == 1:
            real = math_operand(operands[0].type, keeps_float16=False)
            rounded = ir.Math(place, real, "rint", (self.convert(operands[0], real),))
            return self.convert(rounded, int64)
        row = FUNCTIONS.get(name)
        if row is None:
            raise self.refuse(node, f"{name} with {len(operands)} arguments is not part of the dialect")
        if row.kind == "minmax" and len(operands) < 2:
            raise self.refuse(node, f"{name} takes two numbers or more")
        if row.kind == "minmax" and len(operands) > 2:
            first = self.apply(node, name, operands[:2])
            return self.apply(node, name, [first, *operands[2:]])
        if len(operands) != row.arity:
            raise self.refuse(node, f"the arity of {name} is {row.arity}, {len(operands)} given")
        return self._table_function(node, row, operands)

    def _table_function(self, node: ast.AST, row: MathFunction, operands: Sequence[ir.Expr]) -> ir.Expr:
        place = self.place(node)
        if row.kind == "integer":
            return self._bit_function(node, row.name, operands[0])
        if row.kind == "minmax":
            common = unify(operands[0].type, operands[1].type)
            return ir.Math(place, common, row.name, tuple(self.convert(o, common) for o in operands))
        if row.kind == "ldexp":
            real = math_operand(operands[0].type, keeps_float16=False)
            return ir.Math(
                place, real, "ldexp", (self.convert(operands[0], real), self.convert(operands[1], int32))
            )
        if row.name == "trunc" or row.kind in ("float", "float32", "predicate", "fma"):
            real = self._common_float(row, operands)
            converted = tuple(self.convert(o, real) for o in operands)
            return ir.Math(place, boolean if row.kind == "predicate" else real, row.name, converted)
        raise self.refuse(node, f"{row.name} is not part of the dialect")

    def _common_float(self, row: MathFunction, operands: Sequence[ir.Expr]) -> Scalar:
        real = math_operand(operands[0].type, row.name in _KEEP_FLOAT16)
        for operand in operands[1:]:
            other = math_operand(operand.type, row.name in _KEEP_FLOAT16)
            real = real if real == other else float64
        return real

    def _bit_function(self, node: ast.AST, name: str, operand: ir.Expr) -> ir.Expr:
        if not operand.type.is_integer or operand.type == boolean:
            raise self.refuse(node, f"{name} takes an integer, not {operand.type}")
        if name == "brev":
            unsigned = SCALARS["uint64" if operand.type.bits == 64 else "uint32"]
            return ir.Math(self.place(node), unsigned, name, (self.convert(operand, unsigned),))
        result = SCALARS["uint32"] if name == "ffs" else operand.type
        return ir.Math(self.place(node), result, name, (operand,))

    def _math_pow(self, node: ast.AST, operands: Sequence[ir.Expr]) -> ir.Expr:
        """``math.pow``: floats throughout, except that an int32 or narrower exponent stays one."""
        left, right = operands
        base = math_operand(left.type, keeps_float16=False)
        if right.type.is_integer and right.type.is_signed and right.type.bits <= 32:
            return self.operate(node, "pow", self.convert(left, base), right)
        exponent = math_operand(right.type, keeps_float16=False)
        common = float32 if base == exponent == float32 else float64
        return self.operate(node, "pow", self.convert(left, common), self.convert(right, common))

    def _device_call(self, node: ast.Call, target: Any) -> Value:
        place = self.place(node)
        names, values = target.source_view.parameters, self._bound_arguments(node, target)
        signature = self._signature(node, target, values)
        declared = signature.arguments if signature else (None,) * len(names)
        arguments: list[ir.Expr | str] = []
        types: list[Type | StaticValue] = []
        fixed = set(names) - assigned_names(target.source_view.tree)
        for name, value, wanted in zip(names, values, declared, strict=True):
            literal = _literal(value) if name in fixed and wanted is None else None
            if literal is not None:  # known inside, so that it may be an extent
                types.append(StaticValue(literal))
            elif isinstance(value, ArrayValue):
                arguments.append(value.name)
                types.append(value.type)
            elif isinstance(value, StaticValue):  # a function or type is part of the specialisation
                types.append(value)
            elif isinstance(value, TupleValue):
                items = tuple(self.scalar(node, item) for item in value.items)
                arguments += items
                types.append(TupleType(tuple(item.type for item in items)))
            else:
                expression = self.convert(value, wanted) if isinstance(wanted, Scalar) else value
                arguments.append(expression)
                types.append(expression.type)
        function = self.specialise(target, tuple(types), place)
        results: tuple[Scalar, ...] = ()
        if function.result is not None:
            results = function.result.items if isinstance(function.result, TupleType) else (function.result,)
        targets = tuple(self.temporary(place, result) for result in results)
        self.emit(ir.Call(place, function.name, tuple(arguments), targets))
        result = signature.result if signature else None
        if result is not None and not isinstance(function.result, Scalar):
            raise self.refuse(node, f"{target.__name__} returns no number, its signature says {result}")
        if function.result is None:
            return StaticValue(None)
        if isinstance(function.result, TupleType):
            return TupleValue(targets)
        return targets[0] if result is None else self.convert(targets[0], result)

    def _bound_arguments(self, node: ast.Call, target: Any) -> list[Value]:
        """The argument values in parameter order: given by position, by name, or the function's default."""
        parameters, defaults = target.source_view.parameters, target.source_view.defaults
        nodes = [*node.args, *(keyword.value for keyword in node.keywords)]
        names = [*parameters[: len(node.args)], *(keyword.arg for keyword in node.keywords)]
        missing = set(parameters) - set(names) - set(defaults)
        if len(nodes) != len(names) or missing or len(names) != len(set(names) & set(parameters)):
            raise self.refuse(node, f"{target.__name__} takes the arguments ({', '.join(parameters)})")
        given = dict(zip(names, self.evaluate_all(nodes), strict=True))
        place = self.place(node)
        return [given[n] if n in given else self.constant(place, defaults[n]) for n in parameters]

    def _signature(self, node: ast.Call, target: Any, values: list[Value]) -> Signature | None:
        """The signature that a device function declares for these arguments; numbers are converted."""
        if not target.signatures:
            return None
        types = [None if isinstance(v, (TupleValue, StaticValue)) else v.type for v in values]
        fitting: list[Signature] = [s for s in target.signatures if _fits(types, s.arguments)]
        exact = [s for s in fitting if list(s.arguments) == types]
        if fitting:
            return (exact or fitting)[0]
        declared = "; ".join(f"({', '.join(map(str, s.arguments))})" for s in target.signatures)
        given = ", ".join(describe(value) for value in values)
        raise self.refuse(node, f"{target.__name__} is declared for {declared}; it is given {given}")


def _fits(types: list[ArrayType | Scalar | None], declared: tuple[Type, ...]) -> bool:
    return len(types) == len(declared) and all(
        t is not None and accepts(d, t) for t, d in zip(types, declared, strict=True)
    )


def _literal(value: Value) -> Any:
    """The Python integer or bool, or tuple of them, that a value is; None when it is something else."""
    if isinstance(value, ir.Const) and value.type in {int64, boolean}:
        return value.value
    if isinstance(value, TupleValue):
        items = tuple(_literal(item) for item in value.items)
        return None if None in items else items
    return None
