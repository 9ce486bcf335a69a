"""ClusterSumInstance: parts along K side by side in the blocks of a cluster, which add them in order."""

from __future__ import annotations

from dataclasses import dataclass

from mxgemm.kernels.hopper.chain_sum import parts_as_batch
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.instance import EpilogueClass
from mxgemm.problem import GemmProblem

__all__ = ["ClusterSumInstance", "exchange_bytes"]

_PITCH = 8  # sums that lengthen a row, so that neighbouring rows lie in other banks


def exchange_bytes(rows: int, columns: int, count: int) -> int:
    """Shared memory where a block takes the sums of its share of the rows from ``count`` parts."""
    return count * -(-rows // count) * (columns + _PITCH) * 4


@dataclass(frozen=True)
class ClusterSumInstance(HopperInstance):
    """One launch without workspace: each block of a cluster computes a part, and adds a share of the rows.

    A part is what the configuration adds to the total as it stands: a chain, or a section of many; where
    the sum is exact, any length.

    Attributes
    ----------
    part : int
        Products along K of one part.
    count : int
        Parts, and blocks of the cluster.
    """

    part: int = 0
    count: int = 0

    @property
    def variant(self) -> str:
        """The tile of the parts, and what is done to them."""
        return f"{super().variant}, parts of {self.part} in a cluster of {self.count}, then added in order"

    @property
    def template(self) -> str:
        """The parts' own."""
        return "hopper_cluster_sum"

    @property
    def cluster(self) -> int:
        """A block a part."""
        return self.count

    @property
    def parts(self) -> tuple[str, ...]:
        """Building blocks, in order."""
        return (*super().parts, "hopper/cluster_sum")

    def constants(self) -> tuple[str, ...]:
        """And how K is cut."""
        cut = f"static constexpr int PARTS = {self.count}, PART_STAGES = {self.part // self.depth};"
        return (*super().constants(), cut)

    def grid(self, problem: GemmProblem) -> tuple[int, int, int]:
        """A cluster a tile."""
        return (self.tile.count(problem) * self.count, 1, 1)

    def as_batch(self, p: GemmProblem) -> tuple[HopperInstance, GemmProblem]:
        """The parts alone, as the model prices them: a batch of products that writes their sums."""
        sums = EpilogueClass("identity", self.accumulator, self.accumulator, vector=4)
        alone = HopperInstance(
            self.a, self.b, self.accumulator, sums, 1, self.tile, self.chain, True, False, False,
            multiprocessors=self.multiprocessors,
        )  # fmt: skip
        return alone, parts_as_batch(p, self.part, self.accumulator)
