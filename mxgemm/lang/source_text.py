"""The text of a function: from its file or notebook cell, from ``python -c``, or from a session's history."""

from __future__ import annotations

import inspect
import linecache
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType

__all__ = ["source_lines"]


def source_lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    """The lines of ``function``, decorators included, and the number of the first.

    Raises
    ------
    OSError
        When no text is known that compiles to this function.
    """
    try:
        return inspect.getsourcelines(function)
    except (OSError, TypeError):
        for text in _candidates(function.__code__.co_filename):
            found = _matching(text, function)
            if found is not None:
                return found
        raise OSError(f"no source of {function.__name__}") from None


def _candidates(filename: str) -> Iterator[list[str]]:
    """Texts that may hold a function that came from no file."""
    if filename == "<string>" and "-c" in sys.orig_argv:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1].splitlines(keepends=True)
    if filename == "<stdin>" and "readline" in sys.modules:
        readline = sys.modules["readline"]
        count = readline.get_current_history_length()
        yield [f"{readline.get_history_item(i) or ''}\n" for i in range(1, count + 1)]


def _matching(text: list[str], function: Callable[..., Any]) -> tuple[list[str], int] | None:
    """The last block of ``text`` that compiles to the function's own code."""
    for start in range(len(text) - 1, -1, -1):
        if not text[start].lstrip().startswith(f"def {function.__name__}("):
            continue
        lines = inspect.getblock(text[start:])
        if not _same_code(lines, function.__code__):
            continue
        above = start - 1
        while above >= 0 and text[above].lstrip().startswith("@"):
            lines.insert(0, text[above])
            above -= 1
        first = function.__code__.co_firstlineno
        _remember(function.__code__.co_filename, lines, first)
        return lines, first
    return None


def _same_code(lines: list[str], code: CodeType) -> bool:
    indentation = len(lines[0]) - len(lines[0].lstrip())
    try:
        module = compile("".join(line[indentation:] for line in lines), code.co_filename, "exec")
    except SyntaxError:
        return False
    made = [c for c in module.co_consts if hasattr(c, "co_code") and c.co_name == code.co_name]
    facts = ("co_consts", "co_names", "co_varnames", "co_argcount")
    return any(all(getattr(c, f) == getattr(code, f) for f in facts) for c in made)


def _remember(filename: str, lines: list[str], first: int) -> None:
    """Let messages show these lines; a name in angle brackets is no file, so none is hidden."""
    padded = ["\n"] * (first - 1) + lines
    linecache.cache[filename] = (len("".join(padded)), None, padded, filename)
