"""A fake device in place of the driver."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mxgemm.device import driver, kernel, launcher, memory, properties, streams
from tests.device.fakes import FakeDriver


def forget() -> None:
    """Drop everything that the device modules remember about the devices."""
    for cached in (
        properties._read, launcher._launcher, driver._count, streams.is_single_device, streams._question,
        memory._take, memory._free,
    ):  # fmt: skip
        cached.cache_clear()
    driver._primary.clear()
    memory._streams.clear()
    memory._pending = memory._Pending()
    kernel._kernels = kernel._Once()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Two fake devices: ``fake.driver`` records what is asked of them."""
    made = FakeDriver()
    monkeypatch.setattr(driver, "_driver", lambda: made)
    forget()
    yield SimpleNamespace(driver=made)
    forget()
