"""Shapes, memory layouts and values that several tests draw from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from mxgemm.configs import ELEMENT_TYPES
from mxgemm.shapes import Operand

Array = np.ndarray[Any, Any]

INTEGERS = tuple(name for name in ELEMENT_TYPES if "int" in name)
FLOATS = tuple(name for name in ELEMENT_TYPES if "int" not in name)


def numpy_type(dtype: str) -> np.dtype[Any]:
    """NumPy's type for an element type by name."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def operand(x: Array, dtype: str | None = None) -> Operand:
    """Metadata of ``x`` as the road sees it."""
    return Operand(dtype or str(x.dtype), x.shape, tuple(s // x.itemsize for s in x.strides))


# Shapes of A and B as numpy.matmul takes them, 1-d operands, batches and empty axes included.
matmul_shapes = mutually_broadcastable_shapes(
    signature=np.matmul.signature, max_dims=2, min_side=0, max_side=4
)

# Two matrices with no regular size: below, at and just past the lengths of groups and limbs.
odd_sizes = st.tuples(
    st.sampled_from((1, 2, 3, 17, 37)), st.sampled_from((1, 5, 29, 33)), st.sampled_from((1, 7, 16, 31, 129))
)


def values(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Random values: the whole range of an integer type; about half the exponents of a float's."""
    rng = np.random.default_rng(seed)
    if "int" in dtype:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    span = {"float16": 6, "float8_e4m3fn": 3, "float8_e5m2": 5}.get(dtype, 20)
    signed = rng.uniform(1, 2, shape) * rng.choice((-1, 1), shape)
    return (signed * 2.0 ** rng.integers(-span, span, shape)).astype(numpy_type(dtype))


def small_integers(dtype: str, shape: tuple[int, ...], seed: int, size: int = 3) -> Array:
    """Integers of magnitude up to ``size``, exact in every type, so that sums of them are too."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype.startswith("uint") else -size
    return rng.integers(low, size, shape, endpoint=True).astype(numpy_type(dtype))


def wrapped(exact: Array, dtype: str) -> Array:
    """Python integers modulo 2^bits, as ``dtype`` reads them."""
    bits, signed = int(dtype.strip("uint")), not dtype.startswith("u")
    half = 1 << (bits - 1) if signed else 0
    found = np.vectorize(lambda x: (x + half) % (1 << bits) - half, otypes=[object])(exact)
    return found.astype(dtype)


def same(x: Array, y: Array) -> bool:
    """Same type, shape and bits, except that any NaN equals any NaN."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    word = f"u{x.itemsize}"
    equal = np.ascontiguousarray(x).view(word) == np.ascontiguousarray(y).view(word)
    if x.dtype.kind not in "iu":
        equal |= np.isnan(x) & np.isnan(y)
    return bool(equal.all())


def poison(dtype: np.dtype[Any]) -> Any:
    """What must never be read: NaN, or the largest integer."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else np.array(np.nan).astype(dtype)


def _inside(x: Array, pad: int, step: int) -> Array:
    """``x`` inside a poisoned buffer: ``pad`` elements before and after, every ``step``-th one in use."""
    shape = tuple(step * n + 2 * pad for n in x.shape)
    buffer = np.full(shape, poison(x.dtype), x.dtype)
    view = buffer[..., *(slice(pad, pad + step * n, step) for n in x.shape)]
    view[...] = x
    return view


def _reversed(x: Array) -> Array:
    every = (..., *(slice(None, None, -1) for _ in x.shape))
    reversed_copy: Array = x[every].copy()[every]
    return reversed_copy


def _past_a_boundary(x: Array, elements: int) -> Array:
    """``x`` with a base pointer ``elements`` past a 16-byte boundary."""
    raw = np.full(x.nbytes + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 16 + elements * x.itemsize
    view = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


def _read_only(x: Array) -> Array:
    found = x.copy()
    found.flags.writeable = False
    return found


def _byte_swapped(x: Array) -> Array:
    native = x.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # these have one order only
    return x.copy() if native else x.astype(x.dtype.newbyteorder())


def _misaligned(x: Array) -> Array:
    raw = np.full(x.nbytes + 1, 0xFF, np.uint8)
    view = raw[1:].view(x.dtype).reshape(x.shape)
    view[...] = x
    return view


# How the same values can lie in memory.
LAYOUTS: Mapping[str, Callable[[Array], Array]] = {
    "row-major": lambda x: x.copy(order="C"),
    "column-major": lambda x: x.copy(order="F"),
    "inner block": lambda x: _inside(x, 1, 1),
    "every second": lambda x: _inside(x, 0, 2),
    "every third, offset": lambda x: _inside(x, 2, 3),
    "reversed": _reversed,
    "reversed steps": lambda x: _reversed(_inside(x, 1, 2)),
    "one past a boundary": lambda x: _past_a_boundary(x, 1),
    "two past a boundary": lambda x: _past_a_boundary(x, 2),
    "read-only": _read_only,
    "byte-swapped": _byte_swapped,
    "misaligned": _misaligned,
}

layouts = st.sampled_from(sorted(LAYOUTS))
seeds = st.integers(0, 2**32 - 1)


def laid_out(x: Array, layout: str) -> Array:
    """The values of ``x`` in another layout."""
    return LAYOUTS[layout](x)
