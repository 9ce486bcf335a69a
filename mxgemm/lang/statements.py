"""Lowering of Python statements; types flow along the paths, loops iterate to their fixpoint."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mxgemm.lang import ir
from mxgemm.lang.context import target_names
from mxgemm.lang.operators import BINARY_OPERATORS, construct
from mxgemm.lang.promotion import range_type, unify
from mxgemm.lang.scope import (
    ArrayValue,
    Environment,
    ScalarBinding,
    StaticValue,
    TupleBinding,
    TupleValue,
    Value,
    conversions,
    join,
)
from mxgemm.lang.types import Scalar, TupleType, boolean
from mxgemm.lang.words import WordLowering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["StatementLowering"]


@dataclass
class _Loop:
    """A loop being lowered: the bindings at its head and after it, from the previous round."""

    head: Environment
    exit: Environment
    breaks: list[Environment] = field(default_factory=list)
    continues: list[Environment] = field(default_factory=list)


class StatementLowering(WordLowering):
    """Adds statements; ``run`` lowers a whole body."""

    loops: list[_Loop]
    is_kernel: bool
    result: tuple[Scalar, ...] | None
    returns: list[tuple[Scalar, ...]]
    returns_tuple: bool

    def run(self, is_kernel: bool, result: tuple[Scalar, ...] | None) -> tuple[ir.Statement, ...]:
        """Lower the function's body; ``result`` is the return type found by the previous round."""
        self.loops, self.returns, self.returns_tuple = [], [], False
        self.is_kernel, self.result = is_kernel, result
        self.block(self.source.tree.body)
        return tuple(self.output)

    def block(self, nodes: Sequence[ast.stmt]) -> None:
        """Lower statements until one leaves the block."""
        for node in nodes:
            if self.environment is None:
                return
            handler = getattr(self, f"_statement_{type(node).__name__}", None)
            if handler is None:
                raise self.refuse(
                    node,
                    f"{_statement_name(node)} is not part of the dialect; supported statements: assignment, "
                    "if, for … in range(…), while, break, continue, return, pass and calls",
                )
            handler(node)

    def _reached(self) -> Environment | None:
        """The bindings where lowering stands; None after a statement that leaves the block."""
        return self.environment

    def _apart(self, nodes: Sequence[ast.stmt]) -> tuple[list[ir.Statement], Environment | None]:
        """Lower a nested block on a copy of the bindings."""
        outer_output, outer_environment = self.output, self.environment
        self.output, self.environment = [], dict(outer_environment or {})
        self.block(nodes)
        statements, environment = self.output, self.environment
        self.output, self.environment = outer_output, outer_environment
        return statements, environment

    def _statement_Pass(self, node: ast.Pass) -> None:
        pass

    def _statement_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, (ast.Yield, ast.YieldFrom, ast.Await)):
            raise self.refuse(node, f"{construct(node.value)} is not part of the dialect")
        if not isinstance(node.value, ast.Call):
            raise self.refuse(node, "this expression has no effect")
        self.evaluate(node.value)

    def _statement_Assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        self.array_hint = first.id if isinstance(first, ast.Name) else ""
        value = self.evaluate(node.value)
        self.array_hint = ""
        if len(node.targets) > 1 and not isinstance(value, (ArrayValue, StaticValue)):
            value = self._settle(value)
        for target in node.targets:
            self.assign(target, value)

    def _statement_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value))

    def _statement_AugAssign(self, node: ast.AugAssign) -> None:
        operator = BINARY_OPERATORS.get(type(node.op))
        if operator is None:
            raise self.refuse(node, f"{type(node.op).__name__} is not part of the dialect")
        if isinstance(node.target, ast.Name):
            read = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            left, right = self.evaluate_all([read, node.value])
            value = self.operate(node, operator, self.scalar(read, left), self.scalar(node.value, right))
            self.assign(node.target, value)
            return
        if not isinstance(node.target, ast.Subscript):
            raise self.refuse(node, "augmented assignment takes a name or an element")
        base, indices = self._written_element(node.target)
        indices = tuple(self.spill(i) if not isinstance(i, ir.Local) else i for i in indices)
        place = self.place(node.target)
        current: ir.Expr = ir.Load(place, base.type.element, base.name, indices)
        statements, value_right = self.aside(node.value)
        if statements:
            current = self.spill(current)
            self.output.extend(statements)
        combined = self.operate(node, operator, current, self.scalar(node.value, value_right))
        self.emit(ir.Store(place, base.name, indices, self.convert(combined, base.type.element)))

    def _written_element(self, node: ast.Subscript) -> tuple[ArrayValue, tuple[ir.Expr, ...]]:
        base = self.evaluate(node.value)
        if not isinstance(base, ArrayValue):
            raise self.refuse(node, "only array elements can be assigned")
        if base.type.space == "constant":
            raise self.refuse(node, "constant arrays cannot be written")
        indices = self.indices(node, base)
        if len(indices) != base.type.ndim:
            raise self.refuse(
                node, f"{len(indices)} indices for an array with {base.type.ndim} axes; assign elements"
            )
        return base, indices

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign an evaluated value to a target."""
        if isinstance(target, ast.Name):
            self._bind(target, target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, ast.Subscript):
            expression = self.scalar(target, value)
            statements_before = len(self.output)
            base, indices = self._written_element(target)
            if len(self.output) != statements_before and not isinstance(expression, ir.Const):
                inserted = self.temporary(expression.place, expression.type)
                self.output.insert(statements_before, ir.Assign(expression.place, inserted, expression))
                expression = inserted
            converted = self.convert(expression, base.type.element)
            self.emit(ir.Store(self.place(target), base.name, indices, converted))
        else:
            raise self.refuse(target, "assignment goes to names, tuples of names and array elements")

    def _bind(self, node: ast.AST, name: str, value: Value) -> None:
        environment = self.bindings(node)
        if isinstance(value, TupleValue):
            environment[name] = TupleBinding(len(value.items))
            overlaps = self._reads(value, {f"{name}.{i}" for i in range(len(value.items))})
            items = self._settled(value) if overlaps else value.items
            for i, item in enumerate(items):
                self._bind(node, f"{name}.{i}", item)
        elif isinstance(value, (ArrayValue, StaticValue)):
            environment[name] = value
        else:
            environment[name] = ScalarBinding(value.type)
            self.emit(ir.Assign(self.place(node), ir.Local(self.place(node), value.type, name), value))

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        if not isinstance(value, TupleValue) or len(value.items) != len(target.elts):
            raise self.refuse(target, f"{len(target.elts)} names need a tuple of {len(target.elts)} items")
        if self._reads(value, target_names(target.elts)) or not all(
            isinstance(t, ast.Name) for t in target.elts
        ):
            value = TupleValue(self._settled(value))
        for element, item in zip(target.elts, value.items, strict=True):
            self.assign(element, item)

    def _settled(self, value: TupleValue) -> tuple[Value, ...]:
        return tuple(self._settle(item) for item in value.items)

    def _reads(self, value: TupleValue, names: set[str]) -> bool:
        from mxgemm.lang.walk import expressions

        return any(
            isinstance(part, ir.Local) and part.name in names
            for item in value.items
            if not isinstance(item, (ArrayValue, StaticValue, TupleValue))
            for part in expressions(item)
        )

    def _statement_If(self, node: ast.If) -> None:
        place = self.place(node)
        condition = self.truth(node.test, self.evaluate(node.test))
        if isinstance(condition, ir.Const):  # decided when the kernel is compiled, as Numba prunes
            self.block(node.body if condition.value else node.orelse)
            return
        then, then_environment = self._apart(node.body)
        otherwise, otherwise_environment = self._apart(node.orelse)
        merged = join(then_environment, otherwise_environment)
        if merged is not None:
            for statements, environment in ((then, then_environment), (otherwise, otherwise_environment)):
                if environment is not None:
                    statements.extend(conversions(place, environment, merged))
        self.emit(ir.If(place, condition, tuple(then), tuple(otherwise)))
        self.environment = merged

    def _statement_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.refuse(node, "while … else is not part of the dialect")
        place = self.place(node)

        def body() -> ir.For | ir.While:
            effects, value = self.aside(node.test)
            condition = self.truth(node.test, value)
            if not effects:
                self.block(node.body)
                return ir.While(place, condition, tuple(self.output))
            self.output.extend(effects)
            leave = ir.If(place, ir.Unary(place, boolean, "not", condition), (ir.Break(place),))
            self.output.append(leave)
            self.block(node.body)
            return ir.While(place, ir.Const(place, boolean, True), tuple(self.output))

        self._loop(node, body)

    def _statement_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self.refuse(node, "for … else is not part of the dialect")
        if not isinstance(node.target, ast.Name):
            raise self.refuse(node.target, "a loop variable is a name")
        name, place = node.target.id, self.place(node)
        start, stop, step = self._range(node)
        target = ir.Local(self.place(node.target), start.type, name)

        def body() -> ir.For | ir.While:
            self.bindings(node)[name] = ScalarBinding(start.type)
            self.block(node.body)
            return ir.For(place, target, start, stop, step, tuple(self.output))

        self._loop(node, body)

    def _range(self, node: ast.For) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
        call = node.iter
        callee = self.evaluate(call.func) if isinstance(call, ast.Call) else None
        if (
            not isinstance(call, ast.Call)
            or not isinstance(callee, StaticValue)
            or callee.object is not range
            or call.keywords
            or not 1 <= len(call.args) <= 3
        ):
            raise self.refuse(
                node.iter, "for loops run over range(stop), range(start, stop) or range(start, stop, step)"
            )
        values = [self.scalar(n, v) for n, v in zip(call.args, self.evaluate_all(call.args), strict=True)]
        for argument, value in zip(call.args, values, strict=True):
            if not value.type.is_integer:
                raise self.refuse(argument, f"range takes integers, not {value.type}")
        induction = range_type(tuple(value.type for value in values))
        place = self.place(call)
        values = [self.convert(value, induction) for value in values]
        one, zero = ir.Const(place, induction, 1), ir.Const(place, induction, 0)
        if len(values) == 3 and isinstance(values[2], ir.Const) and values[2].value == 0:
            raise self.refuse(call.args[2], "the step of range is not zero")
        start, stop = (zero, values[0]) if len(values) == 1 else (values[0], values[1])
        return start, stop, values[2] if len(values) == 3 else one

    def _loop(self, node: ast.stmt, body: Callable[[], ir.For | ir.While]) -> None:
        """Lower a loop until the types at its head and exit no longer change."""
        place = self.place(node)
        entry = dict(self.bindings(node))
        outer = self.output
        head, leave = dict(entry), dict(entry)
        for _ in range(32):
            loop = _Loop(head, leave)
            self.loops.append(loop)
            self.environment, self.output = dict(head), []
            statement = body()
            after = self._reached()
            self.loops.pop()
            new_head = join(head, after, *loop.continues) or head
            always = isinstance(statement, ir.While) and _is_true(statement.condition)
            new_leave = join(*([] if always else [new_head]), *loop.breaks)
            if new_head == head and (new_leave or {}) == (leave if new_leave is not None else {}):
                break
            head, leave = new_head, new_leave or {}
        self.output = outer
        self.output.extend(conversions(place, entry, head))
        self.output.append(_with_tail(statement, [] if after is None else conversions(place, after, head)))
        if new_leave is not None and not always:
            self.output.extend(conversions(place, head, new_leave))
        self.environment = new_leave

    def _statement_Break(self, node: ast.Break) -> None:
        loop, here = self.loops[-1], self.bindings(node)
        loop.breaks.append(dict(here))
        self.output.extend(conversions(self.place(node), here, loop.exit))
        self.emit(ir.Break(self.place(node)))
        self.environment = None

    def _statement_Continue(self, node: ast.Continue) -> None:
        loop, here = self.loops[-1], self.bindings(node)
        loop.continues.append(dict(here))
        self.output.extend(conversions(self.place(node), here, loop.head))
        self.emit(ir.Continue(self.place(node)))
        self.environment = None

    def _statement_Return(self, node: ast.Return) -> None:
        place = self.place(node)
        value = self.evaluate(node.value) if node.value is not None else StaticValue(None)
        if isinstance(value, StaticValue) and value.object is None:
            values: tuple[ir.Expr, ...] = ()
        elif self.is_kernel:
            raise self.refuse(node, "a kernel returns nothing; write the result to an array")
        else:
            items = value.items if isinstance(value, TupleValue) else (value,)
            values = tuple(self.scalar(node, item) for item in items)
            self.returns_tuple = isinstance(value, TupleValue)
        types = tuple(v.type for v in values)
        if self.returns and len(self.returns[0]) != len(types):
            raise self.refuse(node, "every return of a device function gives the same number of values")
        self.returns.append(types)
        if self.result is not None:
            values = tuple(self.convert(v, t) for v, t in zip(values, self.result, strict=True))
        self.emit(ir.Return(place, values))
        self.environment = None

    def unified_result(self) -> tuple[Scalar, ...]:
        """The types that every return statement's values unify to."""
        result = self.returns[0] if self.returns else ()
        for types in self.returns[1:]:
            result = tuple(unify(a, b) for a, b in zip(result, types, strict=True))
        return result

    def result_type(self) -> Scalar | TupleType | None:
        """The function's result type."""
        items = self.unified_result()
        if not items:
            return None
        return TupleType(items) if self.returns_tuple else items[0]


def _is_true(condition: ir.Expr) -> bool:
    return isinstance(condition, ir.Const) and bool(condition.value)


def _with_tail(statement: ir.For | ir.While, tail: list[ir.Statement]) -> ir.Statement:
    if not tail:
        return statement
    if isinstance(statement, ir.For):
        return ir.For(
            statement.place, statement.target, statement.start, statement.stop, statement.step,
            statement.body + tuple(tail),
        )  # fmt: skip
    return ir.While(statement.place, statement.condition, statement.body + tuple(tail))


def _statement_name(node: ast.stmt) -> str:
    names = {
        "With": "with", "Try": "try", "Raise": "raise", "Assert": "assert", "Delete": "del",
        "FunctionDef": "a nested function", "ClassDef": "a class", "Import": "import",
        "ImportFrom": "import", "Global": "global", "Nonlocal": "nonlocal", "Match": "match",
        "AsyncFor": "async for", "AsyncWith": "async with", "AsyncFunctionDef": "async def",
    }  # fmt: skip
    return names.get(type(node).__name__, type(node).__name__)
