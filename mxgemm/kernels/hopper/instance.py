"""HopperInstance: one kernel of the family as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from mxgemm.device.tensor_map import TensorMap
from mxgemm.kernels.hopper.maps import matrix_map, panel_map, store_maps, turned_store_maps
from mxgemm.kernels.hopper.tiles import PANEL, ROW_BYTES, HopperTile
from mxgemm.kernels.hopper.wgmma import Wgmma
from mxgemm.kernels.instance import KernelInstance
from mxgemm.kernels.names import CXX, SIZES
from mxgemm.kernels.product import BiasAxis
from mxgemm.problem import GemmProblem

__all__ = ["HopperInstance"]

_SHARED = ("types", "convert", "arguments", "activations", "epilogue")  # of every family
_OWN = ("barriers", "tensor_map", "descriptor", "ring", "scheduler", "roles", "succession", "row_blocks",
        "terms", "row_order", "stage", "residency", "handover", "pacing", "producer", "epilogue_warps",
        "consumer", "registers", "chains", "overflow", "staging", "store", "gemm")  # fmt: skip
_FORMATS = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8", "uint8": "u8",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
# By consumers: registers of a thread of the producer's group and of a consumer (0: 255 for everybody), and
# of them those that hold a tile's sums and the words of D that are written under the next tile.
_REGISTERS = {1: (0, 0, 192), 2: (40, 232, 192), 3: (32, 160, 128)}
_NARROW, _NARROW_CONSUMERS = 64, 2  # columns up to which short chains run four at a time, and warpgroups
_FRAGMENTS = 48  # registers of A beside sums and words where A goes through registers
_BIAS_ALONG = {"columns": "ALONG_COLUMNS", "rows": "ALONG_ROWS", "entries": "EACH_ENTRY"}


@dataclass(frozen=True)
class HopperInstance(KernelInstance):
    """One kernel of the family.

    Attributes
    ----------
    tile : HopperTile
    chain : int
        Stages of one chain; 0 when all of K is one chain or the sum is exact.
    split : bool
        Whether the batch is the parts of one product, each a stretch of its K.
    reads_c, c_pairs : bool
        Whether beta != 0, and whether C is read two neighbouring entries at a time.
    c_bulk : bool
        Whether the copy engine loads C, which is laid out as it stores D, into the stores' buffers.
    d_turned : bool
        Whether D's contiguous axis is its rows; so is C's where the copy engine loads it.
    section : int
        Stages of one section, whose chains one master sum adds; 0 when all of K is one.
    bias_along : str
        "columns" or "rows" where the bias is one value for each, "entries" for any other.
    multiprocessors : int
        Of the device; blocks are persistent, so it decides the grid and nothing of the code.
    """

    tile: HopperTile
    chain: int
    split: bool
    reads_c: bool
    c_pairs: bool
    c_bulk: bool = False
    d_turned: bool = False
    section: int = 0
    bias_along: BiasAxis = "entries"
    multiprocessors: int = field(default=132, repr=False, compare=False)

    programmatic: ClassVar[bool] = True

    @property
    def lowering(self) -> str:
        """The kernel family."""
        return "wgmma"

    @property
    def variant(self) -> str:
        """Instruction, tile, how operands come in, and the orientation if D's contiguous axis is its rows."""
        chain = f", chains of {self.chain * self.depth}" if self.chain else ""
        chain += f" in sections of {self.section * self.depth}" if self.section else ""
        registers = ", A from registers" if self.a_registers else ""
        turned = ", D along M" if self.d_turned else ""
        return f"{self.unit.name} {self.tile}{registers}{turned}{chain}"

    @property
    def rounds(self) -> bool:
        """Whether float32 operands are rounded to tf32 on their way to the unit."""
        return self.a.dtype == "float32"

    @property
    def a_registers(self) -> bool:
        """Whether A, which does not lie along K as the unit wants tf32, goes through registers."""
        return self.rounds and not self.a_k_major

    @property
    def operand_notes(self) -> Mapping[str, str]:
        """Where operands are rounded to tf32."""
        if not self.rounds:
            return {}
        by_engine = "rounded to tf32 by the copy engine"
        return {"a": "rounded to tf32 in registers" if self.a_registers else by_engine, "b": by_engine}

    @property
    def has_flags(self) -> bool:
        """Rounded operands may overflow."""
        return self.rounds or super().has_flags

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """The base's, and how deep the whole product is where each launch's is a part of it."""
        return (*super().parameters, *((("i64", "depth"),) if self.split and self.rounds else ()))

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (1 + self.tile.consumers)

    @property
    def blocks(self) -> int:
        """Blocks that one multiprocessor is meant to hold."""
        return 1

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of D that a block computes at a time."""
        return self.tile.rows, self.tile.columns

    @property
    def depth(self) -> int:
        """Products along K of one stage."""
        return ROW_BYTES // SIZES[self.a.dtype]

    @property
    def a_k_major(self) -> bool:
        """Whether A's contiguous axis is K."""
        return self.a.layout == "k_major"

    @property
    def b_k_major(self) -> bool:
        """Whether B's contiguous axis is K."""
        return self.b.layout == "k_major"

    @property
    def bulk_store(self) -> bool:
        """Whether the copy engine writes D, whose rows are then 16-byte aligned."""
        return self.epilogue.vector > 1

    @property
    def shared_bytes(self) -> int:
        """The ring of stages, the stores' buffers and the epilogue's terms and the barriers."""
        stage = self.tile.stage_bytes(self.b_k_major)
        handover = self.tile.consumers * self.tile.buffers
        barriers = 16 * (self.tile.stages + handover + 1)
        return self.tile.stages * stage + self.tile.store_bytes + self.term_bytes + barriers

    @property
    def term_bytes(self) -> int:
        """Shared memory of a tile's bias and scales, 4 bytes each."""
        t, e = self.tile, self.epilogue
        along = {"columns": t.columns, "rows": t.rows, "entries": 0}[self.bias_along]
        counts = ((e.bias, along), (e.scale_rows, t.rows), (e.scale_cols, t.columns))
        return sum(4 * count for present, count in counts if present)

    @property
    def lag(self) -> int:
        """Stages that the second consumer keeps behind the first."""
        return int(self.tile.consumers == 2 and self.tile.stages >= 4)

    @property
    def narrow(self) -> bool:
        """Whether chains of one stage run several at a time, each in sums for all columns."""
        return self.tile.columns <= _NARROW and self.tile.consumers <= _NARROW_CONSUMERS

    @property
    def c_held(self) -> bool:
        """Whether C waits in the registers of D's words, so that it passes through few buffers.

        The words fit beside the sums, and no bias is read entry by entry, which takes registers too.
        """
        words = self.tile.columns * SIZES[self.epilogue.d] // 8
        fits = self.tile.columns // 2 + words <= _REGISTERS[self.tile.consumers][2]
        by_entry = self.epilogue.bias is not None and self.bias_along == "entries"
        return self.c_bulk and fits and not (self.chain or self.a_registers or by_entry)

    @property
    def template(self) -> str:
        """Name of the function template."""
        return "hopper_gemm"

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.tile.cluster

    @property
    def unit(self) -> Wgmma:
        """The instruction; chains of one stage take half of the columns at a time where they are many."""
        columns = self.tile.columns // (2 if self.chain == 1 and not self.narrow else 1)
        formats = (_FORMATS[self.a.dtype], _FORMATS[self.b.dtype])
        return Wgmma(*formats, columns, self.a_k_major, self.b_k_major, self.a_registers)

    @property
    def parts(self) -> tuple[str, ...]:
        """Building blocks, in order."""
        return (*_SHARED, *(f"hopper/{name}" for name in _OWN))

    def constants(self) -> tuple[str, ...]:
        """Members of the struct that the template is instantiated with."""
        t = self.tile
        short = "NarrowShortChains" if self.narrow else "ShortChains"
        one = "OneChain" if t.row_blocks == 1 else "OneChainOfBlocks"
        chains = {0: one, 1: short}.get(self.chain, "LongChains") + "<Instance>"
        chains = f"Sections<Instance, {chains}, {self.section}>" if self.section else chains
        producer, consumer, held = _REGISTERS[t.consumers]
        held -= _FRAGMENTS * self.a_registers
        return (
            f"using A = {CXX[self.a.dtype]};",
            f"using B = {CXX[self.b.dtype]};",
            f"using Sum = {CXX[self.accumulator]};",
            "using Unit = InstanceUnit;",
            f"using Epilogue = ::{self.epilogue.cxx()};",
            f"using Chains = {chains};",
            f"static constexpr bool A_K_MAJOR = {_word(self.a_k_major)};",
            f"static constexpr bool B_K_MAJOR = {_word(self.b_k_major)};",
            f"static constexpr int BM = {t.rows}, BN = {t.columns}, STAGES = {t.stages};",
            f"static constexpr int CLUSTER = {t.cluster}, GROUP = {t.group}, ROW_BLOCKS = {t.row_blocks};",
            f"static constexpr int CHAIN_STAGES = {self.chain}, BUFFERS = {t.buffers};",
            f"static constexpr bool BULK_STORE = {_word(self.bulk_store)};",
            f"static constexpr bool ROUNDS = {_word(self.rounds)}, A_REGISTERS = {_word(self.a_registers)};",
            f"static constexpr bool D_TURNED = {_word(self.d_turned)};",
            f"static constexpr bool C_PAIRS = {_word(self.c_pairs)}, STAGES_C = {_word(self.c_bulk)};",
            f"static constexpr bool HOLDS_C = {_word(self.c_held)};",
            f"static constexpr bool SPLIT = {_word(self.split)};",
            f"static constexpr int BIAS = {_BIAS_ALONG[self.bias_along]}, LAG = {self.lag};",
            f"static constexpr int PRODUCER_REGISTERS = {producer}, CONSUMER_REGISTERS = {consumer};",
            f"static constexpr int HELD = {held};",
        )

    def as_batch(self, p: GemmProblem) -> tuple[HopperInstance, GemmProblem] | None:  # noqa: ARG002  # none here
        """The parts of K that run side by side in a cluster, as another kernel's batch; None without them."""
        return None

    def tensor_maps(self, p: GemmProblem) -> tuple[TensorMap, ...]:
        """What leads the parameters: the matrices as the copy engine sees them, for a canonical problem."""
        maps: list[TensorMap] = []
        share = self.tile.columns // self.tile.cluster
        for name, x, k_major, extent in (("a", p.a, self.a_k_major, self.tile.rows),
                                         ("b", p.b, self.b_k_major, share)):  # fmt: skip
            # Rows of the map run along the contiguous axis, which is the columns of A and the rows of B.
            turned = k_major != (name == "a")
            made = matrix_map(
                name, x, p.products, turned=turned, outer=extent if k_major else self._depth_share(name),
                to_tf32=self.rounds and k_major,
            )  # fmt: skip
            maps.append(made if k_major else panel_map(made))
        maps_of = turned_store_maps if self.d_turned else store_maps
        if self.bulk_store:
            maps += maps_of(p.d, p.products, self.tile.columns)
        if self.c_bulk and p.c is not None:
            maps += maps_of(p.c, p.products, self.tile.columns, "c")
        return tuple(maps)

    def _depth_share(self, name: str) -> int:
        """Products along K of one copy of an operand off K: a cluster's share of B's where panels are odd."""
        panels = self.tile.copied_columns(False) // PANEL
        return self.depth // self.tile.cluster if name == "b" and panels % self.tile.cluster else self.depth

    def generated(self) -> str:
        """The source's own part: the instruction, constants and entry."""
        has_tail = self.bulk_store and self.tile.columns * SIZES[self.epilogue.d] % ROW_BYTES != 0
        present = {
            "map_a": True, "map_b": True, "map_d": self.bulk_store, "map_d_tail": has_tail,
            "map_c": self.c_bulk, "map_c_tail": self.c_bulk and has_tail,
        }  # fmt: skip
        maps = [f"const __grid_constant__ TensorMap {name}" for name, there in present.items() if there]
        parameters = ", ".join([*maps, *(f"{kind} {name}" for kind, name in self.parameters)])
        addresses = (f"address_of({name})" if there else "0" for name, there in present.items())
        mode = "MODE_PRODUCT | MODE_C" if self.reads_c else "MODE_PRODUCT"
        cluster = f"__cluster_dims__({self.cluster}, 1, 1) " if self.cluster > 1 else ""
        members = "\n".join(f"    {line}" for line in self.constants())
        return (
            f"// {self}\n{self.unit.source('InstanceUnit')}\nstruct Instance {{\n{members}\n}};\n\n"
            f'extern "C" __global__ void {cluster}__launch_bounds__({self.threads}, 1)\n'
            f"{self.entry}({parameters}) {{\n"
            f"    Arguments<{CXX[self.accumulator]}> p;\n{self.fills({'mode': mode})}\n"
            f"    {self.template}<Instance>({{{', '.join(addresses)}}}, p);\n}}\n"
        )

    def grid(self, problem: GemmProblem) -> tuple[int, int, int]:
        """One block a multiprocessor, or a tile each when there are fewer."""
        cluster = self.tile.cluster
        return (min(self.tile.count(problem), self.multiprocessors // cluster) * cluster, 1, 1)


def _word(value: bool) -> str:
    return str(value).lower()
