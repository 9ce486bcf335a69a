"""The state of one function's lowering: bindings, emitted statements, declared arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.lang import ir
from mxgemm.lang.place import Place, refuse
from mxgemm.lang.scope import (
    ArrayValue,
    Conflict,
    Environment,
    ScalarBinding,
    StaticValue,
    TupleBinding,
    TupleValue,
    Value,
)
from mxgemm.lang.types import Scalar, Type, as_scalar, boolean, float64, int64, scalar_of_dtype, uint64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mxgemm.errors import KernelSyntaxError
    from mxgemm.lang.source import KernelSource

__all__ = ["Context", "assigned_names", "static_scalar", "target_names"]


class Context:
    """Bindings and output of a function being lowered; later classes add expressions and statements.

    Parameters
    ----------
    source
        The function.
    environment
        Bindings of its parameters.
    specialise
        Lowers a device function for argument types; shared by the whole kernel.
    """

    def __init__(
        self,
        source: KernelSource,
        environment: Environment,
        specialise: Callable[[Any, tuple[Type | StaticValue, ...], Place], ir.Function],
    ) -> None:
        self.source = source
        self.environment: Environment | None = environment
        self.specialise = specialise
        self.output: list[ir.Statement] = []
        self.arrays: dict[str, ir.ArrayDeclaration] = {}
        self.local_names = assigned_names(source.tree) | set(source.parameters)
        self.array_hint = ""  # the name that an array being declared is assigned to
        # A view keeps its name when a loop's body is lowered again, so that its binding is the same one.
        self.view_names: dict[Place, str] = {}
        self._temporaries = 0

    def place(self, node: ast.AST) -> Place:
        """The place of a syntax node."""
        return Place.of(node, self.source.filename)

    def refuse(self, node: ast.AST, message: str) -> KernelSyntaxError:
        """The error for a construct outside the dialect."""
        return refuse(self.place(node), message)

    def bindings(self, node: ast.AST) -> Environment:
        """The bindings here; code that no path reaches has been dropped before."""
        if self.environment is None:
            raise self.refuse(node, "this statement cannot be reached")
        return self.environment

    def emit(self, statement: ir.Statement) -> None:
        """Append a statement."""
        self.output.append(statement)

    def temporary(self, place: Place, scalar: Scalar) -> ir.Local:
        """A fresh variable; its name cannot be written in Python."""
        self._temporaries += 1
        return ir.Local(place, scalar, f".{self._temporaries}")

    def spill(self, value: ir.Expr) -> ir.Expr:
        """Evaluate ``value`` now, into a temporary, unless nothing can change it."""
        if isinstance(value, (ir.Const, ir.Register, ir.Extent)):
            return value
        target = self.temporary(value.place, value.type)
        self.emit(ir.Assign(value.place, target, value))
        return target

    def constant(self, place: Place, value: Any) -> Value:
        """The value of a Python object known at compile time, typed as Numba types it."""
        if isinstance(value, (bool, np.bool_)):
            return ir.Const(place, boolean, bool(value))
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise refuse(place, f"the integer {value} does not fit 64 bits")
            return ir.Const(place, int64 if value < 2**63 else uint64, value)
        if isinstance(value, np.generic):
            scalar = scalar_of_dtype(value.dtype)
            return ir.Const(place, scalar, float(value) if scalar.is_float else int(value))
        if isinstance(value, float):
            return ir.Const(place, float64, value)
        if isinstance(value, tuple):
            return TupleValue(tuple(self.constant(place, item) for item in value))
        return StaticValue(value)

    def variable(self, node: ast.Name) -> Value:
        """The value of a name that the function assigns."""
        place = self.place(node)
        binding = self.bindings(node).get(node.id)
        if binding is None:
            raise self.refuse(node, f"{node.id} is used before any assignment")
        return self.bound(place, node.id, binding)

    def bound(self, place: Place, name: str, binding: Any) -> Value:
        """The value that a binding stands for."""
        if isinstance(binding, ScalarBinding):
            return ir.Local(place, binding.type, name)
        if isinstance(binding, TupleBinding):
            bindings = self.environment or {}
            names = [f"{name}.{i}" for i in range(binding.size)]
            return TupleValue(tuple(self.bound(place, item, bindings[item]) for item in names))
        if isinstance(binding, Conflict):
            raise refuse(place, f"{binding.reason}; the dialect supports one array or tuple a name")
        value: ArrayValue | StaticValue = binding
        return self.constant(place, value.object) if isinstance(value, StaticValue) else value

    def scalar(self, node: ast.AST, value: Value) -> ir.Expr:
        """``value`` as a scalar expression, or an error that names what it is."""
        if isinstance(value, (ArrayValue, TupleValue, StaticValue)):
            raise self.refuse(node, f"a number is needed here, this is {describe(value)}")
        return value

    def convert(self, value: ir.Expr, scalar: Scalar) -> ir.Expr:
        """``value`` in type ``scalar``; literals are converted where that is exact."""
        if value.type == scalar:
            return value
        if isinstance(value, ir.Const):
            folded = _exact_literal(value.value, scalar)
            if folded is not None:
                return ir.Const(value.place, scalar, folded)
        return ir.Convert(value.place, scalar, value)


def describe(value: Value) -> str:
    """Name a value for an error message."""
    if isinstance(value, ArrayValue):
        return f"an array ({value.type})"
    if isinstance(value, TupleValue):
        return f"a tuple of {len(value.items)} items"
    if isinstance(value, StaticValue):
        return f"{value.object!r}"
    return f"a scalar of type {value.type}"


def static_scalar(value: Value) -> Scalar | None:
    """The scalar type that a static value names, or None."""
    if isinstance(value, StaticValue):
        from mxgemm.lang.types import is_type_object

        try:
            named = isinstance(value.object, str) or is_type_object(value.object)
            return as_scalar(value.object) if named else None
        except (TypeError, ValueError):
            return None
    return None


def _exact_literal(value: bool | float, scalar: Scalar) -> bool | int | float | None:
    """``value`` as a literal of ``scalar`` when no rounding, wrapping or sign change is involved."""
    if scalar.kind == "b":
        return None
    if scalar.is_integer:
        if isinstance(value, float):
            return None
        low, high = (
            (-(2 ** (scalar.bits - 1)), 2 ** (scalar.bits - 1)) if scalar.kind == "i" else (0, 2**scalar.bits)
        )
        return int(value) if low <= value < high else None
    if isinstance(value, float):
        return value if scalar.bits == 64 or (scalar.bits == 32 and _is_float32(value)) else None
    significand = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}[scalar.name]
    return float(value) if abs(int(value)) <= 2**significand and abs(int(value)) <= 2048 * 2**13 else None


def _is_float32(value: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value


def assigned_names(tree: ast.FunctionDef) -> frozenset[str]:
    """Names that a function assigns."""
    return frozenset(target_names(tree.body))


def target_names(targets: Sequence[ast.AST]) -> set[str]:
    """Names that assignment targets, or statements, bind."""
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
