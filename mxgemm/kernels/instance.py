"""KernelInstance: one compiled kernel as a value: what its code depends on, its source and its launch.

A source is one self-contained string, the building blocks (``*.cuh``, one idea a file)
followed by a small part of its own: a struct of constants and the ``extern "C"`` entry.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from mxgemm.kernels.names import ACTIVATIONS, CXX, scalar_parameter
from mxgemm.kernels.operands import OperandClass
from mxgemm.problem import GemmProblem

if TYPE_CHECKING:
    from mxgemm.device.tensor_map import TensorMap

__all__ = ["MAX_BATCH_AXES", "EpilogueClass", "KernelInstance", "building_block", "grid_of"]

MAX_BATCH_AXES = 4
_GRID_X = 2**31 - 1
_FOLDER = Path(__file__).parent


@lru_cache(maxsize=64)
def building_block(name: str) -> str:
    """The text of ``<name>.cuh``."""
    return _FOLDER.joinpath(f"{name}.cuh").read_bytes().decode()


def grid_of(blocks: int) -> tuple[int, int, int]:
    """A grid of at least ``blocks`` blocks; blocks number themselves along x, then y."""
    width = min(blocks, _GRID_X)
    return (width, -(-blocks // width), 1)


class EpilogueClass(NamedTuple):
    """What the code after the product depends on.

    Attributes
    ----------
    activation : str
    d, c : str
        Element types of the result and of C (the result's where there is no C).
    bias, scale_rows, scale_cols : str or None
        Element types of the arrays that take part.
    vector : int
        Entries of a row that are stored together; 1 for any alignment and any strides.
    """

    activation: str
    d: str
    c: str
    bias: str | None = None
    scale_rows: str | None = None
    scale_cols: str | None = None
    vector: int = 1

    def __str__(self) -> str:
        arrays = ((self.bias, "bias"), (self.scale_rows, "rows"), (self.scale_cols, "cols"))
        words = [self.activation, *(f"{what} {dtype}" for dtype, what in arrays if dtype)]
        c = f" C {self.c}" if self.c != self.d else ""
        return f"{'+'.join(words)}{c} -> {self.d} x{self.vector}"

    def cxx(self) -> str:
        """The C++ type."""
        arrays = (CXX[x] if x else "Absent" for x in (self.bias, self.scale_rows, self.scale_cols))
        return f"Epilogue<{ACTIVATIONS[self.activation]}, {CXX[self.c]}, {', '.join(arrays)}, {CXX[self.d]}>"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # which each family's own class makes anew
class KernelInstance(ABC):
    """One kernel.  Equal values are the same code; tiles and families never change a bit of the result.

    Attributes
    ----------
    a, b : OperandClass
    accumulator : str
        Element type of the sums and of the epilogue's arithmetic.
    epilogue : EpilogueClass
    batch_axes : int
        0 to 4.
    """

    a: OperandClass
    b: OperandClass
    accumulator: str
    epilogue: EpilogueClass
    batch_axes: int

    programmatic: ClassVar[bool] = False
    """Whether the code waits for its predecessor in the stream itself, so that it may be launched early."""

    @property
    @abstractmethod
    def lowering(self) -> str:
        """The kernel family."""

    @property
    @abstractmethod
    def variant(self) -> str:
        """The tile and what else tells it from its siblings."""

    @property
    @abstractmethod
    def threads(self) -> int:
        """Threads of a block."""

    @property
    @abstractmethod
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""

    @property
    @abstractmethod
    def blocks(self) -> int:
        """Blocks that one multiprocessor is meant to hold."""

    @property
    @abstractmethod
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of D that a block computes."""

    @property
    @abstractmethod
    def parts(self) -> tuple[str, ...]:
        """Building blocks, in the order in which they build on each other."""

    @abstractmethod
    def constants(self) -> tuple[str, ...]:
        """Lines of the struct that the family's template is instantiated with."""

    @property
    def has_flags(self) -> bool:
        """Whether the kernel reports overflow through a word in device memory."""
        return self.epilogue.d.startswith("float8")

    @property
    def takes_inner_strides(self) -> bool:
        """Whether operands may have any stride in both axes."""
        return False

    @property
    def template(self) -> str:
        """Name of the family's function template."""
        return self.lowering.replace(".", "_")

    @cached_property
    def entry(self) -> str:
        """Name of the ``extern "C"`` function."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()[:12]
        return f"mxgemm_{self.lowering.replace('.', '_')}_{digest}"

    @cached_property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """(C++ type, name) of every launch parameter, 8 bytes each; pointers first."""
        e, pointer = self.epilogue, "const void*"
        number = scalar_parameter(self.accumulator)
        rows: list[tuple[str, str, bool]] = [
            (pointer, "a", True), (pointer, "b", True), (pointer, "c", True), ("void*", "d", True),
            (pointer, "bias", bool(e.bias)), (pointer, "scale_rows", bool(e.scale_rows)),
            (pointer, "scale_cols", bool(e.scale_cols)), ("u32*", "flags", self.has_flags),
            *(("i64", name, True) for name in ("m", "n", "k", "a_outer", "b_outer")),
            *(("i64", name, self.takes_inner_strides) for name in ("a_inner", "b_inner")),
            *(("i64", name, True) for name in ("c_row", "c_col", "d_row")), ("i64", "d_col", e.vector == 1),
            (number, "alpha", True), (number, "beta", True), ("i64", "mode", True),
            *(("i64", name, bool(e.bias)) for name in ("bias_row", "bias_col")),
            ("i64", "scale_row", bool(e.scale_rows)), ("i64", "scale_col", bool(e.scale_cols)),
            *((number, name, e.activation == "clamp") for name in ("low", "high")),
            ("i64", "products", self.batch_axes > 0),
        ]  # fmt: skip
        for axis in range(self.batch_axes):
            fields = ("extent", "a", "b", "c", "d", *(("bias",) if e.bias else ()))
            rows += [("i64", f"batch{axis}_{field}", True) for field in fields]
        return tuple((kind, name) for kind, name, present in rows if present)

    def fills(self, fixed: Mapping[str, str]) -> str:
        """Lines that fill the struct of arguments from the parameters, or from ``fixed`` expressions."""
        return "\n".join(
            f"    p.{_field(name)} = {fixed.get(name, _value(name))};" for _, name in self.parameters
        )

    def tensor_maps(self, p: GemmProblem) -> tuple[TensorMap, ...]:  # noqa: ARG002  # most kernels have none
        """Maps that lead the parameters, for a problem in canonical form; none by default."""
        return ()

    @property
    def operand_notes(self) -> Mapping[str, str]:
        """What happens to operands on their way to the unit, in words, by the canonical problem's names."""
        return {}

    def feeds_on(self, p: GemmProblem) -> tuple[KernelInstance, GemmProblem] | None:  # noqa: ARG002  # most do not
        """The kernel that runs first, and its problem, whose D lies in workspace and is this kernel's A."""
        return None

    def generated(self) -> str:
        """The source's own part: constants and entry."""
        members = "\n".join(f"    {line}" for line in self.constants())
        parameters = ", ".join(f"{kind} {name}" for kind, name in self.parameters)
        return (
            f"// {self}\nstruct Instance {{\n{members}\n}};\n\n"
            f'extern "C" __global__ void __launch_bounds__({self.threads}, {self.blocks})\n'
            f"{self.entry}({parameters}) {{\n"
            f"    Arguments<{CXX[self.accumulator]}> p;\n{self.fills({})}\n"
            f"    {self.template}<Instance>(p);\n}}\n"
        )

    def source(self) -> str:
        """The whole source, without any ``#include``."""
        return "\n".join([*(building_block(name) for name in self.parts), self.generated()])

    def grid(self, problem: GemmProblem) -> tuple[int, int, int]:
        """Blocks along x, y and z for a problem in canonical form."""
        rows, cols = self.tile_shape
        return grid_of(-(-problem.m // rows) * -(-problem.n // cols) * problem.products)

    def __str__(self) -> str:
        batch = f", {self.batch_axes} batch axes" if self.batch_axes else ""
        return f"{self.lowering} {self.variant}: A {self.a}, B {self.b}, {self.epilogue}{batch}"


def _field(parameter: str) -> str:
    """``batch1_a`` fills ``batch[1].a``."""
    if not parameter.startswith("batch"):
        return parameter
    axis, field = parameter.removeprefix("batch").split("_")
    return f"batch[{axis}].{field}"


def _value(parameter: str) -> str:
    return "int(mode)" if parameter == "mode" else parameter
