"""A product on the device with one kernel: guard bands, poison, flags, and the CPU run beside it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from mxgemm import device, units
from mxgemm.kernels import Lowering
from mxgemm.problem import GemmProblem, pose
from mxgemm.report.cases import Case
from mxgemm.report.equality import differing, tolerance
from mxgemm.shapes import Operand
from mxgemm.units import UnitRun
from mxgemm.units.formats import numpy_dtype
from tests.generators import generate
from tests.kernels.offered import tiles_for

Array = np.ndarray[Any, Any]
Edit = Callable[[str], str]

GUARD = 4096
AROUND, UNWRITTEN = 0xFF, 0xCD  # bytes: NaN (or -1) around every array, and the result before its run
FLAGS = {1: "operand-overflow", 2: "fp8-overflow"}


@dataclass
class Guarded:
    """A strided array inside a host image of its memory, guard bands at both ends."""

    raw: Array
    view: Array
    first: int

    def inside(self, raw: Array) -> Array:
        """The array's elements in another image."""
        return np.ndarray(self.view.shape, self.view.dtype, raw, self.first, self.view.strides)


def guarded(operand: Operand, offset: int, poison: int) -> Guarded:
    """Memory for an operand whose first element is ``offset`` elements past a 16-byte boundary."""
    kind = numpy_dtype(operand.dtype)
    reach = [(extent - 1) * stride for extent, stride in zip(operand.shape, operand.strides, strict=True)]
    empty = 0 in operand.shape
    low = 0 if empty else sum(min(0, r) for r in reach)
    span = 0 if empty else sum(abs(r) for r in reach) + 1
    first = GUARD + (offset + -(low // 16) * 16) * kind.itemsize
    raw = np.full(first + span * kind.itemsize + GUARD, poison, np.uint8)
    strides = tuple(stride * kind.itemsize for stride in operand.strides)
    return Guarded(raw, np.ndarray(operand.shape, kind, raw, first, strides), first)


@dataclass
class Trial:
    """One case with values.

    Attributes
    ----------
    case : Case
    generator : str
        Of A and B, as tests.generators has them.
    strides : mapping of str to tuple of int
        Strides that are none of the layout's.
    offsets : mapping of str to int
        Elements past a 16-byte boundary, where not the layout's.
    unread_c : bool
        Leave C as it is: NaN.
    """

    case: Case
    generator: str = "wide"
    strides: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    unread_c: bool = False

    def __str__(self) -> str:
        more = [f"{name} {strides}" for name, strides in self.strides.items()]
        more += [f"{name} at {offset}" for name, offset in self.offsets.items()]
        return " ".join([str(self.case), self.generator, *more])

    def _operand(self, name: str) -> Operand:
        found = self.case.operand(name)
        return replace(found, strides=self.strides.get(name, found.strides))

    @cached_property
    def arrays(self) -> dict[str, Guarded]:
        """Every array by the name that kernels know it by, inputs filled."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        made: dict[str, Guarded] = {}
        for name, (dtype, shape) in self.case.product.shapes.items():
            usual = self.case.layout.offset if name in ("a", "b", "c", "d") else 0
            poison = UNWRITTEN if name == "d" else AROUND
            made[name] = guarded(self._operand(name), self.offsets.get(name, usual), poison)
            if name in ("a", "b"):
                made[name].view[...] = generate(self.generator, rng, shape, dtype, is_a=name == "a")
            elif name != "d" and not (name == "c" and self.unread_c):
                made[name].view[...] = generate("normal", rng, shape, dtype)
        return made

    @cached_property
    def problem(self) -> GemmProblem:
        """The problem that ``gemm`` poses for it."""
        product = self.case.product
        operands: dict[str, Any] = {name: self._operand(name) for name in product.shapes}
        found, _ = pose(
            operands.pop("a"), operands.pop("b"), operands.pop("c", None), d=operands.pop("d"),
            alpha=product.alpha, beta=product.beta, epilogue=product.epilogue, **operands,
        )  # fmt: skip
        return found

    def tiles(self, arch: str) -> list[Lowering]:
        """The lowering with each instance on offer."""
        alignment = {name: math.gcd(x.first, 16) for name, x in self.arrays.items()}
        return tiles_for(self.problem, self.case.product.configuration, arch, alignment)

    def tile(self, arch: str) -> Lowering:
        """The one that the case's name picks, so that every tile gets its share of the cases."""
        offered = self.tiles(arch)
        return offered[zlib.crc32(str(self.case).encode()) % len(offered)]

    def predicted(self, arch: str) -> UnitRun:
        """The CPU run of the same Plan."""
        product, x = self.case.product, {name: array.view for name, array in self.arrays.items()}
        whole = (*product.batch, product.m, product.n)
        extras = {
            name: np.broadcast_to(x[name], whole)
            for name in ("bias", "scale_rows", "scale_cols")
            if name in x
        }
        return units.run(self.problem, product.configuration, arch, x["a"], x["b"], x.get("c"), **extras)

    def run(
        self, found: Lowering, edit: Edit = str, *, blocks: int | None = None
    ) -> tuple[Array, tuple[str, ...]]:
        """D's memory after a run on the device, and the flags; as :meth:`OnDevice.launch`."""
        placed = OnDevice(self, found)
        placed.launch(edit, blocks=blocks)
        return placed.result()

    def faults(self, back: Array, flags: tuple[str, ...], expected: UnitRun) -> list[str]:
        """What a run on the device did otherwise than the CPU run."""
        product, d = self.case.product, self.arrays["d"]
        wanted = np.ascontiguousarray(expected.array)
        allowed = tolerance(product.activation, product.configuration.accumulator, product.result_dtype)
        bad = differing(np.ascontiguousarray(d.inside(back)), wanted, allowed)
        around = d.raw.copy()
        d.inside(around)[...] = d.inside(back)
        found = []
        if bad.any():
            first = tuple(int(i) for i in np.argwhere(bad)[0])
            value = d.inside(back)[first]
            found.append(f"{np.count_nonzero(bad)} wrong, first {first}: {value!r} for {wanted[first]!r}")
        if not np.array_equal(around, back):
            found.append(f"wrote {np.count_nonzero(around != back)} bytes outside D")
        if set(flags) != set(expected.flags):
            found.append(f"flags {flags} for {expected.flags}")
        return found


class OnDevice:
    """A trial's arrays, poisoned workspace and flags on the device; every pointer by its name.

    Parameters
    ----------
    trial : Trial
    found : Lowering
    stream : int
        Of everything that is queued.
    """

    def __init__(self, trial: Trial, found: Lowering, stream: int = device.LEGACY) -> None:
        self.trial, self.found, self.stream = trial, found, stream
        self._memory = {name: self._upload(x.raw) for name, x in trial.arrays.items()}
        self._flags = device.allocate_zeroed(4, 0, stream)
        self._workspace = self._upload(np.full(found.workspace_bytes, AROUND, np.uint8))
        self.pointers = {name: self._memory[name].pointer + x.first for name, x in trial.arrays.items()}

    def _upload(self, raw: Array) -> device.Buffer:
        made = device.allocate(raw.nbytes, 0, self.stream)
        device.copy_to_device(made.pointer, raw, 0, self.stream)
        return made

    def launch(self, edit: Edit = str, *, blocks: int | None = None) -> None:
        """Queue the product; ``edit`` changes its source, and ``blocks`` is the whole grid where given."""
        given = {"workspace": self._workspace.pointer, "flags": self._flags.pointer}
        for launch in self.found.launches(self.pointers, **given):
            one, is_product = launch.instance, launch.instance == self.found.instance
            source = edit(one.source()) if is_product else one.source()
            grid = (blocks, 1, 1) if blocks and is_product else launch.grid
            device.launch(
                device.compiled(source, one.entry, shared_bytes=one.shared_bytes),
                grid, (one.threads, 1, 1), self.stream, launch.arguments,
                maps=launch.maps, pointers=launch.pointers, programmatic=one.programmatic,
            )  # fmt: skip

    def result(self) -> tuple[Array, tuple[str, ...]]:
        """D's memory, and the flags; waits for what is queued."""
        nbytes = self.trial.arrays["d"].raw.nbytes
        back = device.copy_to_host(self._memory["d"].pointer, nbytes, 0, self.stream)
        word = int(device.copy_to_host(self._flags.pointer, 4, 0, self.stream).view(np.uint32)[0])
        return back, tuple(name for bit, name in FLAGS.items() if word & bit)
