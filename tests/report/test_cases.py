"""Cases: what they pose is what gemm poses for arrays that lie so."""

from dataclasses import replace

import numpy as np
import pytest

from mxgemm.call import read_call
from mxgemm.errors import DTypeError, UnsupportedError
from mxgemm.report.cases import Case, Layout, Product, strides_of

PRODUCT = Product("float32", "float32", "tf32", 6, 10, 4)
LAYOUTS = (
    Layout(),
    Layout("column", "row"),
    Layout("row", "column", "column", padding=3, offset=1),
    Layout("steps", "reversed", "steps", padding=2),
)


def laid_out(case: Case, name: str) -> np.ndarray:
    """An array of NumPy's that lies as the case says."""
    dtype, shape = case.product.shapes[name]
    strides = case.operand(name).strides
    low = sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    memory = np.zeros(high - low + 1, dtype)
    return np.lib.stride_tricks.as_strided(memory[-low:], shape, tuple(s * memory.itemsize for s in strides))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_the_problem_is_the_one_of_such_arrays(layout: Layout, batch: tuple[int, ...]) -> None:
    case = Case(replace(PRODUCT, batch=batch, c_dtype="float32", alpha=2, beta=0.5), layout)
    arrays = {name: laid_out(case, name) for name in case.product.shapes}
    call = read_call(arrays["a"], arrays["b"], arrays["c"], out=arrays["d"], alpha=2, beta=0.5)
    assert case.problem == call.problem


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_two_elements_share_a_place(layout: Layout) -> None:
    strides = strides_of((2, 3, 4, 5), layout.a, layout.padding)
    places = {sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(2, 3, 4, 5)}
    assert len(places) == 2 * 3 * 4 * 5


def test_an_offset_of_one_element_decides_the_alignment() -> None:
    assert Case(PRODUCT, Layout(offset=1)).alignment == {"a": 4, "b": 4, "d": 4}
    assert Case(PRODUCT).alignment == {"a": 16, "b": 16, "d": 16}


def test_a_case_survives_json() -> None:
    product = replace(PRODUCT, batch=(2, 3), activation="silu", bias="rows", scale_cols=True, alpha=3)
    case = Case(product, Layout("column", "reversed", padding=1, offset=1, transposed=True))
    assert Case.from_json(case.as_json()) == case


def test_every_field_shows_in_the_words() -> None:
    product = replace(
        PRODUCT, batch=(2,), out_dtype="float64", alpha=2, beta=3, c_dtype="float32", activation="relu",
        bias="columns", scale_rows=True, scale_cols=True,
    )  # fmt: skip
    words = str(Case(product, Layout(padding=1, offset=2, transposed=True)))
    for word in ("tf32", "2x6x10x4", "float64", "2+3C", "relu", "bias columns", "rows", "cols", "offset 2"):
        assert word in words


def test_what_no_family_computes_is_refused() -> None:
    case = Case(Product("float32", "float32", "bf16x6", 8, 8, 8))
    with pytest.raises(UnsupportedError, match="bf16x6"):
        case.lowering("sm_75")


def test_a_type_that_the_configuration_does_not_give_is_refused() -> None:
    with pytest.raises(DTypeError, match="int8"):
        _ = Case(replace(PRODUCT, out_dtype="int8")).problem


def test_what_must_move_is_every_array_once() -> None:
    assert PRODUCT.nbytes == 4 * (6 * 4 + 4 * 10 + 6 * 10)
    both = replace(PRODUCT, batch=(3,), c_dtype="float32", bias="columns")
    assert both.nbytes == 4 * (3 * (6 * 4 + 4 * 10 + 2 * 6 * 10) + 10)
    assert Product("int8", "int8", "exact", 1, 32, 16).nbytes == 16 + 16 * 32 + 4 * 32
