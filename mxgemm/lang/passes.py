"""The passes from source to checked IR, in order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir
from mxgemm.lang.lower import lower
from mxgemm.lang.ranges import mark_wraps
from mxgemm.lang.rules import verify
from mxgemm.lang.walk import statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang.source import KernelSource
    from mxgemm.lang.types import Type

__all__ = ["PASSES", "build"]


def mark_written(kernel: ir.Kernel) -> ir.Kernel:
    """Record which array parameters the kernel may write, through views and device functions too."""
    written_of: dict[str, frozenset[int]] = {}
    for function in kernel.functions:
        names = _written(function, written_of)
        parameters = [name for name, _ in function.parameters]
        written_of[function.name] = frozenset(parameters.index(n) for n in names if n in parameters)
    own = {name for name, _ in kernel.parameters}
    return replace(kernel, written=frozenset(_written(kernel, written_of) & own))


def _written(root: ir.Kernel | ir.Function, written_of: dict[str, frozenset[int]]) -> set[str]:
    base: dict[str, str] = {}
    written: set[str] = set()
    for statement in statements(root.body):
        if isinstance(statement, ir.BindView):
            base[statement.name] = base.get(statement.base, statement.base)
        elif isinstance(statement, (ir.Store, ir.Atomic)):
            written.add(base.get(statement.array, statement.array))
        elif isinstance(statement, ir.Call):
            for position in written_of[statement.function]:
                name = str(statement.arguments[position])  # arrays are passed by name
                written.add(base.get(name, name))
    return written


#: Each takes a kernel and returns one; the rules are checked after every pass.
PASSES: Final[tuple[tuple[str, Callable[[ir.Kernel], ir.Kernel]], ...]] = (
    ("mark_wraps", mark_wraps),
    ("mark_written", mark_written),
)


def build(source: KernelSource, types: tuple[Type, ...]) -> ir.Kernel:
    """Lower a kernel for argument types and run the passes, checking the rules between them."""
    kernel = lower(source, types)
    verify(kernel, "lower")
    for name, run in PASSES:
        kernel = run(kernel)
        verify(kernel, name)
    return kernel
