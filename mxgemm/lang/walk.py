"""Traversal and rebuilding of IR trees."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from mxgemm.lang import ir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["children", "expressions", "map_expressions", "nodes", "operands", "statements"]

_EXPRESSIONS = ir.Expr.__args__
_STATEMENTS = ir.Statement.__args__


def children(node: Any) -> Iterator[Any]:
    """Yield the IR nodes directly under ``node``."""
    for item in fields(node):
        value = getattr(node, item.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, (*_EXPRESSIONS, *_STATEMENTS)):
                yield part


def nodes(root: Any) -> Iterator[Any]:
    """Yield ``root`` and everything under it, parents first."""
    yield root
    for child in children(root):
        yield from nodes(child)


def expressions(root: ir.Expr) -> Iterator[ir.Expr]:
    """Yield an expression and its sub-expressions."""
    yield from nodes(root)


def statements(body: tuple[ir.Statement, ...]) -> Iterator[ir.Statement]:
    """Yield every statement of a body, nested ones included, in source order."""
    for statement in body:
        yield statement
        for name in ("then", "otherwise", "body"):
            yield from statements(getattr(statement, name, ()))


def operands(statement: ir.Statement) -> Iterator[ir.Expr]:
    """Yield the expressions that a statement itself evaluates (not those of nested statements)."""
    for child in children(statement):
        if isinstance(child, _EXPRESSIONS):
            yield child


def map_expressions(node: Any, change: Callable[[Any], Any]) -> Any:
    """Rebuild ``node`` with ``change`` applied to every expression and statement, leaves first."""
    if not isinstance(node, (*_EXPRESSIONS, *_STATEMENTS)):
        return node
    node = cast("Any", node)
    changed: dict[str, Any] = {}
    for item in fields(node):
        value = getattr(node, item.name)
        if isinstance(value, tuple):
            rebuilt: Any = tuple(map_expressions(part, change) for part in value)
        else:
            rebuilt = map_expressions(value, change)
        if rebuilt is not value and rebuilt != value:
            changed[item.name] = rebuilt
    return change(replace(node, **changed) if changed else node)
