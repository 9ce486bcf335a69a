"""Every launch hands its kernel exactly the parameters that the entry declares."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels import Launch
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand

POINTERS = {
    name: number << 20
    for number, name in enumerate(("a", "b", "c", "d", "bias", "scale_rows", "scale_cols"), 1)
}
ROWS = (
    ("float16", "native"), ("float32", "tf32"), ("float32", "f16"), ("int8", "exact"),
    ("float8_e4m3fn", "native"), ("float64", "native"), ("float32", "scalar"),
)  # fmt: skip
RESULTS = {"int8": "int32", "float8_e4m3fn": "float32"}
SHAPES = ((200, 272, 136), (4, 4, 4), (1, 260, 132), (520, 16, 200), (129, 257, 391), (256, 260, 20000))
LAYOUTS = tuple(itertools.product((True, False), repeat=2))


def matrix(dtype: str, shape: tuple[int, ...], along_cols: bool) -> Operand:
    *batch, rows, cols = shape
    inner = (cols, 1) if along_cols else (1, rows)
    return Operand(dtype, shape, (*(rows * cols for _ in batch), *inner))


def posed(
    dtype: str, shape: tuple[int, int, int], layouts: tuple[bool, bool], *, full: bool = False,
    batch: tuple[int, ...] = (), d_along_cols: bool = True,
) -> GemmProblem:  # fmt: skip
    """With ``full``: C, a bias of columns, scales where there are any, alpha, beta and a clamp."""
    m, n, k = shape
    result = RESULTS.get(dtype, dtype)
    options: dict[str, Any] = {}
    if full:
        scales = "int" not in dtype
        options = {
            "epilogue": EpilogueSpec("clamp", lo=-1, hi=1, has_bias=True, has_scale_rows=scales),
            "bias": Operand(result, (1, n), (n, 1)), "alpha": 2, "beta": 3,
        }  # fmt: skip
        if scales:
            options["scale_rows"] = Operand(result, (m,), (1,))
    return pose(
        matrix(dtype, (*batch, m, k), layouts[0]), matrix(dtype, (*batch, k, n), layouts[1]),
        matrix(result, (*batch, m, n), True) if full else None,
        d=matrix(result, (*batch, m, n), d_along_cols), out_dtype=result, **options,
    )[0]  # fmt: skip


def problems(dtype: str) -> Iterator[GemmProblem]:
    for shape, layouts in itertools.product(SHAPES, LAYOUTS):
        yield posed(dtype, shape, layouts)
        yield posed(dtype, shape, layouts, d_along_cols=False)
    for layouts in LAYOUTS:
        yield posed(dtype, SHAPES[0], layouts, full=True)
        yield posed(dtype, SHAPES[0], layouts, full=True, batch=(3,))


def declared(launch: Launch) -> list[str]:
    """C++ types of the entry's parameters."""
    found = re.search(rf"\b{launch.instance.entry}\(([^)]*)\)", launch.instance.generated())
    assert found is not None
    return [one.strip().rpartition(" ")[0] for one in found[1].split(",")]


def kind_of(cxx: str) -> type:
    return float if cxx == "double" else int


def faults(launch: Launch) -> list[str]:
    """Where a launch and its kernel's entry disagree: the driver would read past the end, or other values."""
    types, maps = declared(launch), len(launch.maps)
    if len(types) != maps + len(launch.arguments):
        return [f"{len(types)} parameters, {maps} maps and {len(launch.arguments)} arguments"]
    arguments = list(zip(types[maps:], launch.arguments, strict=True))
    return [
        *(f"map {i} is {t}" for i, t in enumerate(types[:maps]) if "TensorMap" not in t),
        *(f"{value} is {t}" for t, value in arguments if type(value) is not kind_of(t)),
        *(f"pointer {i} is {t}" for i, (t, _) in enumerate(arguments[: launch.pointers]) if "*" not in t),
    ]


@pytest.mark.parametrize(("dtype", "precision"), ROWS)
def test_a_launch_has_what_its_entry_declares(dtype: str, precision: str) -> None:
    row, seen, found = configuration(dtype, dtype, precision), set(), []
    for problem in problems(dtype):
        for one in kernels.candidates(problem, row, "sm_90"):
            for launch in one.lowering.launches(POINTERS, workspace=1 << 40, flags=8):
                kind = (launch.instance.entry, tuple(made.array for _, made in launch.maps))
                if kind not in seen:
                    found += [(launch.instance.entry, fault) for fault in faults(launch)]
                seen.add(kind)
    assert found == []
    assert seen


def test_a_missing_map_an_argument_too_many_and_a_wrong_type_are_faults() -> None:
    row = configuration("float32", "float32", "tf32")
    found = kernels.lower(posed("float32", (520, 16, 200), (True, False)), row, "sm_90")
    (launch,) = found.launches(POINTERS, flags=8)
    assert faults(launch) == []
    for field, wrong in (
        ("maps", launch.maps[:-1]), ("arguments", (*launch.arguments, 0)),
        ("arguments", tuple(map(float, launch.arguments))),
    ):  # fmt: skip
        assert faults(launch._replace(**{field: wrong}))  # type: ignore[arg-type]  # fields by name
