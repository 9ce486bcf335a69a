"""gemm() under a Policy of the test's own: the process's grants cannot be withdrawn, so tests give none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import mxgemm as mx
from mxgemm.configs import rounding_precisions
from mxgemm.policy import Policy
from mxgemm.restrictions import Restrictions

# The package's attribute of this name is the function.
GEMM_MODULE = sys.modules["mxgemm.gemm"]


def policy_with(*grants: str, disabled: Iterable[str] = ()) -> Policy:
    """A Policy that accepted relaxed accumulation ("relaxed") and these operand roundings."""
    policy = Policy(Restrictions(frozenset(disabled)))
    for grant in grants:
        if grant == "relaxed":
            policy.accept_relaxed_accumulation(reason="why relaxed")
        else:
            policy.accept_operand_rounding(grant, reason=f"why {grant}")
    return policy


def generous() -> Policy:
    """A Policy with every grant that a row of the table can need."""
    return policy_with("relaxed", *rounding_precisions())


@contextmanager
def under(policy: Policy) -> Iterator[Policy]:
    """Run what is inside as if ``policy`` were the process's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GEMM_MODULE, "default_policy", lambda: policy)
        yield policy


def product(*operands: Any, **options: Any) -> Any:
    """``mx.gemm`` with every grant given; ``scalar`` unless a precision or a budget is asked for."""
    if "max_error" not in options:
        options.setdefault("precision", "scalar")
    with under(generous()):
        return mx.gemm(*operands, **options)


def outcome(*operands: Any, **options: Any) -> mx.GemmResult:
    """``mx.gemm_outcome`` as :func:`product` is ``mx.gemm``."""
    options.setdefault("precision", "scalar")
    with under(generous()):
        return mx.gemm_outcome(*operands, **options)


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in an interpreter of its own, with only these MXGEMM_ variables."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MXGEMM_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )
