"""Which forms of a product the family considers: as it stands, its transpose, and which one first."""

from __future__ import annotations

from typing import Any

import pytest

from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels.canonical import canonical, transpose
from mxgemm.kernels.hopper.orientation import orientations
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand
from tests.kernels.hopper.problems import matrix


def posed(
    m: int, n: int, k: int = 512, *, dtype: str = "float16", layouts: str = "kn", **more: Any
) -> GemmProblem:
    a = matrix(dtype, m, k, along_cols=layouts[0] == "k")
    b = matrix(dtype, k, n, along_cols=layouts[1] == "n")
    return pose(a, b, more.pop("c", None), **more)[0]


def transposed(p: GemmProblem) -> list[bool]:
    """Of each form, in order."""
    return [form.transposed for form in orientations(canonical(p))]


@pytest.mark.parametrize(
    ("m", "n", "first"),
    [(512, 4096, False), (4096, 512, False), (32, 4096, True), (4096, 32, False), (1, 4096, True)],
)  # fmt: skip
def test_few_rows_come_first_as_few_columns(m: int, n: int, first: bool) -> None:
    assert transposed(posed(m, n)) == [first, not first]


@pytest.mark.parametrize(
    ("layouts", "forms"), [("kk", [False, True]), ("kn", [True]), ("nk", [False]), ("nn", [False, True])]
)
def test_tf32_reads_an_operand_off_k_as_a(layouts: str, forms: list[bool]) -> None:
    assert transposed(posed(4096, 2048, dtype="float32", layouts=layouts)) == forms


@pytest.mark.parametrize(("m", "n", "forms"), [(4096, 8, [False, True]), (8, 4096, [True, False])])
def test_a_narrow_tf32_operand_may_be_arranged(m: int, n: int, forms: list[bool]) -> None:
    assert transposed(posed(m, n, dtype="float32", layouts="kn")) == forms


def test_the_forms_are_each_others_transpose() -> None:
    first, other = orientations(canonical(posed(300, 200, layouts="kk")))
    assert other.problem == transpose(first.problem)
    assert (first.caller_name("a"), other.caller_name("a")) == ("a", "b")


def test_two_scales_keep_their_order() -> None:
    spec = EpilogueSpec(has_scale_rows=True, has_scale_cols=True)
    vectors = {name: Operand("float32", (16,), (1,)) for name in ("scale_rows", "scale_cols")}
    assert transposed(posed(16, 16, epilogue=spec, **vectors)) == [False]


@pytest.mark.parametrize(
    ("d", "forms"),
    [
        (Operand("float16", (256, 512), (512, 1)), 2),
        (Operand("float16", (256, 512), (520, 1)), 2),
        (Operand("float16", (256, 512), (1, 256)), 2),
        (Operand("float32", (256, 512), (512, 1)), 2),
        (Operand("float16", (256, 512), (2048, 2)), 1),  # by element either way
        (Operand("float8_e4m3fn", (256, 512), (512, 1)), 1),  # bytes are stored by element along M
    ],
)
def test_a_result_that_one_orientation_stores_by_element_stays(d: Operand, forms: int) -> None:
    assert len(transposed(posed(256, 512, d=d))) == forms


@pytest.mark.parametrize(
    ("c", "beta", "forms"),
    [
        (Operand("float16", (256, 512), (520, 1)), 2.0, 2),
        (Operand("float32", (256, 512), (512, 1)), 2.0, 1),  # not what the copy engine can put in D's place
        (Operand("float16", (256, 512), (1, 256)), 2.0, 1),
        (Operand("float32", (256, 512), (512, 1)), 0, 2),
    ],
)
def test_a_c_that_is_read_by_element_stays(c: Operand, beta: float, forms: int) -> None:
    p = posed(256, 512, c=c, beta=beta, d=Operand("float16", (256, 512), (512, 1)))
    assert len(transposed(p)) == forms


def test_a_result_of_one_entry_has_no_contiguous_axis() -> None:
    assert len(transposed(posed(1, 1, d=Operand("float16", (1, 1), (1, 1))))) == 1
