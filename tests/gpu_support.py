"""What the GPU tests of the road share: libraries, operands, and the CPU run that they compare with."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from mxgemm import array, device
from mxgemm.report.equality import differing
from mxgemm.units.formats import numpy_dtype
from tests.generators import generate

Array = np.ndarray[Any, Any]


def library(name: str) -> Any:
    """The module, or a skip with its reason; what its import warns of is not ours."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} is not installed: {error}")


def operands(
    dtype: str, m: int = 65, n: int = 72, k: int = 40, *, seed: int = 1, batch: tuple[int, ...] = ()
) -> tuple[Array, Array]:
    """A and B with values of many sizes, on the host."""
    rng = np.random.default_rng(seed)
    a = generate("wide", rng, (*batch, m, k), dtype)
    return a, generate("wide", rng, (*batch, k, n), dtype, is_a=False)


def to_cupy(x: Array) -> Any:
    """On the device as a CuPy array; skips where this CuPy lacks the element type."""
    cupy = library("cupy")
    try:
        made = cupy.empty(x.size, x.dtype)
    except (TypeError, ValueError, KeyError) as error:
        pytest.skip(f"CuPy {cupy.__version__} has no {x.dtype}: {error}")
    whole = np.ascontiguousarray(x)
    made.data.copy_from_host(whole.ctypes.data, whole.nbytes)
    return made.reshape(x.shape)


def to_torch(x: Array) -> Any:
    """On the device as a torch tensor."""
    torch = library("torch")
    words = torch.from_numpy(np.ascontiguousarray(x).view(np.uint8).reshape(-1).copy()).cuda()
    return words.view(getattr(torch, x.dtype.name)).reshape(x.shape)


def to_jax(x: Array) -> Any:
    """On the device as a JAX array."""
    jax = library("jax")
    places = [one for one in jax.devices() if one.platform != "cpu"]
    if not places:
        pytest.skip("JAX sees no GPU")
    return jax.device_put(x, places[0])


TO: dict[str, Callable[[Array], Any]] = {"cupy": to_cupy, "torch": to_torch, "jax": to_jax}


def host(x: Any) -> Array:
    """The array on the host, whatever library it is of, after everything that the device has queued."""
    found = array.view(x, "x")
    if found.device == "cuda":
        device.synchronize(device.LEGACY, found.ordinal)
    return array.to_host(found)


def predicted(a: Array, b: Array, c: Array | None = None, **options: Any) -> Array:
    """What the CPU run of the same Plan gives."""
    return np.asarray(mx.gemm(a, b, c, device="cpu", **options))


def assert_same(found: Any, expected: Array) -> None:
    """The same bits, any NaN equal to any NaN."""
    x = host(found)
    assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
    bad = differing(np.ascontiguousarray(x), np.ascontiguousarray(expected))
    count = int(np.count_nonzero(bad))
    first = tuple(int(i) for i in np.argwhere(bad)[0]) if count else ()
    assert count == 0, f"{count} of {x.size}, first {first}: {x[first]!r} for {expected[first]!r}"


class Launches:
    """The launches of calls that are not warmed, in order."""

    def __init__(self) -> None:
        self.streams: list[int] = []
        self.entries: list[str] = []

    def __len__(self) -> int:
        return len(self.streams)


@contextmanager
def launches() -> Iterator[Launches]:
    """Record every launch of ``gemm_outcome``, which never takes the warmed road."""
    seen, real = Launches(), device.launch

    def spy(kernel: Any, grid: Any, block: Any, stream: int, *rest: Any, **more: Any) -> None:
        seen.entries.append(kernel.entry)
        seen.streams.append(stream)
        real(kernel, grid, block, stream, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "launch", spy)
        yield seen


def random_like(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Standard normal values (small integers), rounded to the type."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        return rng.integers(-5, 6, shape).astype(dtype)
    return rng.standard_normal(shape).astype(numpy_dtype(dtype))
