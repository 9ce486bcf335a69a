"""autotune on a device: every candidate gives the same bits, and what is measured is remembered and run."""

from __future__ import annotations

from pathlib import Path

import pytest

import mxgemm as mx
from mxgemm import autotune_measure, kernels
from mxgemm.kernels import remembered
from mxgemm.policy import Policy
from tests.autotune_fakes import use
from tests.gpu_support import assert_same, operands, predicted, to_cupy

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("dtype", "precision", "k"), [
    ("float16", "native", 136), ("float32", "tf32", 100), ("int8", "exact", 144),
    ("bfloat16", "native", 8200),
])  # fmt: skip
def test_every_candidate_gives_the_bits_of_the_cpu_run(
    dtype: str, precision: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", "0")
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="a test")
    policy.accept_operand_rounding("tf32", reason="a test")
    use(monkeypatch, policy)
    a, b = operands(dtype, 200, 264, k)
    expected, x, y = predicted(a, b, precision=precision), to_cupy(a), to_cupy(b)
    plan = mx.explain(x, y, precision=precision)
    here = plan.capabilities
    words = kernels.signature(plan.problem, plan.configuration, here.arch, {}, ())
    key = remembered.Key(here.name, here.multiprocessors, words)
    for one in kernels.candidates(plan.problem, plan.configuration, here.arch):
        entry = one.lowering.instance.entry
        remembered.keep(key, kernels.Choice(entry, "tile", 1.0, "m", "model", 2.0, 2, "2026-01-01"), {})
        assert mx.explain(x, y, precision=precision).kernel.entry == entry  # type: ignore[union-attr]
        assert_same(mx.gemm(x, y, precision=precision), expected)
    remembered.forget()


def test_candidates_agree_on_activations_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path))
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="a test")
    use(monkeypatch, policy)
    x, y = (to_cupy(one) for one in operands("float16", 136, 264, 128))
    for epilogue in (mx.epilogue.gelu(), mx.epilogue.gelu("tanh"), mx.epilogue.silu()):
        found = mx.autotune(x, y, epilogue=epilogue, seconds=0.01, remember=False)
        assert {one.lowering for one in found.measured} == {"wgmma", "mma.sync"}


def test_measuring_a_product_on_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path))
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="a test")
    use(monkeypatch, policy)
    a, b = operands("float16", 256, 256, 256)
    x, y = to_cupy(a), to_cupy(b)
    found = mx.autotune(x, y, seconds=0.05)
    assert all(0 < one.microseconds < 1e5 for one in found.measured)
    assert Path(found.remembered).is_file()
    assert_same(mx.gemm(x, y), predicted(a, b))
    assert_same(x, a)
    remembered.forget()
    assert mx.explain(x, y).kernel.entry == found.chosen.entry  # type: ignore[union-attr]
    remembered.forget()
    assert autotune_measure._lock.acquire(blocking=False)
    autotune_measure._lock.release()
