"""Products longer than a part of their configuration, with the CPU model's bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

import mxgemm as mx
from tests.kernels.hopper.device_arrays import GuardedArray, guarded, same_bits
from tests.policies import outcome, product
from tests.units.data import uneven_chains

E4M3, E5M2, F32 = "float8_e4m3fn", "float8_e5m2", "float32"
DEPTHS = (8192, 8320, 16384, 20000, 65536)


def shape_of(k: int) -> tuple[int, int]:
    """Ragged rows and columns of D, few where the CPU model has much to add."""
    return (70, 150) if k <= 20000 else (20, 70)


@lru_cache(maxsize=16)
def uneven(k: int) -> tuple[GuardedArray, GuardedArray, np.ndarray[Any, Any]]:
    """fp8 operands along K, whose sums depend on the order, and the CPU model's product."""
    x, y = uneven_chains(*shape_of(k), k)
    a, b = guarded(x.shape, E4M3, values=x), guarded(y.shape, E5M2, values=y, column_major=True)
    return a, b, product(a.host, b.host, precision="native", device="cpu", out_dtype=F32)


@lru_cache(maxsize=16)
def integers(k: int) -> tuple[GuardedArray, GuardedArray, np.ndarray[Any, Any]]:
    """Bytes along K, of either sign, and the CPU model's product."""
    rng, (m, n) = np.random.default_rng(k), shape_of(k)
    a = guarded((m, k), "int8", values=rng.integers(-128, 128, (m, k)))
    b = guarded((k, n), "uint8", values=rng.integers(0, 256, (k, n)), column_major=True)
    return a, b, product(a.host, b.host, precision="exact", device="cpu", out_dtype="int32")


def run(a: GuardedArray, b: GuardedArray, d: GuardedArray, want: np.ndarray[Any, Any], **options: Any) -> Any:
    """Three runs into poisoned memory; returns the last one's Outcome."""
    options.setdefault("precision", "native")
    for _ in range(3):
        d.poison()
        found = outcome(a.device, b.device, out=d.device, **options).outcome
        assert same_bits(d.download(), want)
        assert d.guards_hold()
    return found


def every_term(m: int, n: int) -> tuple[GuardedArray, list[mx.epilogue.Epilogue]]:
    """C, and a clamp with bias and scales of both axes, on the device and on the host."""
    rng = np.random.default_rng(5)
    arrays = {
        name: guarded(shape, F32, values=rng.standard_normal(shape) * 2.0**power)
        for name, shape, power in (
            ("bias", (1, n), 8), ("scale_rows", (m, 1), 0), ("scale_cols", (1, n), -12), ("c", (m, n), 5),
        )
    }  # fmt: skip
    c = arrays.pop("c")
    epilogues = [
        mx.epilogue.clamp(-3e4, 5e4, **{name: getattr(x, side) for name, x in arrays.items()})
        for side in ("device", "host")
    ]
    return c, epilogues
