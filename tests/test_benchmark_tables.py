"""What the tables of speeds say of a record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import performance, tables
from mxgemm.report import Case, CopyTime, Measurement
from mxgemm.report.cases import Layout, Product
from mxgemm.report.timed import LARGE_COPY
from tests.report import records


def case(m: int, n: int, k: int, dtype: str = "float16", layout: Layout | None = None) -> Case:
    return Case(Product(dtype, dtype, "native", m, n, k), layout or Layout())


def measured(
    group: str, one: Case, ratio: float | None, mode: str = "burst", us: float = 10.0
) -> Measurement:
    peers = {} if ratio is None else {"torch": ratio * us}
    return Measurement(group, one, "entry", "0" * 64, "wgmma of today: A, B", mode, us, peers)


def text_of(*found: Measurement, copies: tuple[CopyTime, ...] = ()) -> str:
    return tables.as_markdown(replace(records.performance(), measurements=found, copies=copies))


SQUARE = case(256, 256, 256)
TURNED = replace(SQUARE, layout=Layout("column", "row"))


def test_all_aligned_counts_every_product_once_and_names_the_least() -> None:
    text = text_of(
        measured("table", SQUARE, 2.0),
        measured("table", case(257, 257, 257), 9.0),
        measured("table", case(64, 256, 256), 9.0),
        measured("table", SQUARE, 7.0, "sustained"),
        measured("transposed", SQUARE, 3.0),
        measured("transposed", TURNED, 0.5),
        measured("further", case(128, 512, 256), 1.0),
        measured("cupy", SQUARE, 5.0),
        measured("ladder: an idea", SQUARE, 6.0),
    )
    assert "| float16 native | table | burst | 1 | 2.000 | 2.00 | 256x256x256 row*row | 2.00 |" in text
    assert "| float16 native | table | sustained | 1 | 7.000 |" in text
    assert (
        "| float16 native | transposed | burst | 2 | 1.225 | 0.50 | 256x256x256 column*row | 3.00 |" in text
    )
    assert (
        "| float16 native | all aligned | burst | 3 | 1.000 | 0.50 | 256x256x256 column*row | 2.00 |" in text
    )
    assert "ladder" not in text.split("## Table")[0]


def test_the_ratio_is_to_torch_beside_other_peers() -> None:
    one = replace(measured("cupy", SQUARE, None), peers={"cupy": 30.0, "torch": 20.0})
    assert "| float16 native | cupy | burst | 1 | 2.000 |" in text_of(one)


ROW = case(1, 4096, 4096)
MOVED = 2 * (4096 + 4096 * 4096 + 4096)  # A, B and D once


@pytest.mark.parametrize(
    ("ratio", "share", "alike", "expected"),
    [
        (1.10, 0.5, 0.5, "ratio"),
        (1.09, 0.8, 0.9, "copy"),
        (1.09, 0.79, 0.8, "copy as large"),
        (1.09, 0.79, 0.79, "no"),
        (None, 0.79, 0.79, "no"),
        (None, 0.81, 0.9, "copy"),
    ],
)
def test_few_rows_are_held_against_the_library_and_both_copies(
    ratio: float | None, share: float, alike: float, expected: str
) -> None:
    us, slack = 10.0, 1 + 1e-9  # of the division
    large = CopyTime(LARGE_COPY, share * slack * us * LARGE_COPY / MOVED)
    text = text_of(measured("table", ROW, ratio, us=us), copies=(large, CopyTime(MOVED, alike * slack * us)))
    shown = "" if ratio is None else f"{ratio:.2f}"
    cells = f"{MOVED / 1e6:.1f} | 10.0 | {MOVED / 1e4:.0f} | {100 * share:.0f} % | {100 * alike:.0f} %"
    assert f"| float16 native | 1x4096x4096 | row*row | {cells} | {shown} | {expected} |" in text


def test_few_rows_are_those_of_bursts_and_of_no_other_part() -> None:
    copies = (CopyTime(LARGE_COPY, 500.0),)
    found = (
        measured("table", ROW, 1.0, "sustained"),
        measured("ladder: x", ROW, 1.0),
        measured("further", case(65, 64, 64), 1.0),
        measured("further", case(64, 64, 64), 1.0),
    )
    few = text_of(*found, copies=copies).split("## Few rows")[1].split("## ")[0]
    assert few.count("| float16 native |") == 1
    assert "| 64x64x64 |" in few
    assert f"| {LARGE_COPY / 1e6:.1f} | 500.0 | {LARGE_COPY / 5e5:.0f} |" in few


def test_a_record_without_copies_has_no_such_section() -> None:
    assert "Few rows" not in text_of(measured("table", ROW, 1.0))


def test_every_product_of_few_rows_has_a_copy_as_large() -> None:
    sizes = performance.copied("sm_90", quick=False)
    cases = [one for _, _, one in performance.timed_cases("sm_90", ("table", "further"), quick=False)]
    few = [one for one in cases if one.product.m <= 64]
    assert {(one.product.m, one.product.dtype_a) for one in few} >= {
        (m, dtype)
        for m in (1, 16, 64)
        for dtype in ("float16", "bfloat16", "float32", "int8", "float8_e4m3fn")
    }
    assert set(sizes) == {LARGE_COPY, *(one.product.nbytes for one in few)}
    assert len(sizes) == len(set(sizes))


def test_a_rung_shows_both_kernels_the_gain_and_both_ratios() -> None:
    one = replace(measured("ladder: an idea", SQUARE, None), peers={"without: 64x64": 12.0, "torch": 9.0})
    cells = "64x64 | 12.0 | wgmma of today | 10.0 | 1.20 | 0.75 | 0.90"
    assert f"| an idea | float16 native | 256x256x256 | row*row | {cells} |" in text_of(one)
    alone = replace(one, peers={"without: 64x64": 12.0})
    assert "| 10.0 | 1.20 |  |  |" in text_of(alone)
