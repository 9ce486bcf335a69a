"""gemm_grouped() is each product by itself, planned before the first one runs."""

from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from tests.policies import generous, policy_with, product, under
from tests.strategies import Array, same, values

F32 = np.float32


def grouped(products: Any, **options: Any) -> list[Any]:
    options.setdefault("precision", "scalar")
    with under(generous()):
        return mx.gemm_grouped(products, **options)


def pairs() -> list[tuple[Array, Array]]:
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((3, 5), (5, 4)),
        ((1, 33), (33, 7)),
        ((2, 3, 5), (5, 1)),
        ((4,), (4, 2)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
    ]
    return [(values("float32", a, i), values("float32", b, i + 50)) for i, (a, b) in enumerate(shapes)]


def test_products_of_any_shapes_are_those_of_gemm() -> None:
    for precision in ("scalar", "bf16x3"):
        found = grouped(pairs(), alpha=3, precision=precision)
        assert len(found) == len(pairs())
        for one, (a, b) in zip(found, pairs(), strict=True):
            assert same(one, product(a, b, alpha=3, precision=precision))


def test_element_types_may_differ() -> None:
    mixed = [(values(t, (3, 5), 1), values(t, (5, 2), 2)) for t in ("int8", "float64", "float16")]
    for one, (a, b) in zip(grouped(mixed), mixed, strict=True):
        assert same(one, product(a, b))


def test_each_product_may_have_its_own_c() -> None:
    (a, b), second = pairs()[0], pairs()[1]
    c = values("float32", (3, 4), 77)
    found = grouped([(a, b, c), second], alpha=2, beta=-3)
    assert same(found[0], product(a, b, c, alpha=2, beta=-3))
    assert same(found[1], product(*second, alpha=2, beta=-3))


def test_out_is_a_list_with_an_array_or_none_a_product() -> None:
    listed = pairs()[:3]
    outs = [np.empty((3, 4), F32), None, np.empty((2, 3, 1), F32)]
    found = grouped(listed, out=outs)
    assert found[0] is outs[0]
    assert found[2] is outs[2]
    for one, (a, b) in zip(found, listed, strict=True):
        assert same(one, product(a, b))


@pytest.mark.parametrize("out", [[np.empty((3, 4), F32)], [None] * 3, np.empty((2, 3, 4), F32), 3])
def test_an_out_that_is_no_list_of_the_same_length_is_refused(out: Any) -> None:
    with pytest.raises(mx.ShapeError, match=r"out= .* 2 products"):
        grouped(pairs()[:2], out=out)


@pytest.mark.parametrize("entry", [(np.ones((2, 2), F32),), (np.ones((2, 2), F32),) * 4, ()])
def test_a_product_has_two_or_three_arrays(entry: tuple[Array, ...]) -> None:
    with pytest.raises(mx.ShapeError, match=rf"\(a, b, c\); got {len(entry)}"):
        grouped([pairs()[0], entry])


def test_an_array_is_not_taken_for_the_tuple_of_its_rows() -> None:
    square = np.ones((2, 2), F32)
    with pytest.raises(mx.ShapeError, match="got ndarray"):
        grouped((square, square))


def test_any_iterable_of_products_will_do() -> None:
    assert grouped([]) == []
    found = grouped(pair for pair in pairs())
    assert same(found[1], product(*pairs()[1]))


def test_a_bad_product_is_named_and_costs_nothing() -> None:
    outs = [np.full((3, 4), 55, F32), np.full((1, 7), 55, F32)]
    good, (a, b) = pairs()[0], pairs()[1]
    with pytest.raises(mx.ShapeError) as caught:
        grouped([good, (a[:, 1:], b)], out=outs)
    assert caught.value.__notes__ == ["in product 1 of gemm_grouped"]
    assert (outs[0] == 55).all()


def test_every_product_is_reported() -> None:
    heard: list[mx.Decision] = []
    policy = policy_with()
    policy.set_reporter(heard.append)
    with under(policy):
        mx.gemm_grouped([(np.ones((2, 2), np.int8),) * 2, (np.ones((2, 2)),) * 2])
    assert [decision.lowering for decision in heard] == [
        "cpu model, sm_90, int8|uint8/exact",
        "cpu model, sm_90, float64/native",
    ]
