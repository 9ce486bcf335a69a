"""The written kernels with data, launch configurations and what NumPy says the result is."""

# A row a case: one line each reads best, and every expectation takes all of its kernel's arguments.
# ruff: noqa: E501, ARG005, PLR0917

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A launch: ``arguments(rng)`` makes them, ``expected`` computes what output ``output`` must be."""

    name: str
    grid: Any
    block: Any
    arguments: Callable[[np.random.Generator], tuple[Any, ...]]
    output: int
    expected: Callable[..., Any]
    contracts: bool = False  # Numba's contraction into FMA changes roundings that these data have


def whole(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Any:
    """Small whole numbers: every sum of products is exact, contracted or not, in any order."""
    return rng.integers(-4, 5, shape).astype(dtype)


def _mandelbrot(a: float, b: float, c: float, d: float, image: Any, iters: int) -> Any:
    height, width = image.shape
    x = a + np.arange(width) * ((b - a) / width)
    y = c + np.arange(height) * ((d - c) / height)
    zr, zi = np.zeros((height, width)), np.zeros((height, width))
    count = np.full((height, width), iters)
    for i in range(iters):
        outside = (zr * zr + zi * zi >= 4) & (count == iters)
        count[outside] = i
        zr, zi = (
            np.where(count < iters, zr, zr * zr - zi * zi + x),
            np.where(count < iters, zi, 2.0 * zr * zi + y[:, None]),
        )
    return count.astype(image.dtype)


def _nbody(position: Any, mass: Any, velocity: Any, dt: Any) -> Any:
    f = np.float32
    result = velocity.copy()
    total = np.zeros_like(velocity)
    for j in range(len(position)):
        d = position[j] - position
        r2 = d[:, 0] * d[:, 0] + d[:, 1] * d[:, 1] + d[:, 2] * d[:, 2] + f(0.01)
        inverse = f(1) / (r2 * np.sqrt(r2))
        pull = f(0.5) * mass[j] * (d * inverse[:, None])
        pull[j] = 0
        total = np.where((np.arange(len(position)) == j)[:, None], total, total + pull)
    return result + dt * total


def _life(a: Any, _b: Any) -> Any:
    alive = sum(np.roll(a, (i, j), (0, 1)).astype(int) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return ((alive == 3) | ((alive == 2) & (a != 0))).astype(a.dtype)


def _stencil(a: Any, b: Any) -> Any:
    result = b.copy()
    neighbours = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    result[1:-1, 1:-1] = 0.25 * neighbours.astype(np.float64)
    return result


def _block_sums(x: Any, partial: Any) -> Any:
    blocks = len(partial)
    return np.array([x[np.arange(x.size) // 128 % blocks == i].sum() for i in range(blocks)], x.dtype)


def _corners(x: Any, index: Any, _out: Any) -> Any:
    rows = []
    for i, (n, value) in enumerate(zip(index.tolist(), x.tolist(), strict=True)):
        first = x[n] if 0 <= n < x.size and x.size != x[n] else -1
        square = np.float32(value / 3) * np.float32(value / 3)
        steps = 0
        for k in (10, 11, 13, 14):
            steps += k
            if steps > 20 + i:
                break
        last = round(value / 2) + (n and 7) + (value or 5)
        rows.append([first, 2.5, square, 2 * n + 13, steps, value - 2 * n, n // 3 * 100 + n % -4, last])
    return np.array(rows)


CASES = (
    Case("matmul", (3, 2), (16, 16), lambda r: (whole(r, 37, 21), whole(r, 21, 29), np.zeros((37, 29), np.float32)), 2, lambda a, b, c: a @ b),
    Case("fast_matmul", (3, 3), (16, 16), lambda r: (whole(r, 40, 48), whole(r, 48, 35), np.zeros((40, 35), np.float32)), 2, lambda a, b, c: a @ b),
    Case("array_sum", 1, 64, lambda r: (r.integers(-50, 50, 64).astype(np.int32),), 0, lambda x: np.concatenate([[x.sum()], x[1:]])),
    Case("block_sums", 3, 128, lambda r: (whole(r, 1000), np.zeros(3, np.float32)), 1, _block_sums),
    Case("warp_sum", 2, 64, lambda r: (whole(r, 128), np.zeros(4, np.float32)), 1, lambda x, o: x.reshape(4, 32).sum(1)),
    Case("inclusive_scan", 1, 200, lambda r: (r.integers(-9, 9, 200).astype(np.int32), np.zeros(200, np.int32)), 1, lambda x, o: np.cumsum(x)),
    Case("stencil", (2, 3), (16, 8), lambda r: (r.random((30, 20), np.float32), np.zeros((30, 20), np.float32)), 1, _stencil),
    Case("smooth", 2, 32, lambda r: (whole(r, 50), np.zeros(50, np.float32)), 1, lambda x, y: np.append((np.roll(x, 1) + 2 * x + np.roll(x, -1))[:-1] / 4, 0)),
    Case("histogram", 2, 64, lambda r: (r.random(500).astype(np.float32), np.float32(0), np.float32(1), np.zeros(16, np.int32)), 3, lambda x, a, b, o: np.bincount((x * 16).astype(int), minlength=16)),
    Case("shared_histogram", 4, 64, lambda r: (r.integers(0, 1000, 250).astype(np.int32), np.zeros(16, np.int32)), 1, lambda x, o: np.bincount(x % 16, minlength=16)),
    Case("transpose", (3, 2), (16, 16), lambda r: (r.random((25, 40), np.float32), np.zeros((40, 25), np.float32)), 1, lambda a, b: a.T),
    Case("mandelbrot", (2, 2), (8, 8), lambda r: (-2.0, 1.0, -1.0, 1.0, np.zeros((20, 30), np.uint8), 20), 4, _mandelbrot, contracts=True),
    Case("mandelbrot", (2, 2), (8, 8), lambda r: (-2.0, 2.0, -2.0, 2.0, np.zeros((32, 32), np.uint8), 5), 4, _mandelbrot),
    Case("nbody", 2, 32, lambda r: (r.random((40, 3), np.float32), r.random(40, np.float32), np.zeros((40, 3), np.float32), np.float32(0.1)), 2, _nbody, contracts=True),
    Case("life", (2, 2), (16, 16), lambda r: (r.integers(0, 2, (20, 30)).astype(np.uint8), np.zeros((20, 30), np.uint8)), 1, _life),
    Case("polynomial", 2, 32, lambda r: (whole(r, 50, dtype=np.float64), whole(r, 5, dtype=np.float64), np.zeros(50)), 2, lambda x, c, y: np.polyval(c[::-1], x)),
    Case("corners", 2, 32, lambda r: (np.arange(40.0), r.integers(-60, 60, 40), np.zeros((40, 8))), 2, _corners),
)  # fmt: skip
