"""The functions a kernel may call on scalars, as one table; each backend has its own definition.

``kind`` says how arguments are converted and what comes back:

- ``float``: one float type for all arguments (integers become float64), the same type back;
- ``float32``: as ``float``, with float16 computed and returned in float32;
- ``predicate``: as ``float32``, bool back;
- ``ldexp``: a float and an int32;
- ``fma``: float32 or float64, all arguments alike;
- ``integer``: one integer argument, its own type back (``ffs`` returns uint32);
- ``minmax``: the unified type of the arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

__all__ = ["FUNCTIONS", "MathFunction", "python_functions"]


@dataclass(frozen=True)
class MathFunction:
    """A row: ``exact`` results equal IEEE's on both backends; others are a math library's.

    ``ulp`` is the CUDA C++ programming guide's largest error of the (float32, float64) function.
    """

    name: str
    kind: str
    arity: int
    exact: bool
    ulp: tuple[int, int] = (0, 0)


def _rows(kind: str, arity: int, exact: bool, names: dict[str, tuple[int, int]]) -> list[MathFunction]:
    return [MathFunction(name, kind, arity, exact, ulp) for name, ulp in names.items()]


#: Largest errors in ulp as (float32, float64): CUDA C++ Programming Guide, "Mathematical Functions".
FUNCTIONS: Final[dict[str, MathFunction]] = {
    row.name: row
    for row in (
        *_rows("float", 1, True, dict.fromkeys(("sqrt", "fabs", "floor", "ceil", "trunc"), (0, 0))),
        *_rows("float", 1, False, {
            "exp": (2, 1), "log": (1, 1), "log2": (1, 1), "log10": (2, 1), "sin": (2, 2), "cos": (2, 2),
        }),
        *_rows("float32", 1, False, {
            "expm1": (1, 1), "log1p": (1, 1), "tan": (4, 2), "asin": (2, 2), "acos": (2, 2),
            "atan": (2, 2), "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "asinh": (3, 3),
            "acosh": (4, 3), "atanh": (3, 2), "erf": (2, 2), "erfc": (4, 5), "gamma": (5, 10),
            "lgamma": (6, 4), "exp2": (2, 1), "cbrt": (1, 1), "rsqrt": (2, 1),
        }),
        *_rows("float32", 1, True, dict.fromkeys(("rint", "radians", "degrees"), (0, 0))),
        *_rows("float32", 2, True, dict.fromkeys(("fmod", "copysign"), (0, 0))),
        *_rows("float32", 2, False, {"atan2": (3, 2), "hypot": (3, 2)}),
        *_rows("predicate", 1, True, dict.fromkeys(("isnan", "isinf", "isfinite"), (0, 0))),
        *_rows("ldexp", 2, True, {"ldexp": (0, 0)}),
        *_rows("fma", 3, True, {"fma": (0, 0)}),
        *_rows("integer", 1, True, dict.fromkeys(("popc", "clz", "ffs", "brev"), (0, 0))),
        *_rows("minmax", 2, True, dict.fromkeys(("min", "max"), (0, 0))),
    )
}  # fmt: skip

_NUMPY_NAMES: Final = {
    "absolute": "abs", "fabs": "fabs", "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1",
    "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos",
    "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite", "fmod": "fmod", "copysign": "copysign",
    "hypot": "hypot", "cbrt": "cbrt", "radians": "radians", "degrees": "degrees",
}  # fmt: skip


def python_functions() -> dict[Any, str]:
    """Return the Python callables that name a function of the table: of ``math``, NumPy, builtins."""
    table: dict[Any, str] = {}
    for name in FUNCTIONS:
        if hasattr(math, name) and name != "fma":
            table[getattr(math, name)] = name
    if hasattr(math, "fma"):
        table[math.fma] = "fma"
    table[math.pow] = "pow"
    for numpy_name, name in _NUMPY_NAMES.items():
        table[getattr(np, numpy_name)] = name
    table[min] = "min"
    table[max] = "max"
    table[abs] = "abs"
    table[round] = "round"
    return table
