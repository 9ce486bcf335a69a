"""Call: what the caller passed, as one value on the road from arrays to a problem.

Arrays of any library become views, the place where the product runs is decided, and
the problem is posed.  Nothing is computed and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mxgemm import array, device
from mxgemm.array import ArrayView
from mxgemm.capabilities import Capabilities, cpu_model
from mxgemm.configs import ELEMENT_TYPES
from mxgemm.epilogue import Epilogue
from mxgemm.errors import DTypeError, UnsupportedError, one_of
from mxgemm.problem import GemmProblem, pose

__all__ = ["Call", "HostOperands", "host_operands", "read_call"]

_DEVICES = "supported are 'cuda', 'cuda:<number>', 'cpu' and 'cpu:<arch>'"


class Call(NamedTuple):
    """One product as the caller asked for it.

    Attributes
    ----------
    problem : GemmProblem
    result_shape : tuple of int
        D's shape as ``numpy.matmul`` gives it; 1-d operands drop axes.
    capabilities : Capabilities
        Where it runs.
    a, b, c, out, bias, scale_rows, scale_cols : ArrayView or None
    transpose_a, transpose_b : bool
    """

    problem: GemmProblem
    result_shape: tuple[int, ...]
    capabilities: Capabilities
    a: ArrayView
    b: ArrayView
    c: ArrayView | None
    out: ArrayView | None
    bias: ArrayView | None
    scale_rows: ArrayView | None
    scale_cols: ArrayView | None
    transpose_a: bool
    transpose_b: bool

    def inputs(self) -> Iterator[tuple[str, ArrayView]]:
        """Every array that is read, with its name."""
        for name in ("a", "b", "c", "bias", "scale_rows", "scale_cols"):
            found = getattr(self, name)
            if found is not None:
                yield name, found


def read_call(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: Any = None,
    out_dtype: Any = None,
    epilogue: Epilogue | None = None,
    device: str | None = None,
) -> Call:
    """Read the arguments of one product.

    Raises
    ------
    ShapeError, DTypeError, UnsupportedError
        As :func:`mxgemm.array.view`, :func:`mxgemm.problem.pose`; arrays in different
        places; a device that is not known; an epilogue that is not ``mx.epilogue``'s;
        a transposition that is no bool ("N" is true in Python).
    """
    if epilogue is not None and not isinstance(epilogue, Epilogue):
        raise UnsupportedError(
            f"epilogue={epilogue!r}: it must come from mxgemm.epilogue, for example relu()"
        )
    for name, flag in (("transpose_a", transpose_a), ("transpose_b", transpose_b)):
        if not isinstance(flag, bool | np.bool_):
            raise UnsupportedError(f"{name}={flag!r} is neither True nor False")
    left, right = array.view(a, "A"), array.view(b, "B")
    others = {
        "c": _optional(c, "C"),
        "bias": _optional(epilogue.bias if epilogue else None, "bias"),
        "scale_rows": _optional(epilogue.scale_rows if epilogue else None, "scale_rows"),
        "scale_cols": _optional(epilogue.scale_cols if epilogue else None, "scale_cols"),
    }
    target = None if out is None else _view(out, "out", writable=True)
    views = {"a": left, "b": right, **others}
    capabilities = _where(device, {**views, "out": target})
    read = [name for name, found in views.items() if found and target and array.overlap(target, found)]
    problem, shape = pose(
        left.operand,
        right.operand,
        d=target.operand if target else None,
        alpha=alpha,
        beta=beta,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        out_dtype=_dtype(out_dtype),
        epilogue=epilogue.spec if epilogue else None,
        overlaps=tuple(read),
        **{name: found.operand if found else None for name, found in others.items()},
    )
    return Call(
        problem, shape, capabilities, left, right, **others,
        out=target, transpose_a=transpose_a, transpose_b=transpose_b,
    )  # fmt: skip


def _view(x: Any, name: str, *, writable: bool = False) -> ArrayView:
    return x if isinstance(x, ArrayView) else array.view(x, name, writable=writable)


def _optional(x: Any, name: str) -> ArrayView | None:
    return None if x is None else _view(x, name)


def _dtype(out_dtype: Any) -> str | None:
    """An element type by name, from a string or any library's type object."""
    if out_dtype is None:
        return None
    name = out_dtype if isinstance(out_dtype, str) else str(out_dtype).removeprefix("torch.")
    if name not in ELEMENT_TYPES:
        try:
            name = str(np.dtype(out_dtype))
        except (TypeError, ValueError):
            name = str(out_dtype)
    if name not in ELEMENT_TYPES:
        raise DTypeError(f"out_dtype={out_dtype!r} is not supported; supported are {one_of(ELEMENT_TYPES)}")
    return name


def _where(wanted: Any, views: dict[str, ArrayView | None]) -> Capabilities:
    """The place that ``device=`` or the arrays decide.

    Raises
    ------
    UnsupportedError
        For arrays in different places, and for a device that is not known or not there.
    """
    places = {name: found.backend for name, found in views.items() if found is not None}
    distinct = sorted(set(places.values()))
    if len(distinct) > 1:
        listed = ", ".join(f"{name} on {place}" for name, place in places.items())
        raise UnsupportedError(
            f"arrays lie in different places ({listed}); move them to one of {one_of(distinct)}"
        )
    place = distinct[0]
    if wanted is None:
        return cpu_model() if place == "cpu" else device.capabilities(int(place.removeprefix("cuda:")))
    family = wanted.partition(":")[0] if isinstance(wanted, str) else ""
    if family == "cuda":
        return _gpu(wanted, place)
    if family == "cpu":
        return cpu_model(wanted)
    raise UnsupportedError(f"device={wanted!r} is not known; {_DEVICES}")


def _gpu(wanted: str, place: str) -> Capabilities:
    _, colon, number = wanted.partition(":")
    if colon and not number.isdecimal():
        raise UnsupportedError(f"device={wanted!r} is not known; {_DEVICES}")
    ordinal = int(number or (0 if place == "cpu" else place.removeprefix("cuda:")))
    if place not in ("cpu", f"cuda:{ordinal}"):
        raise UnsupportedError(f"device={wanted!r}, and the arrays are on {place}; move them there first")
    return device.capabilities(ordinal)


class HostOperands(NamedTuple):
    """NumPy arrays with op() and broadcasting applied: A (*batch, M, K), B (*batch, K, N), others like D."""

    a: np.ndarray[Any, Any]
    b: np.ndarray[Any, Any]
    c: np.ndarray[Any, Any] | None
    bias: np.ndarray[Any, Any] | None
    scale_rows: np.ndarray[Any, Any] | None
    scale_cols: np.ndarray[Any, Any] | None

    def epilogue(self) -> dict[str, np.ndarray[Any, Any] | None]:
        """The epilogue's arrays by name."""
        return {"bias": self.bias, "scale_rows": self.scale_rows, "scale_cols": self.scale_cols}


def host_operands(call: Call) -> HostOperands:
    """The operands on the host, as views where they are there already; device arrays are copied.

    B keeps no copy either: batches broadcast with strides of 0.
    """
    problem = call.problem
    full = (*problem.batch, problem.m, problem.n)
    dropped = (*((-1,) if call.b.ndim == 1 else ()), *((-2,) if call.a.ndim == 1 else ()))

    def like_result(view: ArrayView | None) -> np.ndarray[Any, Any] | None:
        """C and the bias broadcast to the caller's D, then get the axes that a 1-d A or B removed."""
        if view is None:
            return None
        found = np.broadcast_to(array.to_host(view), call.result_shape)
        for position in dropped:
            found = np.expand_dims(found, position)
        return found

    def factors(view: ArrayView | None, *, column: bool) -> np.ndarray[Any, Any] | None:
        if view is None:
            return None
        found = array.to_host(view)
        return np.broadcast_to(found[:, None] if column and found.ndim == 1 else found, full)

    left, right = array.to_host(call.a), array.to_host(call.b)
    left = left[None, :] if left.ndim == 1 else left.swapaxes(-1, -2) if call.transpose_a else left
    right = right[:, None] if right.ndim == 1 else right.swapaxes(-1, -2) if call.transpose_b else right
    return HostOperands(
        np.broadcast_to(left, (*problem.batch, problem.m, problem.k)),
        np.broadcast_to(right, (*problem.batch, problem.k, problem.n)),
        like_result(call.c),
        like_result(call.bias),
        factors(call.scale_rows, column=True),
        factors(call.scale_cols, column=False),
    )
