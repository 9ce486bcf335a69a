"""Huge batches, axes, offsets and grids once more, with the kernels that run where no faster family does."""

from __future__ import annotations

import importlib

import pytest

from mxgemm import kernels
from mxgemm.kernels import lowering
from mxgemm.warm import WarmCalls
from tests.kernels.offered import ON_THE_ROAD
from tests.test_gpu_large import (
    granted,
    test_a_batch_above_65535,
    test_a_long_axis_of_columns,
    test_a_long_axis_of_rows,
    test_a_long_k,
    test_a_result_of_more_than_2_to_the_31_entries,
    test_offsets_past_2_to_the_31,
    torch,
)

__all__ = [
    "granted",
    "test_a_batch_above_65535",
    "test_a_long_axis_of_columns",
    "test_a_long_axis_of_rows",
    "test_a_long_k",
    "test_a_result_of_more_than_2_to_the_31_entries",
    "test_offsets_past_2_to_the_31",
    "torch",
]

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def on_the_road(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only these families, and forget calls that others ran."""
    families = tuple(family for family in kernels.KERNELS if family.name in ON_THE_ROAD)
    monkeypatch.setattr(lowering, "KERNELS", families)
    monkeypatch.setattr(importlib.import_module("mxgemm.gemm"), "_WARM", WarmCalls())
