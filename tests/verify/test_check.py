"""The checker at its boundary: 1.01 of the bound fails, 0.99 passes, and what is not a number is decided."""

from fractions import Fraction

import numpy as np
import pytest

from mxgemm import verify
from mxgemm.bounds.tiles import Subject
from mxgemm.errors import DTypeError, ShapeError
from mxgemm.verify.exact import entry
from tests.bounds.products import Product, normal, product, typed

BOUNDARY = [
    ("float16", "native", "float32"), ("bfloat16", "native", "float32"),
    ("float8_e4m3fn", "native", "float32"), ("float16", "scalar", "float32"),
    ("float32", "scalar", "float32"), ("float64", "native", "float64"), ("float64", "scalar", "float64"),
    ("float64", "i8crt8", "float64"), ("float64", "i8crt15", "float64"), ("float32", "f64", "float64"),
    ("float32", "tf32", "float32"), ("float32", "f16", "float32"), ("float32", "bf16", "float32"),
    ("float32", "f16x3", "float32"), ("float32", "bf16x3", "float32"), ("float32", "tf32x3", "float32"),
    ("float32", "bf16x6", "float32"), ("float32", "bf16x9", "float32"), ("float32", "i8crt7", "float32"),
]  # fmt: skip


def _exact(asked: Product, position: tuple[int, ...]) -> Fraction:
    given = asked
    subject = Subject(given.problem, given.configuration, given.arch, given.operands)
    found = entry(subject, position)
    assert isinstance(found, Fraction)
    return found


def _with_fault(asked: Product, result: np.ndarray, times: float) -> tuple[np.ndarray, tuple[int, int]]:
    """One entry moved to ``times`` the bound from its exact value; the one where that can be told best."""
    bound = asked.bound()
    where = np.unravel_index(np.argmin(np.abs(result.astype(float)) / bound), bound.shape)
    position = (int(where[0]), int(where[1]))
    exact, limit = _exact(asked, position), Fraction(float(bound[position]))
    faulty = result.copy()
    faulty[position] = result.dtype.type(float(exact + Fraction(times) * limit))
    moved = abs(Fraction(float(faulty[position])) - exact) / limit
    assert abs(moved - Fraction(times)) < Fraction(1, 200), (
        "the element type is too coarse to place the fault"
    )
    return faulty, position


@pytest.mark.parametrize(("source", "precision", "out"), BOUNDARY)
def test_a_fault_just_outside_fails_and_just_inside_passes(source: str, precision: str, out: str) -> None:
    a, b = normal((24, 96), source, 1), normal((96, 20), source, 2)
    asked = product(precision, a, b, out_dtype=out)
    result = asked.run()
    assert asked.check(result)
    inside, _ = _with_fault(asked, result, 0.99)
    assert asked.check(inside).passed
    outside, position = _with_fault(asked, result, 1.01)
    found = asked.check(outside)
    assert not found
    assert found.where == position
    assert found.ratio == pytest.approx(1.01, abs=0.005)
    assert dict(found.verdicts)["outside bound"] == 1


def test_a_distance_of_exactly_the_bound_is_settled_exactly() -> None:
    a, b = normal((6, 64), "float32", 1), normal((64, 6), "float32", 2)
    asked = product("f64", a, b, out_dtype="float64")
    result, bound = asked.run(), asked.bound()
    exact = _exact(asked, (2, 3))
    limit = Fraction(float(bound[2, 3]))
    at = np.float64(float(exact + limit))
    for value in (np.nextafter(at, np.inf), at, np.nextafter(at, -np.inf)):
        result[2, 3] = value
        assert asked.check(result).passed == (abs(Fraction(float(value)) - exact) <= limit)


@pytest.mark.parametrize("precision", ["scalar", "bf16x6", "f16", "f64", "i8crt9"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_never_passes_for_finite_operands(precision: str, wrong: float) -> None:
    asked = product(precision, normal((5, 9), "float32", 1), normal((9, 7), "float32", 2))
    result = asked.run()
    result[3, 2] = wrong
    found = asked.check(result)
    assert not found.passed
    assert found.ratio == np.inf
    assert found.where == (3, 2)


@pytest.mark.parametrize("precision", ["scalar", "bf16x3", "bf16x6", "tf32x3", "f16x3", "bf16", "i8crt8"])
def test_a_structural_zero_must_be_zero(precision: str) -> None:
    a, b = normal((6, 8), "float32", 1), normal((8, 6), "float32", 2)
    a[:, 4:] = 0
    b[:4, 3] = 0
    asked = product(precision, a, b)
    result = asked.run()
    assert asked.check(result).passed
    result[2, 3] = 1e-45
    assert not asked.check(result)


def test_an_operand_that_is_not_finite_decides_its_row() -> None:
    a, b = normal((4, 8), "float32", 1), np.abs(normal((8, 4), "float32", 2))
    a[1, 2], a[2, 3] = np.inf, np.nan
    asked = product("bf16x6", a, b)
    result = asked.run()
    found = asked.check(result)
    assert found.passed
    assert dict(found.verdicts)["decided by NaN or Inf"] == 8
    for row, wrong in ((1, np.nan), (1, -np.inf), (1, 1.0), (2, np.inf), (2, 0.0)):
        faulty = result.copy()
        faulty[row, 0] = wrong
        assert not asked.check(faulty), (row, wrong)


def test_an_operand_that_overflows_its_format_is_its_infinity_and_is_counted() -> None:
    a, b = normal((3, 8), "float32", 1), np.abs(normal((8, 3), "float32", 2))
    a[1, 4] = 7e4
    asked = product("f16", a, b)
    found = asked.check(asked.run())
    assert found.passed
    assert dict(found.verdicts)["operand overflow"] == 3
    assert not asked.check((a @ b).astype(np.float32))


def test_where_the_sum_may_overflow_any_value_passes_and_is_counted() -> None:
    a = typed([[2.0**100, -(2.0**100)], [1.0, 1.0]], "float32")
    b = typed([[2.0**28], [2.0**28]], "float32")
    asked = product("scalar", a, b)
    for value in (np.nan, np.inf, 0.0):
        found = asked.check(typed([[value], [2.0**29]], "float32"))
        assert found.passed
        assert dict(found.verdicts)["overflow possible"] == 1
    assert not asked.check(typed([[0.0], [np.inf]], "float32"))


def test_an_output_that_overflows_must_be_infinite() -> None:
    a, b = typed([[300.0, 300.0]], "float16"), typed([[300.0], [300.0]], "float16")
    asked = product("native", a, b)
    assert asked.check(typed([[np.inf]], "float16"))
    assert not asked.check(typed([[-np.inf]], "float16"))
    assert not asked.check(typed([[65504.0]], "float16"))
    assert not product("native", a / 4, b).check(typed([[np.inf]], "float16"))


def test_an_8_bit_output_saturates_and_keeps_nan() -> None:
    a, b = typed([[30.0, 30.0], [np.nan, 1.0]], "float8_e4m3fn"), typed([[30.0], [30.0]], "float8_e4m3fn")
    asked = product("native", a, b, out_dtype="float8_e4m3fn")
    assert asked.check(typed([[448.0], [np.nan]], "float8_e4m3fn"))
    assert not asked.check(typed([[416.0], [np.nan]], "float8_e4m3fn"))
    assert not asked.check(typed([[448.0], [448.0]], "float8_e4m3fn"))


def test_nan_in_c_is_read_only_with_beta() -> None:
    a, b = normal((3, 8), "float32", 1), normal((8, 3), "float32", 2)
    c = np.full((3, 3), np.nan, np.float32)
    unread = product("scalar", a, b, c, beta=0)
    assert unread.check(unread.run())
    assert not unread.check(c)
    assert product("scalar", a, b, c, beta=1).check(c)


def test_an_empty_result_passes() -> None:
    asked = product("scalar", normal((0, 8), "float32"), normal((8, 3), "float32"))
    found = asked.check(asked.run())
    assert found.passed
    assert (found.entries, found.where, found.ratio) == (0, None, 0.0)


@pytest.mark.parametrize(("alpha", "k"), [(0, 4), (1, 0)])
def test_without_a_product_only_c_remains(alpha: int, k: int) -> None:
    c = normal((3, 3), "float32", 3)
    asked = product("scalar", normal((3, k), "float32"), normal((k, 3), "float32"), c, alpha=alpha, beta=1)
    assert asked.check(c)
    assert not asked.check(np.nextafter(c, np.float32(9)))


def test_a_result_of_another_shape_or_type_is_refused_by_name() -> None:
    asked = product("scalar", normal((3, 4), "float32"), normal((4, 5), "float32"))
    with pytest.raises(ShapeError, match=r"\(5, 3\).*\(3, 5\)"):
        asked.check(np.zeros((5, 3), np.float32))
    with pytest.raises(DTypeError, match=r"float64.*float32"):
        asked.check(np.zeros((3, 5)))


def test_many_tiles_and_batches_report_the_right_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxgemm.bounds.tiles.OPERAND_ENTRIES", 64)
    monkeypatch.setattr("mxgemm.bounds.tiles.RESULT_ENTRIES", 12)
    asked = product("bf16x3", normal((2, 3, 7, 8), "float32", 1), normal((8, 9), "float32", 2))
    result = asked.run()
    assert asked.check(result).passed
    result[1, 2, 6, 4] += 1
    assert asked.check(result).where == (1, 2, 6, 4)


def test_a_certificate_says_what_was_verified_in_a_few_lines() -> None:
    asked = product("bf16x6", normal((3, 8), "float32", 1), normal((8, 3), "float32", 2))
    given = asked
    found = verify.full(given.run(), given.problem, given.configuration, given.arch, given.operands)
    assert found.passed
    assert (found.level, found.seed, found.entries) == ("full", None, 9)
    assert found.seconds > 0
    text = str(found)
    assert len(text.splitlines()) == 4
    assert all(part in text for part in ("passed", "level full", "9 within bound", found.bound))
    with pytest.raises(AttributeError):
        found.passed = False  # type: ignore[misc]
