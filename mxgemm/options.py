"""The keyword arguments that ``gemm`` and its siblings share, as one typed dictionary."""

from __future__ import annotations

from typing import Any, TypedDict

from mxgemm.epilogue import Epilogue
from mxgemm.errors import one_of

__all__ = ["Options", "refuse_unknown"]


class Options(TypedDict, total=False):
    """Keywords of :func:`mxgemm.gemm`; each is described there."""

    alpha: Any
    beta: Any
    transpose_a: bool
    transpose_b: bool
    precision: str | None
    max_error: float | None
    out: Any
    out_dtype: Any
    epilogue: Epilogue | None
    verify: str | None
    device: str | None
    stream: Any
    workspace: Any


def refuse_unknown(options: Options) -> None:
    """Raise for a keyword that ``gemm`` does not take: a misspelt ``precision=`` must not be dropped.

    Raises
    ------
    TypeError
        As Python raises for an unexpected keyword; lists the known ones.
    """
    unknown = sorted(set(options).difference(Options.__annotations__))
    if unknown:
        raise TypeError(
            f"unexpected keyword argument {one_of([repr(name) for name in unknown])}; "
            f"known are {one_of(tuple(Options.__annotations__))}"
        )
