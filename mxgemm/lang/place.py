"""Source places: where a node of the IR comes from, and how an error shows it."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass

from mxgemm.errors import KernelSyntaxError

__all__ = ["Place", "refuse"]


@dataclass(frozen=True, slots=True)
class Place:
    """A line and column (both 1-based) of a kernel's source file."""

    filename: str
    line: int
    column: int = 1

    def __str__(self) -> str:
        return f"{self.filename}:{self.line}"

    @property
    def text(self) -> str:
        """The source line."""
        return linecache.getline(self.filename, self.line)

    @classmethod
    def of(cls, node: ast.AST, filename: str) -> Place:
        """Return the place of an AST node."""
        return cls(filename, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)

    def caret(self) -> str:
        """The source line with a caret under the column, for messages that are no syntax errors."""
        text = self.text.rstrip("\n")
        stripped = text.lstrip()
        shift = len(text) - len(stripped)
        return f"    {stripped}\n    {' ' * max(0, self.column - 1 - shift)}^"


def refuse(place: Place, message: str) -> KernelSyntaxError:
    """Return the error for source outside the dialect, with file, line and caret."""
    return KernelSyntaxError(message, place.filename, place.line, place.column, place.text)
