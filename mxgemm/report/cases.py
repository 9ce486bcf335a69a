"""Cases: products for evidence, as values that can be lowered without a device and kept as JSON.

A :class:`Product` is all that decides values, a :class:`Layout` how the arrays lie.  A result depends on
the Product alone, bit for bit, so that one CPU run serves every Layout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any, Literal

from mxgemm import kernels
from mxgemm.configs import Configuration, configuration
from mxgemm.epilogue import Activation, EpilogueSpec
from mxgemm.kernels.names import SIZES
from mxgemm.problem import GemmProblem, check_dtypes, default_out_dtype, pose
from mxgemm.shapes import Operand

__all__ = ["CLAMP", "MULTIPROCESSORS", "Case", "Layout", "Order", "Product", "strides_of"]

Order = Literal["row", "column", "steps", "reversed"]
BiasAxis = Literal["columns", "rows", "entries"]

CLAMP = (-3, 5)
"""The bounds of every case with "clamp"."""

MULTIPROCESSORS = 132
"""Of the H200 that evidence is measured on; it decides which tile a problem gets."""

_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Product:
    """All that decides the values of a result, but for the operands' own.

    Attributes
    ----------
    dtype_a, dtype_b, precision : str
    m, n, k : int
    batch : tuple of int
    out_dtype : str or None
        None is the default for the operands' types.
    alpha, beta : float or int
    c_dtype : str or None
        Element type of C; None without C.
    activation : str
        As in :class:`mxgemm.epilogue.EpilogueSpec`; "clamp" has the bounds :data:`CLAMP`.
    bias : str or None
        "columns" (N,), "rows" (M, 1) or "entries" (M, N), of the accumulator's type.
    scale_rows, scale_cols : bool
        Whether the factors take part, of the accumulator's type.
    """

    dtype_a: str
    dtype_b: str
    precision: str
    m: int
    n: int
    k: int
    batch: tuple[int, ...] = ()
    out_dtype: str | None = None
    alpha: float = 1
    beta: float = 0
    c_dtype: str | None = None
    activation: Activation = "identity"
    bias: BiasAxis | None = None
    scale_rows: bool = False
    scale_cols: bool = False

    @property
    def configuration(self) -> Configuration:
        """The row of the table."""
        return configuration(self.dtype_a, self.dtype_b, self.precision)

    @property
    def result_dtype(self) -> str:
        """Element type of D."""
        return self.out_dtype or default_out_dtype(self.dtype_a)

    @property
    def shapes(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of every array by the name that kernels know it by, op() applied."""
        accumulator = self.configuration.accumulator
        spread = {"columns": (self.n,), "rows": (self.m, 1), "entries": (self.m, self.n)}
        found: dict[str, tuple[str, tuple[int, ...]]] = {
            "a": (self.dtype_a, (*self.batch, self.m, self.k)),
            "b": (self.dtype_b, (*self.batch, self.k, self.n)),
            "d": (self.result_dtype, (*self.batch, self.m, self.n)),
        }
        if self.c_dtype:
            found["c"] = (self.c_dtype, (*self.batch, self.m, self.n))
        if self.bias:
            found["bias"] = (accumulator, spread[self.bias])
        if self.scale_rows:
            found["scale_rows"] = (accumulator, (self.m, 1))
        if self.scale_cols:
            found["scale_cols"] = (accumulator, (1, self.n))
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays: what must move at least, each array once."""
        return sum(SIZES[dtype] * math.prod(shape) for dtype, shape in self.shapes.values())

    @property
    def epilogue(self) -> EpilogueSpec:
        """The epilogue's hashable part."""
        low, high = CLAMP if self.activation == "clamp" else (0, 0)
        return EpilogueSpec(self.activation, low, high, bool(self.bias), self.scale_rows, self.scale_cols)

    @property
    def work(self) -> int:
        """Products of two numbers."""
        return math.prod(self.batch) * self.m * self.n * self.k

    def __str__(self) -> str:
        c = f"+{self.beta}C" if self.c_dtype else ""
        scales = "".join(w for there, w in ((self.scale_rows, "+rows"), (self.scale_cols, "+cols")) if there)
        batch = "x".join(map(str, (*self.batch, ""))) if self.batch else ""
        types = self.dtype_a if self.dtype_a == self.dtype_b else f"{self.dtype_a}*{self.dtype_b}"
        bias = f"+bias {self.bias}" if self.bias else ""
        scalars = f" {self.alpha}{c}" if (self.alpha, self.beta) != (1, 0) else ""
        epilogue = f" {self.activation}{bias}{scales}" if self.epilogue != EpilogueSpec() else ""
        return (
            f"{types}/{self.precision} {batch}{self.m}x{self.n}x{self.k} -> {self.result_dtype}"
            f"{scalars}{epilogue}"
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How the arrays lie.

    Attributes
    ----------
    a, b, d : str
        "row" and "column": unit stride along columns or rows; "steps": every second element of a row;
        "reversed": rows from their last element on.  C lies as D.
    padding : int
        Elements between the rows (columns) of A, B, C and D, and between matrices of a batch.
    offset : int
        Elements by which A, B, C and D start past a 16-byte boundary.
    transposed : bool
        Whether A and B are handed over transposed, with transpose_a and transpose_b.
    """

    a: Order = "row"
    b: Order = "row"
    d: Order = "row"
    padding: int = 0
    offset: int = 0
    transposed: bool = False

    def __str__(self) -> str:
        extra = ((self.padding, f"padding {self.padding}"), (self.offset, f"offset {self.offset}"))
        words = [*(w for there, w in extra if there), *(["transposed"] if self.transposed else [])]
        return ", ".join([f"{self.a}*{self.b}->{self.d}", *words])

    def order_of(self, name: str) -> Order:
        """The order of an array by its name; the epilogue's arrays are row-major."""
        return {"a": self.a, "b": self.b, "c": self.d, "d": self.d}.get(name, "row")


def strides_of(shape: tuple[int, ...], order: Order, padding: int) -> tuple[int, ...]:
    """Element strides of an array of ``shape``, (…, rows, columns), in a layout's order."""
    if len(shape) == 1:
        return (1,)
    rows, cols = shape[-2:]
    if order == "column":
        inner, span = (1, rows + padding), cols * (rows + padding)
    elif order == "steps":
        inner, span = (2 * cols + padding, 2), rows * (2 * cols + padding)
    else:
        inner, span = (cols + padding, -1 if order == "reversed" else 1), rows * (cols + padding)
    outer: list[int] = []
    step = max(span, 1) + padding
    for extent in reversed(shape[:-2]):
        outer.insert(0, step)
        step = step * extent + padding
    return (*outer, *inner)


@dataclass(frozen=True, slots=True)
class Case:
    """A product with arrays that lie in one way."""

    product: Product
    layout: Layout = field(default_factory=Layout)

    def operand(self, name: str) -> Operand:
        """Type, shape and strides of one array, op() applied."""
        dtype, shape = self.product.shapes[name]
        padding = self.layout.padding if name in ("a", "b", "c", "d") else 0
        return Operand(dtype, shape, strides_of(shape, self.layout.order_of(name), padding))

    @property
    def alignment(self) -> Mapping[str, int]:
        """Bytes that each pointer is aligned to, as :func:`mxgemm.kernels.lower` takes them."""
        names = [name for name in self.product.shapes if name in ("a", "b", "c", "d")]
        sizes = {name: SIZES[self.product.shapes[name][0]] for name in names}
        return {name: math.gcd(self.layout.offset * size, _ALIGNMENT) for name, size in sizes.items()}

    @property
    def problem(self) -> GemmProblem:
        """The problem that ``gemm`` poses for it.

        Raises
        ------
        DTypeError
            For types that the configuration does not give.
        """
        product = self.product
        operands: dict[str, Any] = {name: self.operand(name) for name in product.shapes}
        problem, _ = pose(
            operands.pop("a"), operands.pop("b"), operands.pop("c", None),
            alpha=product.alpha, beta=product.beta, out_dtype=product.result_dtype,
            epilogue=product.epilogue, **operands,
        )  # fmt: skip
        check_dtypes(problem, product.configuration)
        return problem

    def lowering(self, arch: str) -> kernels.Lowering:
        """What would run on ``arch``.

        Raises
        ------
        UnsupportedError
            When no kernel family computes it there.
        """
        return _lowering(self, arch)

    def as_json(self) -> dict[str, Any]:
        """Product and layout as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Case:
        """The case that :meth:`as_json` wrote."""
        product = {**values["product"], "batch": tuple(values["product"]["batch"])}
        return cls(Product(**product), Layout(**values["layout"]))

    def __str__(self) -> str:
        return f"{self.product}, {self.layout}"


@lru_cache(maxsize=16384)
def _lowering(case: Case, arch: str) -> kernels.Lowering:
    return kernels.lower(
        case.problem, case.product.configuration, arch,
        alignment=case.alignment, multiprocessors=MULTIPROCESSORS,
    )  # fmt: skip
