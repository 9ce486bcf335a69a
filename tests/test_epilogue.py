"""``mx.epilogue`` makes values; what decides bits is hashable, the arrays are carried along."""

from collections.abc import Callable

import numpy as np
import pytest

from mxgemm import epilogue
from mxgemm.epilogue import Epilogue, EpilogueSpec
from mxgemm.errors import DTypeError, UnsupportedError


@pytest.mark.parametrize(
    ("made", "activation"),
    [
        (epilogue.identity(), "identity"),
        (epilogue.relu(), "relu"),
        (epilogue.clamp(-1, 2), "clamp"),
        (epilogue.gelu(), "gelu"),
        (epilogue.gelu("none"), "gelu"),
        (epilogue.gelu(approximate="tanh"), "gelu-tanh"),
        (epilogue.silu(), "silu"),
    ],
)
def test_an_activation_is_named(made: Epilogue, activation: str) -> None:
    assert made.spec.activation == activation
    assert made.spec.is_transcendental == (activation in ("gelu", "gelu-tanh", "silu"))


@pytest.mark.parametrize(
    "make",
    [
        epilogue.identity,
        epilogue.relu,
        epilogue.gelu,
        epilogue.silu,
        lambda **arrays: epilogue.clamp(0, 1, **arrays),
    ],
)
@pytest.mark.parametrize("name", ["bias", "scale_rows", "scale_cols"])
def test_each_takes_each_array_and_the_spec_says_which(make: Callable[..., Epilogue], name: str) -> None:
    array = np.ones(3, np.float32)
    made = make(**{name: array})
    assert getattr(made, name) is array
    assert {n: getattr(made.spec, f"has_{n}") for n in ("bias", "scale_rows", "scale_cols")} == {
        n: n == name for n in ("bias", "scale_rows", "scale_cols")
    }


def test_the_spec_is_a_hashable_value_without_arrays() -> None:
    one, two = (epilogue.clamp(0, 6, bias=np.full(3, fill)).spec for fill in (1.0, 2.0))
    assert one == two
    assert hash(one) == hash(two)
    assert one != epilogue.clamp(0, 5, bias=np.ones(3)).spec


@pytest.mark.parametrize(
    ("lo", "hi"), [(1, 0), (float("nan"), 1), (0, float("nan")), (float("inf"), float("-inf"))]
)
def test_clamp_refuses_bounds_that_are_no_range(lo: float, hi: float) -> None:
    with pytest.raises(UnsupportedError, match="lo <= hi"):
        epilogue.clamp(lo, hi)


@pytest.mark.parametrize("bound", ["6", None, 1j, np.ones(2)])
def test_clamp_refuses_bounds_that_are_no_numbers(bound: object) -> None:
    with pytest.raises(DTypeError, match="real bounds"):
        epilogue.clamp(0, bound)  # type: ignore[arg-type]  # the point of the test


def test_clamp_keeps_integers_integers() -> None:
    spec = epilogue.clamp(np.int8(-3), np.uint16(6)).spec
    assert (spec.lo, spec.hi) == (-3, 6)
    assert type(spec.lo) is type(spec.hi) is int
    assert type(epilogue.clamp(np.float32(0.5), 2).spec.lo) is float


def test_clamp_takes_equal_bounds_and_infinite_ones() -> None:
    assert epilogue.clamp(2, 2).spec.hi == 2
    assert epilogue.clamp(0.0, float("inf")).spec.hi == float("inf")


def test_gelu_refuses_another_approximation_with_the_known() -> None:
    with pytest.raises(UnsupportedError, match=r"'erf'.*'none' and 'tanh'"):
        epilogue.gelu("erf")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (EpilogueSpec(), "identity"),
        (EpilogueSpec("clamp", -1, 2, has_bias=True), "clamp(-1, 2)+bias"),
        (EpilogueSpec("relu", has_scale_rows=True, has_scale_cols=True), "relu+rows+cols"),
    ],
)
def test_a_spec_prints_itself(spec: EpilogueSpec, text: str) -> None:
    assert str(spec) == text


def test_an_epilogue_equals_itself_alone_whatever_its_arrays_are() -> None:
    bias = np.ones(3)
    one, two = epilogue.relu(bias=bias), epilogue.relu(bias=bias)
    assert one == one  # noqa: PLR0124  # the point
    assert not one != one  # noqa: PLR0124, SIM202
    assert one != two
    assert not one == two  # noqa: SIM201
    assert epilogue.relu(bias=bias) != epilogue.relu(bias=bias + 1)
    assert len({one, two}) == 2


def test_an_epilogue_does_not_change() -> None:
    made = epilogue.clamp(0, 1)
    for name in ("activation", "lo", "bias", "other"):
        with pytest.raises(AttributeError):
            setattr(made, name, None)
