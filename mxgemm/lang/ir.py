"""The typed IR of a kernel: structured statements over typed expressions, each with its place.

Loops stay loops and indices stay expressions, so that an affine index can be read off the tree.
Every conversion is a node (``Convert``): the operands of a ``Binary`` have the type in which it
computes.  Values are immutable; a pass returns a new tree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mxgemm.lang.types import ArrayType, Scalar, TupleType, Type, boolean, int32, int64

if TYPE_CHECKING:
    from mxgemm.lang.place import Place

__all__ = [
    "ArrayDeclaration",
    "Assign",
    "Atomic",
    "Barrier",
    "Binary",
    "BindView",
    "Break",
    "Call",
    "Collective",
    "Compare",
    "Const",
    "Continue",
    "Convert",
    "Expr",
    "Extent",
    "Fence",
    "For",
    "Function",
    "If",
    "Kernel",
    "Load",
    "Local",
    "Logical",
    "Math",
    "Register",
    "Return",
    "Select",
    "Statement",
    "Store",
    "Unary",
    "While",
]


@dataclass(frozen=True)
class Const:
    """A literal; ``value`` is a Python bool, int or float."""

    place: Place
    type: Scalar
    value: bool | int | float


@dataclass(frozen=True)
class Local:
    """A scalar variable: one for each pair of name and type, as flow-sensitive typing makes them."""

    place: Place
    type: Scalar
    name: str


@dataclass(frozen=True)
class Register:
    """``threadIdx``, ``blockIdx``, ``blockDim`` or ``gridDim`` along x, y or z; ``laneid``."""

    place: Place
    name: str
    axis: int = 0
    type: Scalar = int32


@dataclass(frozen=True)
class Extent:
    """The extent of ``array`` along ``axis``."""

    place: Place
    array: str
    axis: int
    type: Scalar = int64


@dataclass(frozen=True)
class Convert:
    """``operand`` in another scalar type."""

    place: Place
    type: Scalar
    operand: Expr


@dataclass(frozen=True)
class Unary:
    """``neg``, ``invert``, ``not`` or ``abs``."""

    place: Place
    type: Scalar
    operator: str
    operand: Expr


@dataclass(frozen=True)
class Binary:
    """Arithmetic, bit operations and shifts; see ``promotion`` for operators and operand types."""

    place: Place
    type: Scalar
    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Compare:
    """A comparison of two operands of one type."""

    place: Place
    operator: str
    left: Expr
    right: Expr
    type: Scalar = boolean


@dataclass(frozen=True)
class Logical:
    """``and`` / ``or`` of bools; the right operand is evaluated only where it decides."""

    place: Place
    operator: str
    left: Expr
    right: Expr
    type: Scalar = boolean


@dataclass(frozen=True)
class Select:
    """``left if condition else right``; only the chosen operand is evaluated."""

    place: Place
    type: Scalar
    condition: Expr
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Math:
    """A function of the table in ``functions``; operands are converted."""

    place: Place
    type: Scalar
    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Load:
    """An element of an array. ``wraps[i]``: index i may be negative and then counts from the end."""

    place: Place
    type: Scalar
    array: str
    indices: tuple[Expr, ...]
    wraps: tuple[bool, ...] = ()


Expr = Const | Local | Register | Extent | Convert | Unary | Binary | Compare | Logical | Select | Math | Load


@dataclass(frozen=True)
class Assign:
    """``target = value``."""

    place: Place
    target: Local
    value: Expr


@dataclass(frozen=True)
class Store:
    """Write one element."""

    place: Place
    array: str
    indices: tuple[Expr, ...]
    value: Expr
    wraps: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Atomic:
    """A read-modify-write of one element; ``target`` receives the old value."""

    place: Place
    operator: str
    array: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]
    target: Local | None
    wraps: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Collective:
    """A warp operation (shuffle, vote, match); ``targets`` receive its results."""

    place: Place
    operator: str
    arguments: tuple[Expr, ...]
    targets: tuple[Local, ...]


@dataclass(frozen=True)
class Barrier:
    """``block``: syncthreads, with an optional vote over ``predicate``; ``warp``: syncwarp."""

    place: Place
    scope: str
    mask: Expr | None = None
    predicate: Expr | None = None
    target: Local | None = None


@dataclass(frozen=True)
class Fence:
    """A memory fence: ``device``, ``block`` or ``system``."""

    place: Place
    scope: str


@dataclass(frozen=True)
class BindView:
    """``name`` is ``base`` with its first indices fixed (a row of a matrix)."""

    place: Place
    name: str
    base: str
    indices: tuple[Expr, ...]
    type: ArrayType
    wraps: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Call:
    """A call of a device function; arrays are passed by name."""

    place: Place
    function: str
    arguments: tuple[Expr | str, ...]
    targets: tuple[Local, ...]


@dataclass(frozen=True)
class If:
    """A branch."""

    place: Place
    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class For:
    """``for target in range(start, stop, step)``; ``target`` is assigned as each iteration starts."""

    place: Place
    target: Local
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class While:
    """``while condition``."""

    place: Place
    condition: Expr
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Break:
    """Leave the innermost loop."""

    place: Place


@dataclass(frozen=True)
class Continue:
    """Start the innermost loop's next iteration."""

    place: Place


@dataclass(frozen=True)
class Return:
    """Leave the kernel or the device function."""

    place: Place
    values: tuple[Expr, ...] = ()


Statement = (
    Assign | Store | Atomic | Collective | Barrier | Fence | BindView | Call | If | For | While
    | Break | Continue | Return
)  # fmt: skip


@dataclass(frozen=True)
class ArrayDeclaration:
    """A shared, local or constant array; constants carry their elements as bytes in C order."""

    place: Place
    name: str
    type: ArrayType
    data: bytes = b""

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory a block; 0 for other arrays, and for dynamic ones."""
        static = self.type.space == "shared" and -1 not in (self.type.shape or ())
        return math.prod(self.type.shape or ()) * self.type.element.itemsize if static else 0


@dataclass(frozen=True)
class Function:
    """A device function, specialised for its argument types."""

    place: Place
    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Scalar | TupleType | None
    body: tuple[Statement, ...]
    arrays: tuple[ArrayDeclaration, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """A kernel, specialised for its argument types, with the device functions it calls."""

    place: Place
    name: str
    parameters: tuple[tuple[str, Type], ...]
    body: tuple[Statement, ...]
    arrays: tuple[ArrayDeclaration, ...] = ()
    functions: tuple[Function, ...] = ()
    written: frozenset[str] = field(default_factory=frozenset)

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory that a block's declarations take."""
        roots: tuple[Kernel | Function, ...] = (self, *self.functions)
        return sum(declared.shared_bytes for root in roots for declared in root.arrays)

    def __str__(self) -> str:
        from mxgemm.lang.show import show

        return show(self)
