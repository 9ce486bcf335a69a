"""A Python function's source, syntax tree and outer names, from a file, a REPL or a notebook."""

from __future__ import annotations

import ast
import builtins
import linecache
import textwrap
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mxgemm.errors import KernelSyntaxError
from mxgemm.lang.source_text import source_lines

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

    @property
    def filename(self) -> str:
        """The file that holds it (``<stdin>`` or a notebook cell's name otherwise)."""
        return self.function.__code__.co_filename

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree, with the line numbers and columns of the file."""
        try:
            lines, first = source_lines(self.function)
        except OSError as error:
            raise KernelSyntaxError(
                f"the source of {self.name!r} cannot be read, so it cannot be compiled: kernels come from a "
                "file, a notebook cell, an interactive session, python -c, or text registered in linecache "
                f"(this one was defined in {self.filename!r})",
                self.filename,
                self.function.__code__.co_firstlineno,
                1,
                "",
            ) from error
        text = "".join(lines)
        indentation = len(lines[0]) - len(lines[0].lstrip())
        module = ast.parse(textwrap.dedent(text), self.filename)
        ast.increment_lineno(module, max(first, 1) - 1)
        definition = next((n for n in module.body if isinstance(n, ast.FunctionDef)), None)
        if definition is None:
            raise KernelSyntaxError(
                f"{self.name!r} is not a def statement; @cuda.jit takes functions written with def",
                self.filename,
                first,
                1,
                linecache.getline(self.filename, first),
            )
        for node in ast.walk(definition):
            if hasattr(node, "col_offset"):
                node.col_offset += indentation
        return definition

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(argument.arg for argument in self.tree.args.args)

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
