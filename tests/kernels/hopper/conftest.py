"""What GPU tests of the family choose from: one tile only, or arranging at any price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mxgemm import gpu
from mxgemm.kernels import lowering, table


@pytest.fixture(autouse=True)
def forgotten_choices() -> Iterator[None]:
    """What was chosen before a test changes the rules, or under its rules, is chosen anew."""
    gpu._lowered.cache_clear()
    yield
    gpu._lowered.cache_clear()


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes one tile the only choice."""

    def choose(rows: int, columns: int, cluster: int = 1) -> None:
        def cost(instance: Any, *_: Any) -> float:
            t = getattr(instance, "tile", None)
            return 0.0 if t and (t.rows, t.columns, t.cluster) == (rows, columns, cluster) else 1.0

        first, *others = table.KERNELS
        family = replace(first, cost=cost, declines=lambda *_: None)
        monkeypatch.setattr(lowering, "KERNELS", (family, *others))

    return choose


@pytest.fixture
def insist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family arranges operands even where another one would be faster."""
    first, *others = table.KERNELS
    monkeypatch.setattr(lowering, "KERNELS", (replace(first, declines=lambda *_: None), *others))
