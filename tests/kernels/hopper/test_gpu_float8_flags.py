"""8-bit results of ragged products: what lies past the edge of D reports no overflow; what is inside does.

Past the edge the operands are zeros, while bias and C go on as in the last row and column: with 500 added the
entries that nobody sees are past e4m3's 448, and those inside, -320 + 500, are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import device
from mxgemm.units.formats import numpy_dtype
from tests.policies import outcome

E4M3 = "float8_e4m3fn"
K = 64


@dataclass(frozen=True)
class Added:
    """What is added to a product of -1 and 5: shape and name of its array."""

    name: str
    rows: bool
    cols: bool
    largest: float = 500.0

    def arrays(self, m: int, n: int) -> dict[str, np.ndarray[Any, Any]]:
        shape = (m if self.rows else 1, n if self.cols else 1)
        return {self.name: np.full(shape, self.largest, np.float32)}

    def __str__(self) -> str:
        return f"{self.name} {self.rows:d}{self.cols:d} {self.largest:g}"


SEEN = 900.0  # with it the entries inside are past 448 too
ADDED = (
    Added("bias", rows=False, cols=True), Added("bias", rows=True, cols=False),
    Added("bias", rows=True, cols=True), Added("c", rows=True, cols=True),
    Added("bias", rows=False, cols=True, largest=SEEN), Added("c", rows=True, cols=True, largest=SEEN),
)  # fmt: skip


def run(added: Added, m: int, n: int, place: Any, **options: Any) -> mx.GemmResult:
    kind = numpy_dtype(E4M3)
    a, b = np.full((m, K), -1, kind), np.full((n, K), 5, kind)
    more = {name: place(x) for name, x in added.arrays(m, n).items()}
    c = more.pop("c", None)
    epilogue = mx.epilogue.identity(**more) if more else None
    given = {"beta": 1.0} if c is not None else {}
    return outcome(
        place(a), place(b).T, c, precision="native", out_dtype=E4M3, epilogue=epilogue, **given, **options
    )  # fmt: skip


def expected(added: Added) -> tuple[str, ...]:
    return ("fp8-overflow",) if added.largest == SEEN else ()


@pytest.mark.parametrize("added", ADDED, ids=str)
def test_the_cpu_run_reports_what_is_in_d(added: Added) -> None:
    found = run(added, 100, 96, lambda x: x, device="cpu")
    assert found.outcome.flags == expected(added)
    assert np.all(found.array.astype(np.float32) == (448 if added.largest == SEEN else 176))


@pytest.mark.gpu
@pytest.mark.parametrize("added", ADDED, ids=str)
@pytest.mark.parametrize(("m", "n"), [(100, 96), (100, 90), (64, 257), (300, 512), (1, 1000)])
def test_a_gpu_reports_what_is_in_d(added: Added, m: int, n: int) -> None:
    torch = pytest.importorskip("torch")
    if device.capabilities(0).arch != "sm_90":
        pytest.skip("these kernels are for sm_90")

    def place(x: np.ndarray[Any, Any]) -> Any:
        kind = getattr(torch, x.dtype.name)
        return torch.from_numpy(x.view(np.uint8).reshape(-1).copy()).cuda().view(kind).reshape(x.shape)

    found = run(added, m, n, place)
    assert found.outcome.plan.lowering == "wgmma"
    assert found.outcome.flags == expected(added)
    values = found.array.view(torch.uint8).cpu().numpy().view(numpy_dtype(E4M3)).astype(np.float32)
    assert np.all(values == (448 if added.largest == SEEN else 176))
