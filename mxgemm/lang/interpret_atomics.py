"""The interpreter's atomic operations: lane after lane, in lane order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["update"]

#: Operations whose result does not depend on the lanes' order and which NumPy applies in one call.
_BULK: Final[dict[str, Any]] = {
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def update(operator: str, flat: Any, elements: Any, values: Sequence[Any], wants_old: bool) -> Any:
    """Apply an atomic to ``flat`` at ``elements``; return the old values, or None when not wanted."""
    if not wants_old and operator in _BULK:
        _BULK[operator].at(flat, elements, values[0])
        return None
    if not wants_old and operator in ("max", "min") and flat.dtype.kind in "iu":
        (np.maximum if operator == "max" else np.minimum).at(flat, elements, values[0])
        return None
    old = np.empty(len(elements), flat.dtype)
    rule = _RULES[operator]
    for i, element in enumerate(elements):
        old[i] = flat[element]
        flat[element] = rule(flat[element], *(v[i] for v in values))
    return old


def _larger(old: Any, value: Any) -> Any:
    return max(old, value)


def _smaller(old: Any, value: Any) -> Any:
    return min(old, value)


def _nan_larger(old: Any, value: Any) -> Any:
    if math.isnan(value):
        return old
    return value if math.isnan(old) or old < value else old


def _nan_smaller(old: Any, value: Any) -> Any:
    if math.isnan(value):
        return old
    return value if math.isnan(old) or old > value else old


_RULES: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda old, v: old + v,
    "sub": lambda old, v: old - v,
    "and": lambda old, v: old & v,
    "or": lambda old, v: old | v,
    "xor": lambda old, v: old ^ v,
    "max": _larger,
    "min": _smaller,
    "nanmax": _nan_larger,
    "nanmin": _nan_smaller,
    "inc": lambda old, v: old.dtype.type(0) if old >= v else old + old.dtype.type(1),
    "dec": lambda old, v: v if old == 0 or old > v else old - old.dtype.type(1),
    "exch": lambda _old, v: v,
    "cas": lambda old, expected, v: v if old == expected else old,
}
