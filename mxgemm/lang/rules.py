"""The IR's rules as a table, checked after every pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mxgemm.errors import MxgemmError
from mxgemm.lang import ir
from mxgemm.lang.functions import FUNCTIONS
from mxgemm.lang.promotion import ARITHMETIC, BITWISE, COMPARISONS, SHIFTS
from mxgemm.lang.types import ArrayType, Scalar, boolean, int64, uint64
from mxgemm.lang.walk import nodes

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RULES", "BrokenRuleError", "Rule", "verify"]


class BrokenRuleError(MxgemmError, AssertionError):
    """A pass produced IR that breaks a rule: a fault of mxgemm, not of the kernel."""


@dataclass(frozen=True)
class Scope:
    """What a body may refer to."""

    arrays: dict[str, ArrayType]
    functions: dict[str, ir.Function]


@dataclass(frozen=True)
class Rule:
    """``holds(node, scope)`` for every node of ``kind``."""

    name: str
    kind: type | tuple[type, ...]
    holds: Callable[[Any, Scope], bool]


def _indexed(node: Any, scope: Scope) -> bool:
    array = scope.arrays.get(node.array)
    return (
        array is not None
        and len(node.indices) == array.ndim
        and all(i.type.is_integer for i in node.indices)
        and len(node.wraps) in (0, array.ndim)
    )


def _binary_types(node: ir.Binary, _scope: Scope) -> bool:
    if node.operator in ("pow", *SHIFTS):
        return node.left.type == node.type and (
            node.right.type in (int64, uint64) or node.right.type == node.type
        )
    return node.left.type == node.right.type == node.type


def _call_matches(node: ir.Call, scope: Scope) -> bool:
    function = scope.functions.get(node.function)
    if function is None or len(function.parameters) != len(node.arguments):
        return False
    return all(
        scope.arrays[a] == t if isinstance(a, str) else a.type == t
        for a, (_, t) in zip(node.arguments, function.parameters, strict=True)
    )


RULES: Final[tuple[Rule, ...]] = (
    Rule("every node has a place", object, lambda n, _: n.place.line >= 1),
    Rule("a literal fits its type", ir.Const, lambda n, _: _literal_fits(n)),
    Rule("a conversion changes the type", ir.Convert, lambda n, _: n.operand.type != n.type),
    Rule("operators are known", ir.Binary, lambda n, _: n.operator in (*ARITHMETIC, *BITWISE, *SHIFTS)),
    Rule("operands have the type computed in", ir.Binary, _binary_types),
    Rule(
        "true division is floating-point", ir.Binary, lambda n, _: n.operator != "truediv" or n.type.is_float
    ),
    Rule(
        "bit operations take integers",
        ir.Binary,
        lambda n, _: n.operator not in (*BITWISE, *SHIFTS) or n.type.is_integer,
    ),
    Rule("unary keeps its type", ir.Unary, lambda n, _: n.operand.type == n.type),
    Rule(
        "comparisons compare one type",
        ir.Compare,
        lambda n, _: n.left.type == n.right.type and n.operator in COMPARISONS,
    ),
    Rule("and/or join bools", ir.Logical, lambda n, _: n.left.type == n.right.type == boolean),
    Rule(
        "both arms of a choice have its type", ir.Select, lambda n, _: n.left.type == n.right.type == n.type
    ),
    Rule("conditions are bool", (ir.If, ir.While, ir.Select), lambda n, _: n.condition.type == boolean),
    Rule(
        "functions are in the table",
        ir.Math,
        lambda n, _: n.name in FUNCTIONS and len(n.arguments) == FUNCTIONS[n.name].arity,
    ),
    Rule("an assignment keeps the type", ir.Assign, lambda n, _: n.target.type == n.value.type),
    Rule("arrays are declared and indexed fully", (ir.Load, ir.Store, ir.Atomic), _indexed),
    Rule("a load has the element type", ir.Load, lambda n, s: n.type == s.arrays[n.array].element),
    Rule("a store has the element type", ir.Store, lambda n, s: n.value.type == s.arrays[n.array].element),
    Rule(
        "constants are not written", (ir.Store, ir.Atomic), lambda n, s: s.arrays[n.array].space != "constant"
    ),
    Rule(
        "an atomic has the element type",
        ir.Atomic,
        lambda n, s: all(v.type == s.arrays[n.array].element for v in n.values),
    ),
    Rule(
        "a loop's bounds have the induction type",
        ir.For,
        lambda n, _: n.start.type == n.stop.type == n.step.type == n.target.type,
    ),
    Rule(
        "a view fixes leading axes",
        ir.BindView,
        lambda n, s: n.base in s.arrays and len(n.indices) < s.arrays[n.base].ndim,
    ),
    Rule("a call matches its function", ir.Call, _call_matches),
    Rule(
        "extents are of arrays in scope",
        ir.Extent,
        lambda n, s: n.array in s.arrays and n.axis < s.arrays[n.array].ndim,
    ),
)


def verify(kernel: ir.Kernel, after: str) -> None:
    """Check every rule on every node.

    Raises
    ------
    BrokenRuleError
        Naming the pass, the rule, the node and its place.
    """
    functions = {function.name: function for function in kernel.functions}
    roots: tuple[ir.Kernel | ir.Function, ...] = (kernel, *kernel.functions)
    for root in roots:
        arrays = {name: t for name, t in root.parameters if isinstance(t, ArrayType)}
        arrays.update({declared.name: declared.type for declared in root.arrays})
        everything: list[Any] = [node for statement in root.body for node in nodes(statement)]
        arrays.update({node.name: node.type for node in everything if isinstance(node, ir.BindView)})
        scope = Scope(arrays, functions)
        for item in everything:
            for rule in RULES:
                if isinstance(item, rule.kind) and not rule.holds(item, scope):
                    raise BrokenRuleError(f"after {after}: {rule.name}: {item!r}")


def _literal_fits(node: ir.Const) -> bool:
    scalar: Scalar = node.type
    if scalar.is_float:
        return isinstance(node.value, float)
    if scalar.kind == "b":
        return isinstance(node.value, bool)
    if isinstance(node.value, (bool, float)):
        return False
    low = -(2 ** (scalar.bits - 1)) if scalar.kind == "i" else 0
    return bool(low <= node.value < low + 2**scalar.bits)
