"""A fake device in place of the driver and of cuda.core."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mxgemm.device import driver, kernel, launcher, memory, properties, streams
from tests.device.fakes import FakeCore, FakeDriver


def forget() -> None:
    """Drop everything that the device modules remember about the devices."""
    for cached in (properties._read, streams.wrapper, streams.raw, launcher._launcher):
        cached.cache_clear()
    driver._primary.clear()
    memory._streams.clear()
    memory._pending = memory._Pending()
    kernel._kernels = kernel._Once()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Two fake devices: ``fake.driver`` and ``fake.core`` record what is asked of them."""
    made = FakeDriver()
    core = FakeCore(made)
    monkeypatch.setattr(driver, "_driver", lambda: made)
    monkeypatch.setattr(driver, "core", lambda: core)
    forget()
    yield SimpleNamespace(driver=made, core=core)
    forget()
