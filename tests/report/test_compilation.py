"""Compiling many kernels in processes, without a GPU."""

from dataclasses import replace
from pathlib import Path

import pytest

from mxgemm.errors import CompilationError
from mxgemm.report import compilation
from mxgemm.report.compilation import compile_all, fill_cache
from mxgemm.report.kernels import listed

pytest.importorskip("cuda.core", reason="kernels are compiled through cuda-core")

KERNELS = [one.kernel for one in listed("sm_75") if one.kernel.lowering == "pack"][:2]


def test_kernels_come_back_in_their_order_with_their_resources() -> None:
    found = list(compile_all(KERNELS, "sm_75", processes=2))
    assert [one.kernel for one in found] == KERNELS
    assert all(one.resources.registers > 0 and one.seconds > 0 for one in found)
    assert all(one.spilled_bytes == 0 and one.remarks == () for one in found)


def test_dynamic_and_static_shared_memory_are_one_figure() -> None:
    kernel = next(one.kernel for one in listed("sm_75") if one.kernel.lowering == "mma.sync")
    (found,) = compile_all([kernel], "sm_75", processes=1)
    assert found.shared_bytes == kernel.shared_bytes + found.resources.shared_bytes


def test_a_refused_source_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(KERNELS[0])
    monkeypatch.setattr(type(broken), "source", lambda _self: "this is no C++")
    with pytest.raises(CompilationError, match="NVRTC refused"):
        list(compile_all([broken], "sm_75", processes=1))


def test_the_cache_is_filled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path))
    kernel = KERNELS[1]
    # Another entry name, so that this process's memory does not have it.
    entry = f"{kernel.entry}_of_the_test"
    fill_cache(kernel.source().replace(kernel.entry, entry), entry, "sm_75")
    assert any(tmp_path.rglob("*"))


def test_workers_start_afresh() -> None:
    with compilation.pool(1) as workers:
        assert workers.submit(abs, -3).result() == 3
        assert workers._mp_context.get_start_method() == "spawn"
