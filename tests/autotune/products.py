"""Operands, their candidates, and which of them is fastest."""

from __future__ import annotations

from typing import Any

import mxgemm as mx
from mxgemm import kernels
from tests.autotune_fakes import TimedDriver

A, B = (mx.ArraySpec((256, 512), "float16"), mx.ArraySpec((512, 384), "float16"))
ODD = mx.ArraySpec((255, 511), "float16")


def candidates(a: mx.ArraySpec = A, b: mx.ArraySpec = B, **options: Any) -> tuple[kernels.Candidate, ...]:
    plan = mx.prepare(a, b, **options)
    return kernels.candidates(plan.problem, plan.configuration, plan.capabilities.arch)


def model_of(a: mx.ArraySpec = A, b: mx.ArraySpec = B) -> str:
    return str(mx.prepare(a, b).kernel.entry)  # type: ignore[union-attr]  # a GPU's plan


def make_fastest(on: TimedDriver, entry: str) -> None:
    on.microseconds = lambda ran: 5.0 if ran == entry else 9.0


def other_than_the_model() -> str:
    """A candidate that the model does not choose."""
    return next(e for one in candidates() if (e := one.lowering.instance.entry) != model_of())
