"""The text of a function: from its file or notebook cell, from ``python -c``, or from a session's history."""

from __future__ import annotations

import inspect
import itertools
import linecache
import sys
import textwrap
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SourceText", "source_text"]

#: File names that many texts share, so that a line number of one says nothing.
_SHARED: Final = ("<stdin>", "<string>")

_numbers = itertools.count()


@dataclass(frozen=True)
class SourceText:
    """The lines of a function, decorators included, the number of the first, and the name to show."""

    lines: tuple[str, ...]
    first: int
    filename: str


def source_text(function: Callable[..., Any]) -> SourceText:
    """The text of ``function``.

    Raises
    ------
    OSError
        When no text is known that compiles to this function.
    """
    code = function.__code__
    if code.co_filename not in _SHARED:
        try:
            lines, first = inspect.getsourcelines(function)
        except TypeError as error:
            raise OSError(str(error)) from error
        return SourceText(tuple(lines), max(first, 1), code.co_filename)
    for text in _candidates(code.co_filename):
        lines = _matching(text, function)
        if lines:
            return _remembered(lines, code)
    raise OSError(f"no source of {function.__name__}")


def _candidates(filename: str) -> Iterator[list[str]]:
    """Texts that may hold a function that came from no file."""
    yield linecache.getlines(filename)
    if filename == "<string>" and "-c" in sys.orig_argv:
        yield sys.orig_argv[sys.orig_argv.index("-c") + 1].splitlines(keepends=True)
    if filename == "<stdin>" and "readline" in sys.modules:
        readline = sys.modules["readline"]
        count = readline.get_current_history_length()
        yield [f"{readline.get_history_item(i) or ''}\n" for i in range(1, count + 1)]


def _matching(text: list[str], function: Callable[..., Any]) -> list[str]:
    """The last block of ``text`` that compiles to the function's own code, with its decorators."""
    for start in range(len(text) - 1, -1, -1):
        if not text[start].lstrip().startswith(f"def {function.__name__}("):
            continue
        lines = inspect.getblock(text[start:])
        if not _same_code(lines, function):
            continue
        above = start - 1
        while above >= 0 and text[above].lstrip().startswith("@"):
            lines.insert(0, text[above])
            above -= 1
        return lines
    return []


def _same_code(lines: list[str], function: Callable[..., Any]) -> bool:
    """Whether ``lines`` compile to the function's code, names of an enclosing function included."""
    code = function.__code__
    free = "".join(f" {name} = None\n" for name in code.co_freevars)
    block = f"def _():\n{free}{textwrap.indent(textwrap.dedent(''.join(lines)), ' ')}"
    modules = [n for n in code.co_names if isinstance(function.__globals__.get(n), ModuleType)]
    # Calls of an imported module's functions compile differently where the text has the import too.
    texts = [block, *(f"import {name}\n{block}" for name in (", ".join(modules),) if name)]
    return any(_facts(made) == _facts(code) for text in texts for made in _compiled(text, code))


def _compiled(text: str, code: CodeType) -> list[CodeType]:
    """The functions named as ``code`` is that stand in the one function of ``text``."""
    try:
        module = compile(text, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError:
        return []
    outer = next(c for c in module.co_consts if isinstance(c, CodeType))
    return [c for c in outer.co_consts if isinstance(c, CodeType) and c.co_name == code.co_name]


def _facts(code: CodeType) -> tuple[Any, ...]:
    """What makes code the same code wherever it stands."""
    # A constant's type is part of it: 1, 1.0 and True are equal.
    constants = [c.co_name if isinstance(c, CodeType) else (type(c), c) for c in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount


def _remembered(lines: list[str], code: CodeType) -> SourceText:
    """Let messages show these lines, under a name of their own: the shared one is taken by the next text."""
    filename = f"{code.co_filename[:-1]}-{next(_numbers)}>"
    padded = ["\n"] * (code.co_firstlineno - 1) + lines
    linecache.cache[filename] = (len("".join(padded)), None, padded, filename)
    return SourceText(tuple(lines), code.co_firstlineno, filename)
