"""The models give every bit that an NVIDIA H200 gave (tests/data/units_golden_sample.npz)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxgemm.configs import UnitArithmetic, unit_arithmetic
from mxgemm.units.formats import FORMATS, numpy_dtype, widen
from mxgemm.units.matrix_unit import accumulate, panel
from tests.units.data import DTYPES, same_bits

SAMPLE = np.load(Path(__file__).parents[1] / "data" / "units_golden_sample.npz")
RESULTS = [key for key in SAMPLE.files if key.split("|")[2] not in ("A", "B", "C")]
UNITS = {"e4m3": "f8", "e5m2": "f8", "e4m3.e5m2": "f8"}


def _operand(bits: np.ndarray, fmt: str):
    values = widen(bits.view(numpy_dtype(DTYPES[fmt])), "tf32" if fmt == "tf32" else None)
    return panel(np.ascontiguousarray(values.T), FORMATS[fmt].emin)


def _formats(fmt: str) -> tuple[str, str]:
    first, _, second = fmt.partition(".")
    return first, second if second in ("e4m3", "e5m2") else first


def _arithmetic(fmt: str, instruction: str) -> UnitArithmetic:
    unit = unit_arithmetic(UNITS.get(fmt, fmt), "sm_90")
    if not instruction.startswith("mmah"):
        return unit
    return UnitArithmetic(unit.unit, unit.kind, unit.group // 2, unit.fraction_bits, unit.output, unit.source)


def _through_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray, formats: tuple[str, str]) -> np.ndarray:
    """mma.sync on fp8 on sm_90: k mod 4 in {0, 1}, then {2, 3}, on the f16 unit from +0, and c added last."""
    unit = unit_arithmetic("f16", "sm_90")
    total = np.zeros(c.shape)
    position = np.arange(a.shape[1]) % 4
    for chosen in (position < 2, position >= 2):
        parts = [
            widen(x[:, chosen].view(numpy_dtype(DTYPES[f]))).T for x, f in zip((a, b), formats, strict=True)
        ]
        left, right = (panel(np.ascontiguousarray(x), FORMATS["f16"].emin) for x in parts)
        accumulate(left, right, total, unit)
    return total.astype(np.float32) + c


def _model(key: str, tile: int) -> np.ndarray:
    fmt, generator, instruction = key.split("|")
    a, b, c = (SAMPLE[f"{fmt}|{generator}|{name}"][tile] for name in "ABC")
    output = np.dtype(f"float{8 * c.dtype.itemsize}")
    formats = _formats(fmt)
    if instruction.startswith("mma_e"):
        return _through_f16(a[0], b[0], c.view(output), formats)
    total = c.view(output).astype(np.float64)
    for left, right in zip(a, b, strict=True):
        accumulate(
            _operand(left, formats[0]), _operand(right, formats[1]), total, _arithmetic(fmt, instruction)
        )
    return total.astype(output)


@pytest.mark.parametrize("key", RESULTS)
def test_the_model_gives_what_the_card_gave(key: str) -> None:
    with np.errstate(all="ignore"):
        for tile, expected in enumerate(SAMPLE[key]):
            model = _model(key, tile)
            assert same_bits(model, expected.view(model.dtype))


def test_the_sample_covers_every_format_and_generator() -> None:
    formats = {key.split("|")[0] for key in RESULTS}
    generators = {key.split("|")[1] for key in RESULTS}
    assert formats == {"f16", "bf16", "tf32", "e4m3", "e5m2", "e4m3.e5m2", "f16.f16", "e4m3.f16"}
    assert len(generators) == 10
    assert {tuple(key.split("|")[:2]) for key in RESULTS} == {(f, g) for f in formats for g in generators}
