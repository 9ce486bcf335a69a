"""Operands and CPU results of a product: the same values in every process, from a kind's name and a seed."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

import mxgemm as mx
from mxgemm import epilogue
from mxgemm.cli_demo import layer
from mxgemm.configs import rounding_precisions
from mxgemm.epilogue import EpilogueSpec
from mxgemm.report.cases import CLAMP, Product
from mxgemm.units.activations import activate
from mxgemm.units.formats import numpy_dtype
from tests.generators import generate

Array = np.ndarray[Any, Any]

LAYER = ("layer in", "layer out", "layer attention")
# From so many products on, the CPU computes chosen rows and columns only; integers cost it a tenth.
SAMPLED, INTEGERS_SAMPLED = 1_000_000_000, 4_000_000_000
CHOSEN = 60


@dataclass(frozen=True)
class Values:
    """A product with operands of one kind: all that decides a result."""

    product: Product
    kind: str

    @property
    def seed(self) -> int:
        return zlib.crc32(repr(self).encode())

    @property
    def is_sampled(self) -> bool:
        p = self.product
        return p.work >= (INTEGERS_SAMPLED if p.configuration.is_integer else SAMPLED)

    def chosen(self) -> tuple[Array, Array]:
        """Rows and columns of D that the CPU computes when it does not compute all, ends among them."""
        rng, p = np.random.default_rng(self.seed + 1), self.product
        return _spread(rng, p.m), _spread(rng, p.n)


def _spread(rng: np.random.Generator, extent: int) -> Array:
    """First, last, and a random index of each of CHOSEN parts of equal length."""
    ends = np.linspace(0, extent, CHOSEN + 1).astype(int)
    return np.unique(np.r_[0, extent - 1, rng.integers(ends[:-1], np.maximum(ends[1:], ends[:-1] + 1))])


def grant_everything() -> None:
    mx.accept_relaxed_accumulation(reason="compared with the CPU run, bit for bit")
    for precision in rounding_precisions():
        mx.accept_operand_rounding(precision, reason="compared with the CPU run, bit for bit")


@lru_cache(maxsize=1)
def _layer() -> dict[str, Array]:
    """The layer, with h = gelu(x·w_in + b_in) and w_inᵀ for its way back, which the package does not ship."""
    found = dict(layer())
    before = np.broadcast_to(found["b_in"].astype(np.float64), (len(found["x"]), len(found["b_in"])))
    # One k after the other: a BLAS may add in another order in another process.
    for column, row in zip(found["x"].T.astype(np.float64), found["w_in"].astype(np.float64), strict=True):
        before = before + np.multiply.outer(column, row)
    return found | {"h": activate(before.astype(np.float32), "gelu"), "back": found["w_in"].T}


def _of_layer(values: Values) -> dict[str, Array]:
    p, data = values.product, _layer()
    names = {"layer in": ("x", "w_in"), "layer out": ("h", "back"), "layer attention": ("p", "v")}
    found = dict(zip("ab", (data[name] for name in names[values.kind]), strict=True))
    found["a"] = found["a"][..., : p.m, :]
    if p.bias:
        found["bias"] = data["b_in"]
    return found


def operands(values: Values) -> dict[str, Array]:
    """Every array of the product by the name that kernels know it by, op() applied; without D."""
    rng, p = np.random.default_rng(values.seed), values.product
    given = _of_layer(values) if values.kind in LAYER else {}
    found = {}
    for name, (dtype, shape) in p.shapes.items():
        if name in given:
            found[name] = given[name].astype(numpy_dtype(dtype))
        elif name in ("a", "b"):
            found[name] = generate(values.kind, rng, shape, dtype, is_a=name == "a")
        elif name != "d":
            found[name] = generate("normal" if "float" in dtype else "bits", rng, shape, dtype)
    return found


def epilogue_of(p: Product, arrays: dict[str, Any]) -> mx.epilogue.Epilogue | None:
    if p.epilogue == EpilogueSpec():
        return None
    extra = {name: arrays[name] for name in ("bias", "scale_rows", "scale_cols") if name in arrays}
    if p.activation == "clamp":
        return epilogue.clamp(*CLAMP, **extra)
    if p.activation == "gelu-tanh":
        return epilogue.gelu("tanh", **extra)
    return getattr(epilogue, p.activation)(**extra)


def keywords(p: Product, arrays: dict[str, Any]) -> dict[str, Any]:
    """Keywords of ``gemm`` for a product, but for ``out`` and ``out_dtype``."""
    scalars = {"alpha": p.alpha, "beta": p.beta}
    return {**scalars, "precision": p.precision, "epilogue": epilogue_of(p, arrays)}


def _part(values: Values, arrays: dict[str, Array]) -> tuple[Product, dict[str, Array]]:
    """The chosen rows and columns as a product of their own."""
    rows, cols = values.chosen()
    cut = {"a": arrays["a"][..., rows, :], "b": arrays["b"][..., cols]}
    for name in ("c", "bias", "scale_rows", "scale_cols"):
        if name in arrays:
            x = arrays[name]
            x = x[..., rows, :] if x.ndim > 1 and x.shape[-2] > 1 else x
            cut[name] = x[..., cols] if x.shape[-1] > 1 else x
    return replace(values.product, m=len(rows), n=len(cols)), cut


def reference(values: Values) -> tuple[Array, tuple[str, ...], dict[str, Array]]:
    """D and its flags from the CPU run of the same Plan; where it is sampled, the chosen rows and columns.

    With the operands where they are many: sending them takes a tenth of making them again.
    """
    grant_everything()
    arrays, p = operands(values), values.product
    sent = arrays if values.is_sampled else {}
    if values.is_sampled:
        p, arrays = _part(values, arrays)
    r = mx.gemm_outcome(
        arrays["a"], arrays["b"], arrays.get("c"),
        device="cpu", out_dtype=p.result_dtype, **keywords(p, arrays),
    )  # fmt: skip
    return r.array, r.outcome.flags, sent


def one_thread_each() -> None:
    """Keep the BLAS of worker processes from taking every processor."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
