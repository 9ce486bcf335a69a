"""Outcome: what ran and why, and the result that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mxgemm.plan import Plan
from mxgemm.verify import Certificate

__all__ = ["GemmResult", "Outcome"]


def _no_flags() -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Outcome:
    """What ran.

    Attributes
    ----------
    plan : Plan
        What was decided, with its reasons.
    kernel_name : str
        "gemm", or the name of the kernel that was rewritten.
    """

    plan: Plan
    kernel_name: str = "gemm"
    read_flags: Callable[[], tuple[str, ...]] = field(default=_no_flags, repr=False, compare=False)

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """What happened to values: "operand-overflow", "fp8-overflow".

        Reading it on a GPU waits for the product; nothing else does.
        """
        return self.read_flags()

    @property
    def text(self) -> str:
        """The explain line."""
        return self.plan.decision(self.kernel_name).text

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class GemmResult:
    """An array with the outcome that produced it and, where asked for, its certificate."""

    array: Any
    outcome: Outcome
    certificate: Certificate | None = None
