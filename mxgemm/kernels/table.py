"""KERNELS: the kernel families, and the rule that picks one.

A new family is one row here: a value with the members of :class:`Family`.  Families are
asked in order; the first that admits a configuration, takes the problem and has an instance
for its class computes it.  What a family admits is said here, so that the modules of the others
need not load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mxgemm.configs import Configuration
from mxgemm.kernels.canonical import Canonical
from mxgemm.kernels.instance import MAX_BATCH_AXES, KernelInstance
from mxgemm.kernels.operands import PackedForm, layout_of
from mxgemm.kernels.product import ProductClass
from mxgemm.lazy import deferred
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["KERNELS", "Family"]

Declines = Callable[[GemmProblem, Sequence[int], float, int, bool], str | None]


def _never_declines(
    _p: GemmProblem, _copies: Sequence[int], _predicted: float, _multiprocessors: int, _may_allocate: bool
) -> str | None:
    return None


class Family(NamedTuple):
    """A kernel family.

    Attributes
    ----------
    name : str
        As a Plan's lowering spells it.
    admits : callable
        Whether the family computes a configuration on an architecture with an accumulator.
    instances : callable
        Its instances for a class of products, largest tile first.
    cost : callable
        What a problem costs with an instance on so many multiprocessors; the cheapest runs.
    packs : callable
        How A (``True``) or B of a problem in canonical form is copied first, given the alignment of its
        pointer in bytes; None where it is read as it lies.
    takes : callable
        Whether the family computes a problem in canonical form in a configuration that it admits.
    takes_inner_strides : bool
        Whether operands need no unit stride in either axis.
    batch_axes : int
        Batch axes that one launch steps through.
    is_timed : bool
        Whether ``cost`` is a prediction in microseconds, which a Plan tells.
    declines : callable
        Why the next family should compute a problem in canonical form rather than this one after these
        copies (bytes of each) at this cost, on so many multiprocessors, with or without workspace; None
        where this one should.
    forms : callable
        The canonical forms of a problem that the family considers, as it is or its transpose or both; the
        first one at equal cost.
    copying : callable
        Microseconds that copies of so many bytes in so many launches add, where ``is_timed``.
    """

    name: str
    admits: Callable[[Configuration, str, str], bool]
    instances: Callable[[ProductClass], Iterator[KernelInstance]]
    cost: Callable[[KernelInstance, GemmProblem, int], float]
    packs: Callable[[Matrix, bool, GemmProblem, int], PackedForm | None]
    takes: Callable[[GemmProblem, Configuration], bool] = lambda _problem, _configuration: True
    takes_inner_strides: bool = False
    batch_axes: int = MAX_BATCH_AXES
    is_timed: bool = False
    declines: Declines = _never_declines
    forms: Callable[[Canonical], tuple[Canonical, ...]] = lambda form: (form,)
    copying: Callable[[int, int], float] = lambda _bytes, _launches: 0.0


def _wgmma_admits(configuration: Configuration, arch: str, accumulator: str) -> bool:
    single = configuration.terms == 1 and not configuration.moduli and configuration.limbs == 0
    native = accumulator == configuration.accumulator
    # Of the configurations that round operands only tf32: the copy engine rounds to no other format.
    rounds = configuration.rounds_to not in (None, "tf32")
    fed = configuration.unit in ("f16", "bf16", "tf32", "f8", "s8")
    return arch == "sm_90" and fed and single and native and not rounds


def _mma_sync_admits(configuration: Configuration, arch: str, accumulator: str) -> bool:
    single = configuration.terms == 1 and not configuration.moduli and configuration.limbs == 0
    # Units wrap modulo 2^32, so 64-bit integer results are the scalar family's.
    native = accumulator == configuration.accumulator
    units = {"sm_70": (), "sm_75": ("f16", "s8")}.get(arch, ("f16", "bf16", "tf32", "f64", "s8"))
    fed = configuration.unit in units
    return fed and single and native


def _scalar_admits(configuration: Configuration, _arch: str, _accumulator: str) -> bool:
    # Integer sums are exact, so the scalar order gives the units' bits; and see _scalar_takes.
    return configuration.is_scalar or configuration.is_integer or configuration.unit == "f8"


def _scalar_takes(problem: GemmProblem, configuration: Configuration) -> bool:
    # Without a product there is no arithmetic of units to follow.
    return configuration.is_scalar or configuration.is_integer or not problem.reads_operands


def _busiest_share(instance: KernelInstance, p: GemmProblem, multiprocessors: int) -> float:
    """Entries of D, padding included, that the busiest multiprocessor covers.

    Small tiles load more bytes a product, which the factor stands for (as measured on an NVIDIA H200).
    """
    rows, cols = instance.tile_shape
    tiles = math.ceil(p.m / rows) * math.ceil(p.n / cols) * p.products
    return math.ceil(tiles / multiprocessors) * rows * cols * (1 + 48 / rows + 48 / cols)


def _without_unit_stride(x: Matrix, is_a: bool, _problem: GemmProblem, _alignment: int) -> PackedForm | None:
    return PackedForm() if layout_of(x, is_a) is None else None


def _reads_any(_x: Matrix, _is_a: bool, _problem: GemmProblem, _alignment: int) -> PackedForm | None:
    return None


_MMA_SYNC, _SCALAR = "mxgemm.kernels.mma_sync", "mxgemm.kernels.scalar"
_SELECTION, _MODEL, _ORIENTATION = (
    f"mxgemm.kernels.hopper.{module}" for module in ("selection", "model", "orientation")
)

KERNELS: tuple[Family, ...] = (
    Family(
        "wgmma",
        _wgmma_admits,
        instances=deferred(_SELECTION, "instances"),
        cost=deferred(_MODEL, "cost"),
        packs=deferred(_SELECTION, "packs"),
        takes=deferred(_SELECTION, "takes"),
        batch_axes=1,
        is_timed=True,
        declines=deferred(_SELECTION, "declines"),
        forms=deferred(_ORIENTATION, "orientations"),
        copying=deferred(_MODEL, "arranging"),
    ),
    Family(
        "mma.sync", _mma_sync_admits, deferred(_MMA_SYNC, "instances"), _busiest_share, _without_unit_stride
    ),
    Family(
        "scalar", _scalar_admits, deferred(_SCALAR, "instances"), _busiest_share, _reads_any,
        _scalar_takes, takes_inner_strides=True,
    ),
)  # fmt: skip
