"""The printed form of a kernel's IR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["show", "show_expression"]

_SYMBOLS: Final = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "neg": "-", "invert": "~", "not": "not ",
}  # fmt: skip


def show_expression(e: ir.Expr) -> str:
    """Print an expression; types appear where they change."""
    match e:
        case ir.Const():
            return f"{e.value!r}:{e.type}"
        case ir.Local():
            return f"{e.name}:{e.type}"
        case ir.Register():
            return e.name if e.name == "laneid" else f"{e.name}.{'xyz'[e.axis]}"
        case ir.Extent():
            return f"{e.array}.shape[{e.axis}]"
        case ir.Convert():
            return f"{e.type}({show_expression(e.operand)})"
        case ir.Unary():
            symbol = _SYMBOLS.get(e.operator)
            inner = show_expression(e.operand)
            return f"abs({inner})" if symbol is None else f"({symbol}{inner})"
        case ir.Binary() | ir.Compare():
            return f"({show_expression(e.left)} {_SYMBOLS[e.operator]} {show_expression(e.right)})"
        case ir.Logical():
            return f"({show_expression(e.left)} {e.operator} {show_expression(e.right)})"
        case ir.Select():
            left, condition, right = map(show_expression, (e.left, e.condition, e.right))
            return f"({left} if {condition} else {right})"
        case ir.Math():
            return f"{e.name}({', '.join(map(show_expression, e.arguments))})"
        case ir.Load():
            return _element(e.array, e.indices)


def _element(array: str, indices: Iterable[ir.Expr]) -> str:
    return f"{array}[{', '.join(map(show_expression, indices))}]"


def _statement(s: ir.Statement) -> list[str]:  # noqa: C901, PLR0912  # one case a node of the IR
    match s:
        case ir.Assign():
            return [f"{show_expression(s.target)} = {show_expression(s.value)}"]
        case ir.Store():
            return [f"{_element(s.array, s.indices)} = {show_expression(s.value)}"]
        case ir.Atomic():
            values = ", ".join(map(show_expression, s.values))
            target = "" if s.target is None else f"{show_expression(s.target)} = "
            return [f"{target}atomic.{s.operator}({_element(s.array, s.indices)}, {values})"]
        case ir.Collective():
            targets = ", ".join(map(show_expression, s.targets))
            return [f"{targets} = {s.operator}({', '.join(map(show_expression, s.arguments))})"]
        case ir.Barrier():
            arguments = ", ".join(show_expression(x) for x in (s.mask, s.predicate) if x is not None)
            target = "" if s.target is None else f"{show_expression(s.target)} = "
            return [f"{target}barrier.{s.scope}({arguments})"]
        case ir.Fence():
            return [f"fence.{s.scope}()"]
        case ir.BindView():
            return [f"{s.name} = view {_element(s.base, s.indices)}"]
        case ir.Call():
            arguments = ", ".join(a if isinstance(a, str) else show_expression(a) for a in s.arguments)
            targets = ", ".join(map(show_expression, s.targets))
            return [f"{targets + ' = ' if targets else ''}{s.function}({arguments})"]
        case ir.If():
            lines = [f"if {show_expression(s.condition)}:", *_block(s.then)]
            return lines + (["else:", *_block(s.otherwise)] if s.otherwise else [])
        case ir.For():
            bounds = ", ".join(map(show_expression, (s.start, s.stop, s.step)))
            return [f"for {show_expression(s.target)} in range({bounds}):", *_block(s.body)]
        case ir.While():
            return [f"while {show_expression(s.condition)}:", *_block(s.body)]
        case ir.Break():
            return ["break"]
        case ir.Continue():
            return ["continue"]
        case ir.Return():
            return [f"return {', '.join(map(show_expression, s.values))}".rstrip()]


def _block(body: tuple[ir.Statement, ...]) -> list[str]:
    lines = [line for s in body for line in _statement(s)]
    return [f"    {line}" for line in lines] or ["    pass"]


def _header(root: ir.Kernel | ir.Function, word: str, result: str) -> list[str]:
    parameters = ", ".join(f"{name}: {t}" for name, t in root.parameters)
    lines = [f"{word} {root.name}({parameters}){result}:"]
    lines += [f"    {declared.name}: {declared.type}" for declared in root.arrays]
    return lines + _block(root.body)


def show(kernel: ir.Kernel) -> str:
    """Print a kernel and its device functions."""
    lines: list[str] = []
    for function in kernel.functions:
        lines += _header(function, "function", f" -> {function.result}")
    return "\n".join(lines + _header(kernel, "kernel", "")) + "\n"
