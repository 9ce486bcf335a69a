"""Batches, axes, offsets and grids beyond 2^16 and 2^31; small integers, so that every sum is exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import mxgemm as mx
from tests import gpu_support as gpu
from tests.policies import generous, under

pytestmark = pytest.mark.gpu

FAR = 2**30 + 8  # elements between rows: the third one lies past 2^31
KINDS = [("float16", "native"), ("int8", "exact"), ("float64", "native"), ("float32", "scalar")]


@pytest.fixture(autouse=True)
def granted() -> Iterator[None]:
    """Every grant given."""
    with under(generous()):
        yield


@pytest.fixture
def torch() -> Any:
    """torch, with its memory given back afterwards."""
    module = gpu.library("torch")
    yield module
    module.cuda.empty_cache()


def small(torch: Any, shape: tuple[int, ...], dtype: str, seed: int = 1) -> Any:
    """Integers of magnitude up to 2."""
    generator = torch.Generator("cuda").manual_seed(seed)
    x = torch.randint(-2, 3, shape, generator=generator, device="cuda", dtype=torch.int8)
    return x.to(getattr(torch, dtype))


def expected(torch: Any, a: Any, b: Any) -> Any:
    """The exact product: float32 holds every one of these sums."""
    return torch.matmul(a.float(), b.float())


def exactly(torch: Any, found: Any, a: Any, b: Any) -> None:
    wrong = int((found.float() != expected(torch, a, b)).sum())
    assert wrong == 0, f"{wrong} of {found.numel()} entries"


@pytest.mark.parametrize(("dtype", "precision"), KINDS)
def test_a_batch_above_65535(torch: Any, dtype: str, precision: str) -> None:
    a, b = small(torch, (70_001, 8, 16), dtype), small(torch, (70_001, 16, 8), dtype, 2)
    exactly(torch, mx.gemm(a, b, precision=precision), a, b)


@pytest.mark.parametrize(("dtype", "precision"), KINDS)
@pytest.mark.parametrize("m", [2**21 + 1, 11_111_111])
def test_a_long_axis_of_rows(torch: Any, dtype: str, precision: str, m: int) -> None:
    a, b = small(torch, (m, 8), dtype), small(torch, (8, 8), dtype, 2)
    exactly(torch, mx.gemm(a, b, precision=precision), a, b)


@pytest.mark.parametrize(("dtype", "precision"), KINDS)
def test_a_long_axis_of_columns(torch: Any, dtype: str, precision: str) -> None:
    n = 11_111_111
    a, b = small(torch, (3, 8), dtype), small(torch, (8, n), dtype, 2)
    exactly(torch, mx.gemm(a, b, precision=precision), a, b)


def test_a_long_k(torch: Any) -> None:
    k = 11_111_111
    a, b = small(torch, (4, k), "int8"), small(torch, (k, 4), "int8", 2)
    found = mx.gemm(a, b, precision="exact")
    assert torch.equal(found.double(), a.double() @ b.double())


@pytest.mark.parametrize("which", ["a", "b", "c", "d"])
@pytest.mark.parametrize(("dtype", "precision"), [("float16", "native"), ("int8", "exact")])
def test_offsets_past_2_to_the_31(torch: Any, which: str, dtype: str, precision: str) -> None:
    result = "int32" if dtype == "int8" else dtype
    shapes = {"a": (3, 40), "b": (3, 24), "c": (3, 24), "d": (3, 24)}
    a, b = small(torch, (3, 40), dtype), small(torch, (40, 24), dtype, 2)
    if which == "b":
        a, b = small(torch, (5, 3), dtype), small(torch, (3, 24), dtype, 2)
        shapes |= {"c": (5, 24), "d": (5, 24)}
    c = small(torch, shapes["c"], result, 3)
    arrays = {"a": a, "b": b, "c": c, "d": torch.zeros(shapes["d"], dtype=c.dtype, device="cuda")}
    near = arrays[which]
    memory = torch.empty(2 * FAR + 64, dtype=near.dtype, device="cuda")
    far = memory.as_strided(near.shape, (FAR, 1))
    far.copy_(near)
    arrays[which] = far
    x = arrays
    mx.gemm(x["a"], x["b"], x["c"], beta=1, out=x["d"], precision=precision)
    wanted = expected(torch, a, b) + c.float()
    wrong = int((x["d"].float() != wanted).sum())
    assert wrong == 0, f"{wrong} of {wanted.numel()} entries"


def test_a_result_of_more_than_2_to_the_31_entries(torch: Any) -> None:
    a, b = small(torch, (3, 32768, 8), "float16"), small(torch, (3, 8, 32768), "float16", 2)
    found = mx.gemm(a, b, precision="native")
    for number in range(3):
        wanted = torch.matmul(a[number], b[number])
        assert torch.equal(found[number], wanted), f"matrix {number}"
        del wanted


def test_more_than_2_to_the_16_tiles_in_each_axis(torch: Any) -> None:
    for m, n in ((4_300_001, 9), (9, 4_300_001)):
        a, b = small(torch, (m, 5), "float32"), small(torch, (5, n), "float32", 2)
        exactly(torch, mx.gemm(a, b, precision="scalar"), a, b)
