"""What names are bound to while a function is lowered, and how paths join."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mxgemm.lang import ir
from mxgemm.lang.promotion import unify
from mxgemm.lang.types import ArrayType, Scalar

if TYPE_CHECKING:
    from mxgemm.lang.place import Place

__all__ = [
    "ArrayValue",
    "Binding",
    "Conflict",
    "Environment",
    "ScalarBinding",
    "StaticValue",
    "TupleBinding",
    "TupleValue",
    "Value",
    "conversions",
    "join",
]


@dataclass(frozen=True)
class ArrayValue:
    """An array, by the name of its declaration, parameter or view."""

    name: str
    type: ArrayType


@dataclass(frozen=True)
class TupleValue:
    """A tuple of values, known item by item."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class StaticValue:
    """A Python object known when the kernel is compiled: a module, a type, a function, None."""

    object: Any


Value = ir.Expr | ArrayValue | TupleValue | StaticValue


@dataclass(frozen=True)
class ScalarBinding:
    """A scalar variable; its IR local is (name, type)."""

    type: Scalar


@dataclass(frozen=True)
class TupleBinding:
    """A tuple variable; item i is the variable ``name.i``."""

    size: int


@dataclass(frozen=True)
class Conflict:
    """A name bound to things of different kinds on joined paths; an error where it is read."""

    reason: str


Binding = ScalarBinding | TupleBinding | ArrayValue | StaticValue | Conflict
Environment = dict[str, Binding]


def join(*environments: Environment | None) -> Environment | None:
    """Return what holds after paths meet; None stands for a path that does not arrive."""
    arriving = [environment for environment in environments if environment is not None]
    if not arriving:
        return None
    joined = dict(arriving[0])
    for environment in arriving[1:]:
        for name, binding in environment.items():
            joined[name] = _join_binding(name, joined[name], binding) if name in joined else binding
    return joined


def _join_binding(name: str, left: Binding, right: Binding) -> Binding:
    if left == right:
        return left
    if isinstance(left, ScalarBinding) and isinstance(right, ScalarBinding):
        return ScalarBinding(unify(left.type, right.type))
    return Conflict(f"{name} is bound to different things on the paths that meet here")


def conversions(place: Place, source: Environment, target: Environment) -> list[ir.Statement]:
    """Return the assignments that bring variables from their types in ``source`` to ``target``'s."""
    statements: list[ir.Statement] = []
    for name, binding in target.items():
        before = source.get(name)
        if isinstance(binding, ScalarBinding) and isinstance(before, ScalarBinding) and before != binding:
            old = ir.Local(place, before.type, name)
            converted = ir.Convert(place, binding.type, old)
            statements.append(ir.Assign(place, ir.Local(place, binding.type, name), converted))
    return statements
