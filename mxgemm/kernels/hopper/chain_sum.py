"""ChainSumInstance: a product whose parts along K run side by side in workspace, then are added in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.instance import KernelInstance, grid_of
from mxgemm.kernels.names import CXX
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["ChainSumInstance", "parts_as_batch"]

_PIECE = 4  # sums, float32 or int32, of 16 bytes


@dataclass(frozen=True)
class ChainSumInstance(KernelInstance):
    """The kernel that adds the sums of the parts, and the one that computed them.

    A part is what the configuration adds to the total as it stands: a chain, or a section of many; where
    the sum is exact, any length.

    Attributes
    ----------
    sums_by : HopperInstance
        Writes the sum of each part, as a batch, to workspace.
    part : int
        Products along K of one part.
    """

    sums_by: HopperInstance
    part: int

    lowering = "wgmma"
    programmatic: ClassVar[bool] = True
    template = "chain_sum"
    threads = 128
    shared_bytes = 0
    blocks = 8
    tile_shape = (1, 512)
    parts = (
        "types", "convert", "arguments", "activations", "epilogue", "hopper/succession", "hopper/chain_sum",
    )  # fmt: skip

    @property
    def variant(self) -> str:
        """The tile of the parts, and what is done to them."""
        return f"{self.sums_by.variant}, parts of {self.part} side by side, then added in order"

    @property
    def operand_notes(self) -> Mapping[str, str]:
        """Of the kernel that multiplies."""
        return self.sums_by.operand_notes

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        return (
            f"using Sum = {CXX[self.accumulator]};",
            f"using Epilogue = ::{self.epilogue.cxx()};",
            f"static constexpr int PART = {self.part};",
        )

    def grid(self, problem: GemmProblem) -> tuple[int, int, int]:
        """A thread for four entries of a row."""
        return grid_of(-(-problem.m * -(-problem.n // _PIECE) // self.threads))

    def feeds_on(self, p: GemmProblem) -> tuple[KernelInstance, GemmProblem]:
        """The kernel that runs first, and its problem: the parts as a batch, whose D is the workspace."""
        return self.sums_by, parts_as_batch(p, self.part, self.accumulator)


def parts_as_batch(p: GemmProblem, part: int, accumulator: str) -> GemmProblem:
    """The parts of a product along K as a batch, whose D are their sums, in rows of whole pieces."""
    leading = -(-p.n // _PIECE) * _PIECE
    sums = Matrix(accumulator, p.m, p.n, leading, 1, (p.m * leading,))
    return replace(
        p, k=part, batch=(-(-p.k // part),), a=replace(p.a, batch_strides=(0,)),
        b=replace(p.b, batch_strides=(0,)), c=None, d=sums, alpha=1, beta=0, epilogue=EpilogueSpec(),
        bias=None, scale_rows=None, scale_cols=None,
    )  # fmt: skip
