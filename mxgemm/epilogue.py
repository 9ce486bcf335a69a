"""``mx.epilogue``: what happens between the product and the store, as values.

An :class:`Epilogue` holds the caller's arrays; its :attr:`~Epilogue.spec` is the part
that decides code and bits, hashable, and known to problems, plans and kernels.  The
sequence of roundings is fixed, the same in every kernel and on the CPU::

    U  = rnd(alpha·P)            or rnd(rnd(rnd(alpha·P)·rows)·cols)
    V  = rnd(beta·C)
    S  = rnd(U + V)
    S' = rnd(S + bias)
    D  = convert(activation(S'))

where a term that is absent is not added.
"""

from __future__ import annotations

import numbers
import operator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from mxgemm.errors import DTypeError, UnsupportedError

__all__ = ["Epilogue", "EpilogueSpec", "clamp", "gelu", "identity", "relu", "silu"]

Activation = Literal["identity", "relu", "clamp", "gelu", "gelu-tanh", "silu"]


@dataclass(frozen=True, slots=True)
class EpilogueSpec:
    """The part of an epilogue that decides bits.

    Attributes
    ----------
    activation : str
        "identity", "relu", "clamp", "gelu", "gelu-tanh" or "silu".
    lo, hi : float or int
        Bounds of "clamp"; unused otherwise.
    has_bias, has_scale_rows, has_scale_cols : bool
        Which arrays take part.
    """

    activation: Activation = "identity"
    lo: float | int = 0
    hi: float | int = 0
    has_bias: bool = False
    has_scale_rows: bool = False
    has_scale_cols: bool = False

    @property
    def is_transcendental(self) -> bool:
        """Whether a mathematical library computes part of it, so that bits may differ by its ulp bound."""
        return self.activation in ("gelu", "gelu-tanh", "silu")

    def __str__(self) -> str:
        name = f"clamp({self.lo}, {self.hi})" if self.activation == "clamp" else self.activation
        present = ((self.has_bias, "bias"), (self.has_scale_rows, "rows"), (self.has_scale_cols, "cols"))
        return "+".join([name, *(word for there, word in present if there)])


class _Fields(NamedTuple):
    activation: Activation = "identity"
    lo: float | int = 0
    hi: float | int = 0
    bias: Any = None
    scale_rows: Any = None
    scale_cols: Any = None


class Epilogue(_Fields):
    """An activation with the arrays that come before it.

    A tuple, which is made in a fifth of a frozen dataclass's time: programs make one at every call.
    Compared by identity, since arrays have no equality.

    Attributes
    ----------
    activation, lo, hi
        As in :class:`EpilogueSpec`.
    bias : array or None
        Broadcasts to D as in NumPy: (N,) is one value a column, (M, 1) one a row.
    scale_rows, scale_cols : array or None
        One factor a row, (M,) or (M, 1), and one a column, (N,) or (1, N).
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:  # a tuple has its own, which compares arrays
        return self is not other

    @property
    def spec(self) -> EpilogueSpec:
        """The hashable part, without the arrays."""
        return EpilogueSpec(
            self.activation, self.lo, self.hi,
            self.bias is not None, self.scale_rows is not None, self.scale_cols is not None,
        )  # fmt: skip


def identity(*, bias: Any = None, scale_rows: Any = None, scale_cols: Any = None) -> Epilogue:
    """No activation; only the arrays."""
    return Epilogue("identity", 0, 0, bias, scale_rows, scale_cols)


def relu(*, bias: Any = None, scale_rows: Any = None, scale_cols: Any = None) -> Epilogue:
    """Rectifier, max(x, 0), keeping NaN; relu(−0) = +0."""
    return Epilogue("relu", 0, 0, bias, scale_rows, scale_cols)


def clamp(
    lo: float, hi: float, *, bias: Any = None, scale_rows: Any = None, scale_cols: Any = None
) -> Epilogue:
    """Limit to lo … hi, min(max(x, lo), hi), keeping NaN; bounds are rounded to the accumulator's type.

    Raises
    ------
    DTypeError
        When a bound is no real number.
    UnsupportedError
        When a bound is NaN or lo > hi.
    """
    low, high = _bound(lo), _bound(hi)
    if not low <= high:
        raise UnsupportedError(f"clamp({lo}, {hi}): bounds must be numbers with lo <= hi")
    return Epilogue("clamp", low, high, bias, scale_rows, scale_cols)


def _bound(value: Any) -> float | int:
    """A bound of clamp as a Python int where it is an integer, else as a float."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    if not isinstance(value, numbers.Real):
        raise DTypeError(f"clamp takes real bounds; got {value!r}")
    return float(value)


def gelu(
    approximate: str = "none", *, bias: Any = None, scale_rows: Any = None, scale_cols: Any = None
) -> Epilogue:
    """Gaussian error linear unit, x·Φ(x), or its tanh form (Hendrycks & Gimpel, arXiv 1606.08415).

    Raises
    ------
    UnsupportedError
        For another ``approximate``.
    """
    if approximate not in ("none", "tanh"):
        raise UnsupportedError(f"gelu(approximate={approximate!r}): supported are 'none' and 'tanh'")
    activation: Activation = "gelu" if approximate == "none" else "gelu-tanh"
    return Epilogue(activation, 0, 0, bias, scale_rows, scale_cols)


def silu(*, bias: Any = None, scale_rows: Any = None, scale_cols: Any = None) -> Epilogue:
    """SiLU, x / (1 + exp(−x)), also known as swish."""
    return Epilogue("silu", 0, 0, bias, scale_rows, scale_cols)
