"""The generators of operands: each draws what its name says, in every element type, again and again."""

import numpy as np
import pytest

from mxgemm.configs import ELEMENT_TYPES
from mxgemm.units.formats import numpy_dtype
from tests.generators import FORMATS, GENERATORS, generate


def draw(name: str, dtype: str, shape: tuple[int, ...] = (60, 80), *, is_a: bool = True) -> np.ndarray:
    return generate(name, np.random.default_rng(3), shape, dtype, is_a=is_a)


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("name", GENERATORS)
def test_type_shape_and_repetition(name: str, dtype: str) -> None:
    for shape in ((0, 4), (1, 1), (2, 5, 7)):
        x = draw(name, dtype, shape)
        assert (x.dtype, x.shape) == (numpy_dtype(dtype), shape)
    assert draw(name, dtype).tobytes() == draw(name, dtype).tobytes()


@pytest.mark.parametrize("dtype", FORMATS)
def test_only_special_values_are_not_finite(dtype: str) -> None:
    for name in GENERATORS:
        finite = np.isfinite(draw(name, dtype).astype(np.float64))
        assert finite.all() == (name != "special"), name


@pytest.mark.parametrize("dtype", FORMATS)
def test_subnormal_operands_are_subnormal(dtype: str) -> None:
    x = np.abs(draw("subnormal", dtype).astype(np.float64))
    assert np.mean(x < 2.0 ** FORMATS[dtype].least) > 0.3


@pytest.mark.parametrize("dtype", FORMATS)
def test_products_cancel_along_k(dtype: str) -> None:
    a = draw("cancel", dtype, (1, 200)).astype(np.float64)
    b = draw("cancel", dtype, (200, 1), is_a=False).astype(np.float64)
    terms = a[0] * b[:, 0]
    pairs = terms[0::2] + terms[1::2]
    assert np.mean(pairs == 0) > 0.5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_sums_of_overflow_reach_the_accumulators_or_the_types_end(dtype: str) -> None:
    a = draw("overflow", dtype, (40, 40)).astype(np.float64)
    b = draw("overflow", dtype, (40, 40), is_a=False).astype(np.float64)
    largest = float(np.finfo(np.float32).max) if dtype != "float16" else 65504.0
    share = np.mean(np.abs(a @ b) > largest)
    assert share > 0.05


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tiny_products_are_tiny(dtype: str) -> None:
    a, b = (np.abs(draw("tiny", dtype, is_a=is_a).astype(np.float64)) for is_a in (True, False))
    assert np.median(a) * np.median(b) < 2.0 ** (FORMATS[dtype].least // 2)


def test_zeros_come_in_both_signs() -> None:
    x = draw("zeros", "float32")
    assert np.mean(x == 0) > 0.5
    assert {bool(sign) for sign in np.signbit(x[x == 0])} == {True, False}
