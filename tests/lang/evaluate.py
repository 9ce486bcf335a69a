"""Kernels run thread by thread from their Python source: slow, plain, and independent of ``mxgemm.lang``.

A thread is a Python generator that yields at barriers; values carry their types; operators look their
result types up in a table that Numba itself printed (``data/numba_typing.json``).
"""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tests.lang import exact

TYPING = json.loads((Path(__file__).parent / "data" / "numba_typing.json").read_text())
NUMBER = {name: i for i, name in enumerate(TYPING["types"])}
OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
COMPARES = {
    ast.Lt: "__lt__",
    ast.LtE: "__le__",
    ast.Gt: "__gt__",
    ast.GtE: "__ge__",
    ast.Eq: "__eq__",
    ast.NotEq: "__ne__",
}

Typed = tuple[Any, str]  # a Python number and the name of its type


def result_type(operator: str, left: str, right: str) -> str | None:
    return TYPING["binary"][operator][NUMBER[left]][NUMBER[right]]


def unified(left: str, right: str) -> str:
    return left if left == right else TYPING["unify"][NUMBER[left]][NUMBER[right]]


def operate(operator: str, left: Typed, right: Typed) -> Typed:
    (a, ta), (b, tb) = left, right
    result = result_type(operator, ta, tb)
    assert result is not None
    if operator in ("lshift", "rshift"):
        return exact.integer_arithmetic(operator, result, exact.convert(a, ta, result), b), result
    if operator == "pow" and tb not in exact.FLOATS:
        base = exact.convert(a, ta, result)
        if result in exact.FLOATS:
            return exact.float_power(result, base, b), result
        return exact.integer_arithmetic("pow", result, base, b), result
    if operator == "truediv" and ta not in exact.FLOATS and tb not in exact.FLOATS:
        common = "float64"
    else:
        common = result
    x, y = exact.convert(a, ta, common), exact.convert(b, tb, common)
    if common in exact.FLOATS:
        return exact.float_arithmetic(operator, common, x, y), result
    return exact.integer_arithmetic(operator, common, x, y), result


class StopError(Exception):
    """A return, break or continue."""

    def __init__(self, kind: str, value: Any = None) -> None:
        super().__init__(kind)
        self.kind, self.value = kind, value


class Thread:
    """One thread of a kernel: its variables, and the arrays of its block and of the launch."""

    def __init__(self, arrays: dict[str, Any], shared: dict[str, Any], position: dict[str, int]) -> None:
        self.arrays, self.shared, self.position = arrays, shared, position
        self.variables: dict[str, Typed] = {}

    def run(self, body: list[ast.stmt]) -> Any:
        """Execute statements; yields once at every barrier."""
        for node in body:
            yield from getattr(self, f"do_{type(node).__name__}")(node)

    def do_Assign(self, node: ast.Assign) -> Any:
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "cuda.shared.array":
            return
        value = self.value(node.value)
        self.assign(node.targets[0], value)
        return
        yield

    def do_AugAssign(self, node: ast.AugAssign) -> Any:
        left = self.value(node.target)
        self.assign(node.target, operate(OPERATORS[type(node.op)], left, self.value(node.value)))
        return
        yield

    def do_Expr(self, node: ast.Expr) -> Any:
        if ast.unparse(node.value) == "cuda.syncthreads()":
            yield "barrier"

    def do_If(self, node: ast.If) -> Any:
        yield from self.run(node.body if self.value(node.test)[0] else node.orelse)

    def do_For(self, node: ast.For) -> Any:
        assert isinstance(node.iter, ast.Call)
        assert isinstance(node.target, ast.Name)
        bounds = [self.value(a) for a in node.iter.args]
        kind = "int64" if any(t == "int64" for _, t in bounds) else "int32"
        for i in range(*(v for v, _ in bounds)):
            self.variables[node.target.id] = (i, kind)
            try:
                yield from self.run(node.body)
            except StopError as stop:
                if stop.kind == "break":
                    break

    def do_While(self, node: ast.While) -> Any:
        while self.value(node.test)[0]:
            try:
                yield from self.run(node.body)
            except StopError as stop:
                if stop.kind == "break":
                    break

    def do_Break(self, _node: ast.Break) -> Any:
        raise StopError("break")
        yield

    def do_Continue(self, _node: ast.Continue) -> Any:
        raise StopError("continue")
        yield

    def assign(self, target: ast.expr, value: Typed) -> None:
        if isinstance(target, ast.Name):
            self.variables[target.id] = value
            return
        assert isinstance(target, ast.Subscript)
        assert isinstance(target.value, ast.Name)
        array = self.array(target.value.id)
        kind = array.dtype.name
        array[self.value(target.slice)[0]] = exact.convert(value[0], value[1], kind)

    def array(self, name: str) -> Any:
        return self.arrays[name] if name in self.arrays else self.shared[name]

    def value(self, node: ast.expr) -> Typed:
        return getattr(self, f"of_{type(node).__name__}")(node)

    def of_Constant(self, node: ast.Constant) -> Typed:
        kinds = {bool: "bool", int: "int64", float: "float64"}
        value = node.value
        return (int(value) if isinstance(value, bool) else value), kinds[type(value)]

    def of_Name(self, node: ast.Name) -> Typed:
        return self.variables[node.id]

    def of_Subscript(self, node: ast.Subscript) -> Typed:
        assert isinstance(node.value, ast.Name)
        array = self.array(node.value.id)
        raw = array[self.value(node.slice)[0]]
        kind = array.dtype.name
        return (float(raw) if kind in exact.FLOATS else int(raw)), kind

    def of_Attribute(self, node: ast.Attribute) -> Typed:
        return self.position[ast.unparse(node)], "int32"

    def of_BinOp(self, node: ast.BinOp) -> Typed:
        return operate(OPERATORS[type(node.op)], self.value(node.left), self.value(node.right))

    def of_UnaryOp(self, node: ast.UnaryOp) -> Typed:
        value, kind = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return int(not value), "bool"
        name = "neg" if isinstance(node.op, ast.USub) else "invert"
        result = TYPING["unary"][name][NUMBER[kind]]
        value = exact.convert(value, kind, result)
        if result in exact.FLOATS:
            return -value, result
        return exact.wrap(
            -value if name == "neg" else (1 - value if result == "bool" else ~value), result
        ), result

    def of_Compare(self, node: ast.Compare) -> Typed:
        left, right = self.value(node.left), self.value(node.comparators[0])
        common = TYPING["comparison"]["lt"][NUMBER[left[1]]][NUMBER[right[1]]]
        a, b = exact.convert(*left, common), exact.convert(*right, common)
        return int(getattr(a, COMPARES[type(node.ops[0])])(b)), "bool"

    def of_BoolOp(self, node: ast.BoolOp) -> Typed:
        for operand in node.values:
            value = self.value(operand)
            if bool(value[0]) is isinstance(node.op, ast.Or):
                break
        return value

    def of_IfExp(self, node: ast.IfExp) -> Typed:
        chosen, other = (node.body, node.orelse) if self.value(node.test)[0] else (node.orelse, node.body)
        value, kind = self.value(chosen)
        common = unified(kind, self.value(other)[1])
        return exact.convert(value, kind, common), common

    def of_Call(self, node: ast.Call) -> Typed:
        name = ast.unparse(node.func)
        arguments = [self.value(a) for a in node.args]
        if name == "cuda.grid":
            x = self.position["cuda.blockIdx.x"] * self.position["cuda.blockDim.x"]
            return x + self.position["cuda.threadIdx.x"], "int64"
        if name.startswith("cuda."):
            kind = name.removeprefix("cuda.").replace("boolean", "bool")
            return exact.convert(*arguments[0], kind), kind
        return function(name, arguments)


