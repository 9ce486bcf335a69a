"""gemm() with an epilogue, C, scalars and element types on fake device arrays: warmed, and told apart."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import epilogue
from mxgemm.epilogue import Epilogue
from mxgemm.errors import MxgemmError
from tests.device import test_warm_road
from tests.device.fake_cupy import ndarray
from tests.device.test_warm_road import Road, matrix, three

road = test_warm_road.road

ROWS, COLUMNS = (64, 1), (64,)
Make = Callable[[], dict[str, Any]]


def bias(shape: tuple[int, ...] = COLUMNS, number: int = 4, dtype: Any = np.float16) -> ndarray:
    return matrix(number, shape, dtype)


def factors(number: int, dtype: Any = np.float32) -> ndarray:
    return matrix(number, (64,), dtype)


KINDS: dict[str, Make] = {
    "bias": lambda: {"epilogue": epilogue.identity(bias=bias())},
    "relu": lambda: {"epilogue": epilogue.relu()},
    "bias and relu": lambda: {"epilogue": epilogue.relu(bias=bias())},
    "a bias a row": lambda: {"epilogue": epilogue.gelu(bias=bias(ROWS))},
    "a whole bias": lambda: {"epilogue": epilogue.silu(bias=bias((64, 64)))},
    "scales": lambda: {"epilogue": epilogue.identity(scale_rows=factors(5), scale_cols=factors(6))},
    "every array": lambda: {
        "epilogue": epilogue.gelu("tanh", bias=bias(), scale_rows=factors(5), scale_cols=factors(6))
    },
    "limits": lambda: {"epilogue": epilogue.clamp(-1, 2.5, bias=bias())},
    "C": lambda: {"c": matrix(7), "beta": 1},
    "C and bias": lambda: {"c": matrix(7), "beta": 0.5, "alpha": 2, "epilogue": epilogue.relu(bias=bias())},
    "NumPy's scalars": lambda: {"alpha": np.float32(0.5), "c": matrix(7), "beta": np.int64(2)},
    "an element type by name": lambda: {"out": matrix(3, dtype=np.float32), "out_dtype": "float32"},
    "an element type of NumPy": lambda: {"out": matrix(3, dtype=np.float32), "out_dtype": np.float32},
    "the device": lambda: {"device": "cuda"},
}


def call(road: Road, **options: Any) -> list[tuple[int, ...]]:
    a, b, d = three()
    return road.queued(a, b, options.pop("c", None), **{"out": d, "precision": "native", **options})


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_call_is_warmed_and_queues_what_the_ordinary_road_queues(road: Road, name: str) -> None:
    """Epilogues are made anew each time, as layers make them."""
    first, *others = [call(road, **KINDS[name]()) for _ in range(3)]
    assert others == [first] * 2
    assert road.planned == 1


@pytest.mark.parametrize("name", ["every array", "limits", "C and bias"])
def test_new_results_and_large_products_are_warmed_too(road: Road, name: str) -> None:
    for _ in range(2):
        mx.gemm(*three()[:2], KINDS[name]().get("c"), precision="native",
                **{key: one for key, one in KINDS[name]().items() if key != "c"})  # fmt: skip
    assert road.planned == 1


def test_all_kinds_at_the_same_addresses_are_told_apart(road: Road) -> None:
    first = {name: call(road, **make()) for name, make in KINDS.items()}
    assert road.planned == len(KINDS)
    again = {name: call(road, **make()) for name, make in KINDS.items()}
    assert again == first
    assert road.planned == len(KINDS)


CHANGES: dict[str, tuple[Make, Make]] = {
    "other memory of another alignment": (
        lambda: {"epilogue": epilogue.relu(bias=bias())},
        lambda: {"epilogue": epilogue.relu(bias=ndarray(np.empty(64, np.float16), (4 << 28) + 2))},
    ),
    "another type": (
        lambda: {"epilogue": epilogue.relu(bias=bias())},
        lambda: {"epilogue": epilogue.relu(bias=bias(dtype=np.float32))},
    ),
    "another shape": (
        lambda: {"epilogue": epilogue.relu(bias=bias())},
        lambda: {"epilogue": epilogue.relu(bias=bias(ROWS))},
    ),
    "other strides": (
        lambda: {"epilogue": epilogue.relu(bias=bias())},
        lambda: {"epilogue": epilogue.relu(bias=_strided(bias()))},
    ),
    "rows for columns": (
        lambda: {"epilogue": epilogue.relu(scale_rows=factors(5))},
        lambda: {"epilogue": epilogue.relu(scale_cols=factors(5))},
    ),
    "a scale for a bias": (
        lambda: {"epilogue": epilogue.relu(scale_cols=factors(5))},
        lambda: {"epilogue": epilogue.relu(bias=factors(5))},
    ),
    "another activation": (
        lambda: {"epilogue": epilogue.relu(bias=bias())},
        lambda: {"epilogue": epilogue.silu(bias=bias())},
    ),
    "another limit": (
        lambda: {"epilogue": epilogue.clamp(-1, 2)},
        lambda: {"epilogue": epilogue.clamp(-1, 3)},
    ),
    "a limit of -0.0": (
        lambda: {"epilogue": epilogue.clamp(0.0, 1.0)},
        lambda: {"epilogue": epilogue.clamp(-0.0, 1.0)},
    ),
    "no epilogue": (lambda: {"epilogue": epilogue.relu()}, dict),
}


def _strided(x: ndarray) -> ndarray:
    x.strides = (4,)
    return x


@pytest.mark.parametrize("name", CHANGES)
def test_what_an_epilogue_has_is_seen(road: Road, name: str) -> None:
    before, after = CHANGES[name]
    for make in (before, after, before, after):
        call(road, **make())
    assert road.planned == 2


def test_a_bias_elsewhere_needs_no_plan_and_is_read_there(road: Road) -> None:
    for number in (4, 5, 4, 6):
        (launched,) = call(road, epilogue=epilogue.relu(bias=bias(number=number)))
        assert number << 28 in launched
    assert road.planned == 1


def test_a_bias_on_another_device_or_of_a_wrong_shape_is_refused_warmed_or_not(road: Road) -> None:
    call(road, epilogue=epilogue.relu(bias=bias()))
    elsewhere = bias()
    elsewhere.data.device_id = elsewhere.device.id = 1
    for wrong in (elsewhere, bias((63,)), bias(dtype=np.int32)):
        with pytest.raises(MxgemmError):
            call(road, epilogue=epilogue.relu(bias=wrong))


@pytest.mark.parametrize("name", ["bias", "scale_rows", "scale_cols"])
def test_an_out_over_an_array_of_the_epilogue_takes_the_ordinary_road(road: Road, name: str) -> None:
    apart = epilogue.relu(**{name: factors(5)})
    inside = epilogue.relu(**{name: ndarray(np.empty(64, np.float32), (3 << 28) + 128)})
    plain = call(road, epilogue=apart)
    for _ in range(2):
        assert len(call(road, epilogue=inside)) > len(plain)
    assert call(road, epilogue=apart) == plain
    assert road.planned == 3


def test_no_array_of_an_epilogue_is_kept(road: Road) -> None:
    array = bias()
    kept = weakref.ref(array)
    for _ in range(2):
        call(road, epilogue=epilogue.relu(bias=array))
    del array
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize(
    "made",
    [
        "relu", SimpleNamespace(bias=None), Epilogue(["relu"]), Epilogue(np.array(["relu", "silu"])),  # type: ignore[arg-type]  # the point
        Epilogue("clamp", np.zeros(2), 1),  # type: ignore[arg-type]  # the point
    ],
)  # fmt: skip
def test_what_is_no_epilogue_is_left_to_the_ordinary_road(road: Road, made: Any) -> None:
    call(road, epilogue=epilogue.relu())
    with pytest.raises((MxgemmError, TypeError, ValueError)):
        call(road, epilogue=made)
    assert road.planned == 2


def test_limits_that_only_print_alike_are_told_apart(road: Road) -> None:
    class Number(float):
        def __repr__(self) -> str:
            return "a number"

    first, second = (call(road, epilogue=Epilogue("clamp", Number(0), Number(high))) for high in (1, 2))
    assert first != second


def test_an_integer_product_tells_limits_by_class(road: Road) -> None:
    a, b, d = matrix(1, dtype=np.int8), matrix(2, dtype=np.int8), matrix(3, dtype=np.int32)
    for _ in range(2):
        road.queued(a, b, out=d, epilogue=epilogue.clamp(0, 6))
    with pytest.raises(mx.DTypeError, match="integers"):
        mx.gemm(a, b, out=d, epilogue=epilogue.clamp(0, 6.0))
    with pytest.raises(mx.DTypeError, match="alpha"):
        mx.gemm(a, b, out=d, alpha=np.float64(1), epilogue=epilogue.clamp(0, 6))
    assert road.planned == 3
