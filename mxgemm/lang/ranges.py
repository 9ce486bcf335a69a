"""Which indices may be negative: an interval analysis, so that the others need no wrap-around.

A Numba index counts from the end when negative.  An index whose interval lies at or above zero and
inside its type needs no test; the analysis is sound because an interval that leaves the type's range
becomes the whole range.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from mxgemm.lang import ir
from mxgemm.lang.types import Scalar
from mxgemm.lang.walk import map_expressions, nodes, statements

__all__ = ["mark_wraps"]

Interval = tuple[int, int]

#: CUDA's limits (Programming Guide, "Compute Capabilities"); extents are bounded by device memory.
_REGISTERS: Final[dict[str, Interval]] = {
    "threadIdx": (0, 1023),
    "blockIdx": (0, 2**31 - 2),
    "blockDim": (1, 1024),
    "gridDim": (1, 2**31 - 1),
    "laneid": (0, 31),
}
_EXTENT: Final[Interval] = (0, 2**47)


def mark_wraps(kernel: ir.Kernel) -> ir.Kernel:
    """Set ``wraps`` on every indexed access of the kernel and its device functions."""
    functions = tuple(replace(f, body=_mark(f.body)) for f in kernel.functions)
    return replace(kernel, body=_mark(kernel.body), functions=functions)


def _mark(body: tuple[ir.Statement, ...]) -> tuple[ir.Statement, ...]:
    variables = _variables(body)

    def change(node: Any) -> Any:
        if isinstance(node, (ir.Load, ir.Store, ir.Atomic, ir.BindView)):
            return replace(node, wraps=tuple(_interval(i, variables)[0] < 0 for i in node.indices))
        return node

    return tuple(map_expressions(statement, change) for statement in body)


def _variables(body: tuple[ir.Statement, ...]) -> dict[tuple[str, Scalar], Interval]:
    """Intervals of variables that are assigned from bounded expressions; two rounds see chains."""
    written: dict[tuple[str, Scalar], list[Any]] = {}
    for statement in statements(body):
        if isinstance(statement, ir.Assign):
            written.setdefault((statement.target.name, statement.target.type), []).append(statement.value)
        elif isinstance(statement, ir.For):
            written.setdefault((statement.target.name, statement.target.type), []).append(statement)
        elif isinstance(statement, (ir.Call, ir.Collective)):
            for target in statement.targets:
                written.setdefault((target.name, target.type), []).append(None)
        elif isinstance(statement, (ir.Atomic, ir.Barrier)) and statement.target is not None:
            written.setdefault((statement.target.name, statement.target.type), []).append(None)
    known: dict[tuple[str, Scalar], Interval] = {}
    order = list(written)
    for _ in range(len(order)):
        before = len(known)
        for key in order:
            if key not in known and all(_ready(v, known, written) for v in written[key]):
                parts = [_assigned(v, key[1], known) for v in written[key]]
                known[key] = (min(p[0] for p in parts), max(p[1] for p in parts))
        if len(known) == before:
            break
    return known


def _ready(
    value: Any, known: dict[tuple[str, Scalar], Interval], written: dict[tuple[str, Scalar], list[Any]]
) -> bool:
    """Every variable that an assigned value reads is known, or is a parameter."""
    if value is None:
        return True
    roots = (value.start, value.stop, value.step) if isinstance(value, ir.For) else (value,)
    reads = [n for root in roots for n in nodes(root) if isinstance(n, ir.Local)]
    return all((n.name, n.type) in known or (n.name, n.type) not in written for n in reads)


def _assigned(value: Any, scalar: Scalar, known: dict[tuple[str, Scalar], Interval]) -> Interval:
    if value is None or not scalar.is_integer:
        return _whole(scalar)
    if not isinstance(value, ir.For):
        return _interval(value, known)
    start, stop, step = (_interval(e, known) for e in (value.start, value.stop, value.step))
    if step[0] > 0:
        return start[0], max(start[0], stop[1] - 1)
    if step[1] < 0:
        return min(start[1], stop[0] + 1), start[1]
    return _whole(scalar)


def _whole(scalar: Scalar) -> Interval:
    if scalar.kind == "b":
        return 0, 1
    if scalar.kind == "u":
        return 0, 2**scalar.bits - 1
    return -(2 ** (scalar.bits - 1)), 2 ** (scalar.bits - 1) - 1


def _clip(interval: Interval, scalar: Scalar) -> Interval:
    low, high = _whole(scalar)
    return interval if low <= interval[0] and interval[1] <= high else (low, high)


def _interval(node: ir.Expr, known: dict[tuple[str, Scalar], Interval]) -> Interval:
    if not node.type.is_integer:
        return -(2**200), 2**200
    if isinstance(node, ir.Const):
        return int(node.value), int(node.value)
    if isinstance(node, ir.Register):
        return _REGISTERS[node.name]
    if isinstance(node, ir.Extent):
        return _EXTENT
    if isinstance(node, ir.Local):
        return known.get((node.name, node.type), _whole(node.type))
    if isinstance(node, ir.Convert) and node.operand.type.is_integer:
        return _clip(_interval(node.operand, known), node.type)
    if isinstance(node, ir.Select):
        left, right = _interval(node.left, known), _interval(node.right, known)
        return min(left[0], right[0]), max(left[1], right[1])
    if isinstance(node, ir.Math) and node.name in ("min", "max"):
        left, right = (_interval(a, known) for a in node.arguments)
        pick = min if node.name == "min" else max
        return pick(left[0], right[0]), pick(left[1], right[1])
    if isinstance(node, ir.Binary):
        return _clip(_binary(node, known), node.type)
    return _whole(node.type)


def _binary(node: ir.Binary, known: dict[tuple[str, Scalar], Interval]) -> Interval:
    (a, b), (c, d) = (_interval(e, known) for e in (node.left, node.right))
    if node.operator == "add":
        return a + c, b + d
    if node.operator == "sub":
        return a - d, b - c
    if node.operator == "mul":
        products = (a * c, a * d, b * c, b * d)
        return min(products), max(products)
    if node.operator == "mod" and c > 0:
        return 0, d - 1
    if node.operator == "floordiv" and c > 0:
        return min(a // c, a // d), max(b // c, b // d)
    if node.operator == "and" and (a >= 0 or c >= 0):
        return 0, min(x for x, low in ((b, a), (d, c)) if low >= 0)
    if node.operator == "rshift" and a >= 0:
        return 0, b
    if node.operator == "lshift" and a >= 0 and c >= 0 and d <= 62:
        return a << c, b << d
    return _whole(node.type)
