"""ChainSumInstance: a product whose chains run side by side in workspace, then are added in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.instance import KernelInstance, grid_of
from mxgemm.problem import GemmProblem, Matrix

__all__ = ["ChainSumInstance"]

_PIECE = 4  # float32 entries of 16 bytes


@dataclass(frozen=True)
class ChainSumInstance(KernelInstance):
    """The kernel that adds the chains, and the one that computed them.

    Attributes
    ----------
    chains_by : HopperInstance
        Writes the sum of each chain, as a batch, to workspace.
    chain : int
        Products along K of one chain.
    """

    chains_by: HopperInstance
    chain: int

    lowering = "wgmma"
    programmatic: ClassVar[bool] = True
    template = "chain_sum"
    threads = 256
    shared_bytes = 0
    blocks = 4
    tile_shape = (1, 256)
    parts = (
        "types", "convert", "arguments", "activations", "epilogue", "hopper/succession", "hopper/chain_sum",
    )  # fmt: skip

    @property
    def variant(self) -> str:
        """The tile of the chains, and what is done to them."""
        how = f"chains of {self.chain} side by side, then added in order"
        return f"{self.chains_by.variant}, {how}"

    @property
    def operand_notes(self) -> Mapping[str, str]:
        """Of the kernel that multiplies."""
        return self.chains_by.operand_notes

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        return (f"using Epilogue = ::{self.epilogue.cxx()};", f"static constexpr int CHAIN = {self.chain};")

    def grid(self, problem: GemmProblem) -> tuple[int, int, int]:
        """A thread an entry."""
        return grid_of(-(-problem.m * problem.n // self.threads))

    def feeds_on(self, p: GemmProblem) -> tuple[KernelInstance, GemmProblem]:
        """The kernel that runs first, and its problem: the chains as a batch, whose D is the workspace."""
        leading = -(-p.n // _PIECE) * _PIECE
        chains = Matrix("float32", p.m, p.n, leading, 1, (p.m * leading,))
        return self.chains_by, replace(
            p, k=self.chain, batch=(-(-p.k // self.chain),), a=replace(p.a, batch_strides=(0,)),
            b=replace(p.b, batch_strides=(0,)), c=None, d=chains, alpha=1, beta=0, epilogue=EpilogueSpec(),
            bias=None, scale_rows=None, scale_cols=None,
        )  # fmt: skip
