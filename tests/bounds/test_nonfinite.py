"""Entries that NaN and Inf decide, against the scalar product written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm.bounds import nonfinite
from mxgemm.bounds.nonfinite import decided, rounded_class
from mxgemm.configs import configuration

VALUES = st.sampled_from((0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan))


def _written_out(row: np.ndarray, column: np.ndarray) -> float:
    """The rule of the scalar product: 0 stands for an entry that its finite part decides."""
    with np.errstate(invalid="ignore"):
        terms = [x * y for x, y in zip(row, column, strict=True)]
    infinite = {t for t in terms if np.isinf(t)}
    if any(np.isnan(t) for t in terms) or len(infinite) == 2:
        return np.nan
    return infinite.pop() if infinite else 0.0


@given(st.lists(VALUES, min_size=6, max_size=6), st.lists(VALUES, min_size=6, max_size=6), st.integers(1, 3))
def test_the_rule_is_the_scalar_products(left: list[float], right: list[float], depth: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nonfinite, "DEPTH", depth)
        _check_rule(left, right)


def _check_rule(left: list[float], right: list[float]) -> None:
    a, b = np.array(left).reshape(2, 3), np.array(right).reshape(3, 2)
    found = decided(a, b)
    for i in range(2):
        for j in range(2):
            np.testing.assert_equal(0.0 if found is None else found[i, j], _written_out(a[i], b[:, j]))


def test_rounding_makes_infinities_and_zeros_where_the_format_does() -> None:
    f16 = configuration("float32", "float32", "f16")
    x = np.array([65519.996, 65520.0, -1e5, 2.0**-25, 2.0**-25 * (1 + 2.0**-20), np.nan])
    np.testing.assert_array_equal(rounded_class(x, f16), [x[0], np.inf, -np.inf, 0, x[4], np.nan])
    tf32 = configuration("float32", "float32", "tf32")
    x = np.array([3 * 2.0**-138, 2.0**-137, 2.0**127 * (2 - 2.0**-11), 2.0**127 * (2 - 2.0**-10)])
    np.testing.assert_array_equal(rounded_class(x, tf32), [x[0], 0, np.inf, x[3]])


def test_a_split_is_decided_by_the_callers_operands() -> None:
    x = np.array([1e5, 2.0**-149])
    assert rounded_class(x, configuration("float32", "float32", "bf16x3")) is x
