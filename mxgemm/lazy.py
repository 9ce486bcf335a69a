"""Modules that load at first use, so that importing mxgemm, and the first product of a process, stay quick.

:func:`loader` is for packages, in the way of Scientific Python's SPEC 1: a module's ``__getattr__`` (PEP 562)
imports the home of a name when somebody asks for it, and type checkers read the ordinary imports.
:func:`deferred` is for tables of functions of which a process calls few.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["deferred", "loader"]


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``package``.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    homes : mapping of str to str
        Each public name and the module of the package that it lives in.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{home}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return load


def deferred(module: str, name: str) -> Callable[..., Any]:
    """A function that imports ``module`` at its first call and then is the function ``name`` of it."""
    found: list[Callable[..., Any]] = []

    def call(*arguments: Any) -> Any:
        if not found:
            found.append(getattr(import_module(module), name))
        return found[0](*arguments)

    return call
