"""run: the same Plan on the CPU model or on the GPU, from views to a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mxgemm import array
from mxgemm.array import ArrayView
from mxgemm.call import Call, HostOperands
from mxgemm.plan import Plan

__all__ = ["HostRun", "deliver_host", "run_host"]


class HostRun(NamedTuple):
    """A result on the host, in the caller's shape, with what happened to values on the way."""

    array: np.ndarray[Any, Any]
    flags: tuple[str, ...]

    @property
    def read_flags(self) -> Callable[[], tuple[str, ...]]:
        """The flags, as an Outcome asks for them."""
        return lambda: self.flags


def run_host(call: Call, plan: Plan, operands: HostOperands) -> HostRun:
    """Compute the plan on the CPU model; nothing of the caller's is written."""
    from mxgemm import units  # the models load with the first product that needs them

    found = units.run(
        plan.problem,
        plan.configuration,
        plan.capabilities.arch,
        operands.a,
        operands.b,
        operands.c,
        **operands.epilogue(),
    )
    return HostRun(found.array.reshape(call.result_shape), tuple(found.flags))


def deliver_host(result: np.ndarray[Any, Any], call: Call) -> Any:
    """Hand out a host result: into ``out``, or as a new array of A's library where A is."""
    target: ArrayView | None = call.out
    if target is None:
        if call.a.library == "numpy":
            return result
        return array.deliver(array.from_host(result, call.a))
    return array.deliver(array.write_from_host(result, target))
