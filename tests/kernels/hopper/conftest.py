"""What GPU tests of the family choose from: one tile only, or arranging at any price."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
    """A function that makes one tile the only choice, in either orientation or in the one asked for."""

    def choose(rows: int, columns: int, cluster: int = 1, *, turned: bool | None = None) -> None:
        def cost(instance: Any, *_: Any) -> float:
            t = getattr(instance, "tile", None)
            if t is None or turned not in (None, instance.d_turned):
                return math.inf
            return 0.0 if (t.rows, t.columns, t.cluster) == (rows, columns, cluster) else 1.0

        first, *others = table.KERNELS
        family = first._replace(cost=cost, declines=lambda *_: None)
        monkeypatch.setattr(lowering, "KERNELS", (family, *others))

    return choose


@pytest.fixture
def oriented(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that leaves the choice of tile to the model, in one orientation."""

    def choose(turned: bool) -> None:
        first, *others = table.KERNELS

        def cost(instance: Any, *about: Any) -> float:
            fits = getattr(instance, "d_turned", None) == turned
            return first.cost(instance, *about) if fits else math.inf

        family = first._replace(cost=cost, declines=lambda *_: None)
        monkeypatch.setattr(lowering, "KERNELS", (family, *others))

    return choose


@pytest.fixture
def insist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The family arranges operands even where another one would be faster."""
    first, *others = table.KERNELS
    monkeypatch.setattr(lowering, "KERNELS", (first._replace(declines=lambda *_: None), *others))
