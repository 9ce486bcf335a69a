"""The fake device that autotune measures on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mxgemm as mx
from mxgemm.kernels import remembered
from mxgemm.policy import Policy
from tests.autotune_fakes import TimedDriver, install, use
from tests.device.fake_cupy import FakeCupy


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TimedDriver]:
    """A fake device, a cache folder of its own, and a policy that has accepted relaxed accumulation."""
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="a test")
    policy.accept_operand_rounding("tf32", reason="a test")
    use(monkeypatch, policy)
    made = install(monkeypatch, str(tmp_path))
    cupy = FakeCupy()
    cupy.cuda.runtime.getDevice = lambda: 0
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    remembered.forget()
    yield made
    remembered.forget()
    mx.gemm.__globals__["_WARM"].forget()
