"""CUDA kernels: building blocks in CUDA C++ (``*.cuh``) and their launch descriptions.

The road: a problem is brought into canonical form, operands without a unit stride are
packed, a family of :data:`KERNELS` offers instances, the cheapest is chosen, and
:class:`Lowering` knows its launches.  Compilation and launching are :mod:`mxgemm.device`'s.
The modules of a family, and those that pack, load with the first product that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxgemm.kernels.instance import EpilogueClass, KernelInstance
from mxgemm.kernels.launches import Launch, Lowering
from mxgemm.kernels.lowering import ALIGNED, Candidate, candidates, lower, select
from mxgemm.kernels.operands import OperandClass
from mxgemm.kernels.product import ProductClass
from mxgemm.kernels.table import KERNELS, Family
from mxgemm.kernels.tuned import Choice, signature
from mxgemm.lazy import loader

if TYPE_CHECKING:
    from mxgemm.kernels.packing import PackInstance

__all__ = [
    "ALIGNED",
    "KERNELS",
    "Candidate",
    "Choice",
    "EpilogueClass",
    "Family",
    "KernelInstance",
    "Launch",
    "Lowering",
    "OperandClass",
    "PackInstance",
    "ProductClass",
    "candidates",
    "lower",
    "select",
    "signature",
]

__getattr__ = loader(__name__, {"PackInstance": "packing"})
