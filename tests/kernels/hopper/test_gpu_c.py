"""C on a Hopper GPU, added by one instruction where beta C is exact, else by two: the CPU model's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxgemm import device
from mxgemm.units.formats import numpy_dtype
from tests.kernels.hopper.device_arrays import guarded, same_bits
from tests.policies import outcome

pytestmark = pytest.mark.gpu

# Multiples of 2^-12 up to 1, the first ones beyond, and others.
BETAS = (1.0, -1.0, -0.75, 2.0**-12, 4095 / 4096, 2.0**-13, 4097 / 4096, 1.5, 0.3, -1 / 3)
SHAPE, K = (200, 264), 136


@pytest.fixture(scope="module", autouse=True)
def torch() -> Any:
    """PyTorch, on a device with the copy engine and wgmma."""
    found = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")
    return found


def every_c(dtype: str) -> np.ndarray[Any, Any]:
    """Every kind of C: all 65,536 patterns have their turn over the tests' betas and types."""
    patterns = np.random.default_rng(3).permutation(1 << 16).astype(np.uint16)
    return patterns[: SHAPE[0] * SHAPE[1]].reshape(SHAPE).view(numpy_dtype(dtype))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("tile", [(128, 256), (64, 64)])
def test_bits_whatever_beta(only: Any, tile: tuple[int, int], dtype: str, beta: float) -> None:
    only(*tile)
    rng = np.random.default_rng(4)
    a = guarded((SHAPE[0], K), dtype, values=rng.standard_normal((SHAPE[0], K)))
    b = guarded((K, SHAPE[1]), dtype, values=rng.standard_normal((K, SHAPE[1])))
    c = guarded(SHAPE, dtype, values=every_c(dtype))
    options = {"precision": "native", "alpha": -1.3, "beta": beta}
    want = outcome(a.host, b.host, c.host, device="cpu", **options).array
    d = guarded(SHAPE, dtype)
    for _ in range(2):
        d.poison()
        found = outcome(a.device, b.device, c.device, out=d.device, **options)
        assert same_bits(d.download(), want)
        assert d.guards_hold()
    assert found.outcome.plan.kernel.c_bulk
