"""KERNELS: the kernel families, and the rule that picks one.

A new family is one row here: a value with the three members of :class:`Family`.  Families
are asked in order; the first that admits a product computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mxgemm.configs import Configuration
from mxgemm.kernels import mma_sync, scalar
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.product import ProductClass

__all__ = ["KERNELS", "Family"]


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
    fed = configuration.unit not in (None, "f8") and arch != "sm_70"
    return fed and single and native


def _scalar_admits(configuration: Configuration, _arch: str, _accumulator: str) -> bool:
    # Integer sums are exact, so the scalar order gives the units' bits.
    return configuration.is_scalar or configuration.is_integer


KERNELS: tuple[Family, ...] = (
    Family("mma.sync", _mma_sync_admits, mma_sync.instances, needs_unit_stride=True),
    Family("scalar", _scalar_admits, scalar.instances, needs_unit_stride=False),
)
