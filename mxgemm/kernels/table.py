"""KERNELS: the kernel families, and the rule that picks one.

A new family is one row here: a value with the three members of :class:`Family`.  Families
are asked in order; the first that admits a product computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mxgemm.configs import Configuration
from mxgemm.kernels import mma_sync, scalar
from mxgemm.kernels.instance import EpilogueClass, KernelInstance
from mxgemm.kernels.operands import OperandClass

__all__ = ["KERNELS", "Family", "ProductClass"]


@dataclass(frozen=True, slots=True)
class ProductClass:
    """All that a kernel's code depends on: a problem without its extents, on one architecture.

    Attributes
    ----------
    configuration : Configuration
    arch : str
    accumulator : str
        Element type of the sums: the configuration's, or a wider integer result's own.
    a, b : OperandClass
    epilogue : EpilogueClass
    batch_axes : int
    k : int
        Products of one entry; it decides only whether chains end inside.
    """

    configuration: Configuration
    arch: str
    accumulator: str
    a: OperandClass
    b: OperandClass
    epilogue: EpilogueClass
    batch_axes: int
    k: int


@dataclass(frozen=True, slots=True)
class Family:
    """A kernel family.

    Attributes
    ----------
    name : str
        As a Plan's lowering spells it.
    admits : callable
        Whether the family computes a configuration on an architecture with an accumulator.
    instances : callable
        Its instances for a class of products, largest tile first.
    needs_unit_stride : bool
        Whether operands without a unit stride in either axis must be packed first.
    """

    name: str
    admits: Callable[[Configuration, str, str], bool]
    instances: Callable[[ProductClass], Iterator[KernelInstance]]
    needs_unit_stride: bool


def _mma_sync_admits(configuration: Configuration, arch: str, accumulator: str) -> bool:
    single = configuration.terms == 1 and not configuration.moduli and configuration.limbs == 0
    # Units wrap modulo 2^32, so 64-bit integer results are the scalar family's.
    native = accumulator == configuration.accumulator
    return not configuration.is_scalar and single and native and configuration.unit != "f8" and arch != "sm_70"


def _scalar_admits(configuration: Configuration, _arch: str, _accumulator: str) -> bool:
    # Integer sums are exact, so the scalar order gives the units' bits.
    return configuration.is_scalar or configuration.is_integer


def _mma_sync_instances(p: ProductClass) -> Iterator[KernelInstance]:
    return mma_sync.instances(p.configuration, p.arch, p.a, p.b, p.epilogue, p.batch_axes, p.k)


def _scalar_instances(p: ProductClass) -> Iterator[KernelInstance]:
    return scalar.instances(p.accumulator, p.a, p.b, p.epilogue, p.batch_axes)


KERNELS: tuple[Family, ...] = (
    Family("mma.sync", _mma_sync_admits, _mma_sync_instances, needs_unit_stride=True),
    Family("scalar", _scalar_admits, _scalar_instances, needs_unit_stride=False),
)
