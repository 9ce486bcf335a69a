"""Operands of our own lie as the problem says, and leave the cache."""

from __future__ import annotations

import numpy as np
import pytest

from mxgemm.autotune_operands import MOST_SETS, Operands, Span, sets_of, span_of
from mxgemm.device import DriverError, driver
from mxgemm.problem import GemmProblem, Matrix, pose
from mxgemm.shapes import Operand
from tests.autotune_fakes import install


@pytest.mark.parametrize(
    ("x", "batch", "alignment", "expected"),
    [
        (Matrix("float16", 3, 5, 5, 1), (), 16, Span(30, 0)),
        (Matrix("float16", 3, 5, 8, 1), (), 16, Span(42, 0)),
        (Matrix("float16", 3, 5, 1, 3), (), 4, Span(34, 4)),
        (Matrix("float32", 4, 4, 4, -1), (), 16, Span(256 + 4 * 12 + 4, 256)),
        (Matrix("float64", 2, 200, 200, -1), (), 8, Span(1792 + 8 + 1600 + 8, 1792 + 8)),
        (Matrix("int8", 2, 2, 0, 1, (0, 7)), (5, 3), 1, Span(1 + 14 + 2, 1)),
    ],
)
def test_a_span_holds_every_element_and_aligns_the_first(
    x: Matrix, batch: tuple[int, ...], alignment: int, expected: Span
) -> None:
    assert span_of(x, batch, alignment) == expected


def test_small_products_have_many_sets_and_large_ones_two() -> None:
    assert sets_of({"a": Span(1, 0)}) == MOST_SETS
    assert sets_of({"a": Span(40 << 20, 0), "b": Span(1, 0)}) == 4
    assert sets_of({"a": Span(1 << 40, 0)}) == 2


def problem() -> GemmProblem:
    a, b = Operand("float16", (64, 32), (32, 1)), Operand("float16", (32, 48), (48, 1))
    return pose(a, b)[0]


def test_each_set_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    made = Operands(problem(), {"a": 8}, 0, 5)
    addresses = [pointer for one in made.pointers for pointer in one.values()]
    assert len(set(addresses)) == 3 * MOST_SETS
    assert all(one["a"] % 16 == 8 and one["b"] % 16 == 0 for one in made.pointers)


def test_fewer_sets_do_where_memory_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    on, left = install(monkeypatch), iter(range(7))
    real = driver.call

    def limited(function: str, *arguments: object) -> object:
        if function == "cuMemAllocAsync" and next(left, None) is None:
            raise DriverError(function, "CUDA_ERROR_OUT_OF_MEMORY")
        return real(function, *arguments)

    monkeypatch.setattr(driver, "call", limited)
    assert len(Operands(problem(), {}, 0, 5).pointers) == 2
    with pytest.raises(DriverError, match="free device memory"):
        Operands(problem(), {}, 0, 5)
    assert on.ran == []


@pytest.mark.gpu
def test_on_a_device_values_are_random_and_d_is_poisoned() -> None:
    from mxgemm import device
    from mxgemm.device import timing

    with timing.own_stream(0) as stream:
        made = Operands(problem(), {}, 0, stream)
        a = device.copy_to_host(made.pointers[1]["a"], 64 * 32 * 2, 0, stream).view(np.float16)
        assert np.isfinite(a).all()
        assert 0.8 < np.std(a.astype(float)) < 1.2
        made.poison_d()
        assert np.isnan(made.sample_of_d()).all()
        made.done()
