"""Operands that stress an arithmetic, one generator a kind of stress; shared by the tests of the models."""

from __future__ import annotations

import numpy as np

from mxgemm.units.formats import numpy_dtype
from tests.reference.integers import KINDS

DTYPES = {
    "f16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "f32": "float32", "f64": "float64",
}  # fmt: skip

GENERATORS = ("bits", "special", "normal", "uniform", "wide", "cancel", "subnormal", "overflow", "zeros")


def _kind(dtype: str):
    names = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float16": "f16"}
    return KINDS[names.get(dtype, dtype)]


def _bits(rng, shape, dtype):
    size = numpy_dtype(dtype).itemsize
    words = rng.integers(0, 2 ** (8 * size), shape, dtype=f"u{size}")
    return words.view(numpy_dtype(dtype))


def _near(rng, shape, low, high):
    return rng.choice([-1.0, 1.0], shape) * (1 + rng.random(shape)) * 2.0 ** rng.integers(low, high, shape)


def generate(name: str, rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Operands of ``dtype``; finite but for "bits", "special" and (after multiplication) "overflow"."""
    kind = _kind(dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if name in ("bits", "special"):
            x = _bits(rng, shape, dtype)
            if name == "special":
                small = rng.standard_normal(shape).astype(numpy_dtype(dtype))
                chosen = rng.random(shape)
                x = np.where(chosen < 0.9, small, x)
                x[chosen < 0.02] = np.inf
                x[(chosen >= 0.02) & (chosen < 0.04)] = 0
                x[(chosen >= 0.04) & (chosen < 0.05)] = np.nan
            elif dtype in ("float32", "float64"):
                x = np.where(np.isfinite(x), x, numpy_dtype(dtype).type(1))
            return x
        values = {
            "normal": lambda: rng.standard_normal(shape),
            "uniform": lambda: rng.random(shape),
            "wide": lambda: _near(rng, shape, max(kind.emin, -30), min(kind.emax, 30)),
            "cancel": lambda: np.round(rng.standard_normal(shape) * 4) * 2.0 ** rng.integers(-1, 2, shape),
            "subnormal": lambda: _near(rng, shape, kind.emin - kind.bits + 1, kind.emin + 2),
            "overflow": lambda: _near(rng, shape, kind.emax // 2 - 2, kind.emax // 2 + 4),
            "zeros": lambda: np.where(
                rng.random(shape) < 0.8, rng.choice([-0.0, 0.0], shape), rng.random(shape)
            ),
        }[name]()
        return values.astype(numpy_dtype(dtype))


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    """Same bits, except that any NaN equals any NaN."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    words = f"u{x.dtype.itemsize}"
    equal = np.ascontiguousarray(x).view(words) == np.ascontiguousarray(y).view(words)
    if x.dtype.kind not in "iu":
        equal |= np.isnan(x) & np.isnan(y)
    return bool(equal.all())


def uneven_chains(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """fp8 operands whose chains of 128 differ in size by so much that each float32 addition rounds."""
    rng = np.random.default_rng([m, n, k])
    exponents = [np.repeat(rng.integers(-reach, reach, -(-k // 128)), 128)[:k] for reach in (6, 12)]
    a = rng.standard_normal((m, k)) * 2.0 ** exponents[0]
    b = rng.standard_normal((k, n)) * 2.0 ** exponents[1][:, None]
    return a.astype(numpy_dtype("float8_e4m3fn")), b.astype(numpy_dtype("float8_e5m2"))
