"""A Python function's source, syntax tree and outer names, from a file, a REPL or a notebook."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mxgemm.errors import KernelSyntaxError
from mxgemm.lang.source_text import SourceText, source_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KernelSource"]


@dataclass(frozen=True)
class KernelSource:
    """A function under ``@cuda.jit`` and what can be read off it."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @cached_property
    def text(self) -> SourceText:
        """The function's lines, or an error that says where kernels come from."""
        try:
            return source_text(self.function)
        except OSError as error:
            code = self.function.__code__
            raise KernelSyntaxError(
                f"the source of {self.name!r} cannot be read, so it cannot be compiled: kernels come from a "
                "file, a notebook cell, an interactive session, python -c, or text registered in linecache "
                f"(this one was defined in {code.co_filename!r})",
                code.co_filename,
                code.co_firstlineno,
                1,
                "",
            ) from error

    @property
    def filename(self) -> str:
        """The file that holds it; a name in angle brackets for sessions and notebook cells."""
        return self.text.filename

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree, with the line numbers of the file, and columns counted in characters."""
        lines, first = self.text.lines, self.text.first
        indented = lines[0][:1].isspace()
        # A block around it keeps every line as it is: dedenting would change text that spans lines.
        module = ast.parse("".join(("if True:\n" if indented else "", *lines)), self.filename)
        ast.increment_lineno(module, first - 1 - indented)
        definition = next((n for n in ast.walk(module) if isinstance(n, ast.FunctionDef)), None)
        if definition is None:
            raise KernelSyntaxError(
                f"{self.name!r} is not a def statement; @cuda.jit takes functions written with def",
                self.filename,
                first,
                1,
                lines[0],
            )
        for node in ast.walk(definition):
            if isinstance(node, (ast.expr, ast.stmt)):
                before = lines[node.lineno - first].encode()[: node.col_offset]
                node.col_offset = len(before.decode())
        return definition

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(argument.arg for argument in self.tree.args.args)

    @property
    def defaults(self) -> dict[str, Any]:
        """The parameters' default values."""
        values = self.function.__defaults__ or ()
        return dict(zip(self.parameters[len(self.parameters) - len(values) :], values, strict=True))

    def outer(self, name: str) -> tuple[bool, Any]:
        """Return (found, object) for a name of the closure, the module or the builtins."""
        code = self.function.__code__
        closure = self.function.__closure__ or ()
        for free, cell in zip(code.co_freevars, closure, strict=True):
            if free == name:
                try:
                    return True, cell.cell_contents
                except ValueError:
                    return False, None
        if name in self.function.__globals__:
            return True, self.function.__globals__[name]
        if hasattr(builtins, name):
            return True, getattr(builtins, name)
        return False, None