def function(name: str, arguments: list[Typed]) -> Typed:
    value, kind = arguments[0]
    if name in ("min", "max"):
        common = unified(kind, arguments[1][1])
        a, b = (exact.convert(*argument, common) for argument in arguments)
        if common in exact.FLOATS:
            return _extreme(name, a, b), common
        return (min(a, b) if name == "min" else max(a, b)), common
    if name == "abs":
        result = TYPING["unary"]["abs"][NUMBER[kind]]
        value = exact.convert(value, kind, result)
        return (abs(value) if result in exact.FLOATS else exact.wrap(abs(value), result)), result
    result = TYPING["math"][name.removeprefix("math.")][NUMBER[kind]]
    value = exact.convert(value, kind, result)
    if name == "math.sqrt":
        return (exact.to_float(math.sqrt(value), "float64", result) if value >= 0 else math.nan), result
    if name == "math.fabs":
        return abs(value), result
    whole = {"math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc}[name]
    return (math.copysign(float(whole(value)), value) if math.isfinite(value) else value), result


def _extreme(name: str, a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    if a == b:
        negative = a if math.copysign(1, a) < 0 else b
        positive = a if math.copysign(1, a) > 0 else b
        return negative if name == "min" else positive
    return min(a, b) if name == "min" else max(a, b)


def run(source: str, arrays: dict[str, Any], blocks: int, threads: int) -> None:
    """Run a kernel's source over one-dimensional blocks, barrier by barrier."""
    definition = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef))
    for block in range(blocks):
        shared = _shared(definition)
        running = []
        for thread in range(threads):
            position = {"cuda.threadIdx.x": thread, "cuda.blockIdx.x": block, "cuda.blockDim.x": threads}
            running.append(Thread(arrays, shared, position).run(definition.body))
        while running:
            running = [thread for thread in running if next(thread, None) is not None]


def _shared(definition: ast.FunctionDef) -> dict[str, Any]:
    shared = {}
    for node in ast.walk(definition):
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("cuda.shared.array"):
            assert isinstance(node.value, ast.Call)
            assert isinstance(node.targets[0], ast.Name)
            size = ast.literal_eval(node.value.args[0])
            import mxgemm.cuda as dialect

            dtype = getattr(dialect, ast.unparse(node.value.args[1]).removeprefix("cuda.")).dtype
            shared[node.targets[0].id] = np.zeros(size, dtype)
    return shared
