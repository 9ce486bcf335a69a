"""Building blocks of the mma.sync and scalar families with one fault each, and the cases that meet them."""

from __future__ import annotations

from dataclasses import dataclass

from mxgemm.kernels import Lowering
from mxgemm.report.cases import Case, Layout, Product
from tests.kernels.gpu_trials import Trial

PADDED = "float64 padded with +0"


@dataclass(frozen=True)
class Mutant:
    """A text of a building block, what replaces it, and the case that meets the fault."""

    fault: str
    text: str
    instead: str
    case: Case
    generator: str = "normal"

    def __str__(self) -> str:
        return self.fault

    def trial(self) -> Trial:
        """The case with values."""
        trial = Trial(self.case, self.generator)
        if self.fault == PADDED:  # every sum underflows to -0
            trial.arrays["a"].view[...] = -1e-200
            trial.arrays["b"].view[...] = 1e-200
        return trial

    def lowering(self, trial: Trial, arch: str) -> Lowering:
        """The largest tile's."""
        return trial.tiles(arch)[0]

    def __call__(self, source: str) -> str:
        assert self.text in source, f"no building block says {self.text!r}"
        return source.replace(self.text, self.instead)


def product(dtype: str, precision: str, m: int, n: int, k: int) -> Product:
    return Product(dtype, dtype, precision, m, n, k)


F16 = Case(product("float16", "native", 512, 512, 2048))
EVEN = Case(product("float16", "native", 261, 277, 75), Layout("column", "row", padding=3))
UNALIGNED = Case(product("float16", "native", 261, 277, 75), Layout("row", "column"))
TF32 = Case(product("float32", "tf32", 64, 64, 64))
F64 = Case(product("float64", "native", 65, 67, 33))
SCALAR = Case(product("float32", "scalar", 65, 67, 33))
CHAINS = Case(Product("bfloat16", "bfloat16", "native", 64, 64, 8200, out_dtype="float32"))
BATCH = Case(Product("float16", "float16", "native", 33, 40, 17, batch=(3, 2)))

WAIT = "        if constexpr (ASYNC) wait_for_copies<STAGES - 2>();\n        __syncthreads();\n"
BANDS = "        bands.write(band, staging);\n        __syncthreads();\n"
BARRIER = "        __syncthreads();\n"
LOOP = "left > 0; left -= DEPTH"
ROWS = "< (K_MAJOR ? extent_left : depth_left)"
ELEMENTS = "share.row_inside(pass, depth_left) ? share.elements_left(depth_left) : 0;"
STORED = "row >= p.m || col >= p.n"
COLUMNS = "least(p.n - col, i64(VECTOR))"
# One warp writes late, which only a missing barrier lets anybody see.
LATE = "        if (threadIdx.x < 32) __nanosleep(100000);\n"
MUTANTS = (
    Mutant("no barrier before a stage is read", WAIT, WAIT.replace(BARRIER, ""), F16),
    Mutant("last k-tile skipped", LOOP, LOOP.replace("0", "DEPTH"), F16),
    Mutant("last k-tile skipped, scalar", LOOP, LOOP.replace("0", "DEPTH"), SCALAR),
    Mutant("one row too many copied", ROWS, ROWS.replace("<", "<="), EVEN),
    Mutant("one element too many mended", ELEMENTS, ELEMENTS.replace(" : 0", " + 1 : 0"), UNALIGNED),
    Mutant("one element too many copied, scalar", "ROWS) < depth_left", "ROWS) <= depth_left", SCALAR),
    Mutant("one row too many stored", STORED, STORED.replace("row >=", "row >"), F64),
    Mutant("one column too many stored", COLUMNS, COLUMNS.replace("col,", "col + 1,"), EVEN),
    Mutant("no barrier before a band is read", BANDS, LATE + BANDS.replace(BARRIER, ""), F16),
    Mutant("operands cut to tf32", "cvt.rn.tf32.f32", "cvt.rz.tf32.f32", TF32),
    Mutant(PADDED, "Shared(-0.0)", "Shared(0.0)", F64),
    Mutant("chains never end", "++chain_tiles == I::CHAIN_TILES", "++chain_tiles == -1", CHAINS),
    Mutant("one A for a whole batch", "offset.a += position * x.a;", "", BATCH),
)  # fmt: skip
