"""Lowering of the dialect's words: ``cuda.grid``, shared arrays, atomics, barriers, warp operations."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir
from mxgemm.lang.calls import CallLowering
from mxgemm.lang.context import static_scalar
from mxgemm.lang.functions import FUNCTIONS
from mxgemm.lang.promotion import unify
from mxgemm.lang.scope import ArrayValue, StaticValue, TupleValue, Value
from mxgemm.lang.types import (
    SCALARS,
    ArrayType,
    Scalar,
    boolean,
    int32,
    int64,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang.place import Place

__all__ = ["ATOMIC_TYPES", "WordLowering"]

uint32: Final = SCALARS["uint32"]
_WORDS_32_64: Final = frozenset({"int32", "int64", "uint32", "uint64", "float32", "float64"})
_INTEGERS_32_64: Final = frozenset({"int32", "int64", "uint32", "uint64"})

#: Element types that each atomic takes.
ATOMIC_TYPES: Final[dict[str, frozenset[str]]] = {
    "add": _WORDS_32_64, "sub": _WORDS_32_64, "max": _WORDS_32_64, "min": _WORDS_32_64,
    "nanmax": _WORDS_32_64, "nanmin": _WORDS_32_64,
    "and": _INTEGERS_32_64, "or": _INTEGERS_32_64, "xor": _INTEGERS_32_64,
    "inc": frozenset({"uint32", "uint64"}), "dec": frozenset({"uint32", "uint64"}),
    "exch": _WORDS_32_64, "cas": _INTEGERS_32_64,
}  # fmt: skip


class WordLowering(CallLowering):
    """Adds the words of ``cuda`` to calls."""

    def word(self, node: ast.Call, name: str) -> Value:
        """Lower a call of ``cuda.<name>``."""
        family, _, member = name.partition(".")
        if family == "atomic":
            return self._atomic(node, member)
        if member in ("array", "array_like"):
            return self._declare(node, family)
        if name in ("grid", "gridsize"):
            return self._grid(node, name)
        if name in FUNCTIONS:
            return self._function(node, name)
        if name not in _HANDLERS:
            raise self.refuse(node, f"cuda.{name} cannot be called in a kernel")
        handler: Callable[[ast.Call, str], Value] = getattr(self, _HANDLERS[name])
        return handler(node, name)

    def _grid(self, node: ast.Call, name: str) -> Value:
        count = self._static_integer(self._arguments(node, f"cuda.{name}", 1)[0])
        if count not in (1, 2, 3):
            raise self.refuse(node, f"cuda.{name} takes 1, 2 or 3")
        items = tuple(self._grid_axis(self.place(node), name, axis) for axis in range(count))
        return items[0] if count == 1 else TupleValue(items)

    def _grid_axis(self, place: Place, name: str, axis: int) -> ir.Expr:
        def register(register_name: str) -> ir.Expr:
            return ir.Convert(place, int64, ir.Register(place, register_name, axis))

        blocks = register("gridDim" if name == "gridsize" else "blockIdx")
        threads = ir.Binary(place, int64, "mul", blocks, register("blockDim"))
        return (
            threads if name == "gridsize" else ir.Binary(place, int64, "add", threads, register("threadIdx"))
        )

    def _static_integer(self, node: ast.expr) -> int:
        value = self.evaluate(node)
        if isinstance(value, ir.Const) and isinstance(value.value, int):
            return int(value.value)
        raise self.refuse(node, "a constant is needed here: a literal, or a global or closure integer")

    def _shape(self, node: ast.expr) -> tuple[int, ...]:
        value = self.evaluate(node)
        items = value.items if isinstance(value, TupleValue) else (value,)
        extents = []
        for item in items:
            if not isinstance(item, ir.Const) or not isinstance(item.value, int):
                raise self.refuse(
                    node, "the shape of shared and local arrays is constant: literals or outer integers"
                )
            extents.append(int(item.value))
        return tuple(extents)

    def _declare(self, node: ast.Call, space: str) -> ArrayValue:
        keywords = {k.arg: k.value for k in node.keywords}
        if space == "const":
            found = self.evaluate(self._arguments(node, "cuda.const.array_like", 1)[0])
            if isinstance(found, ArrayValue) and found.type.space == "constant":
                return found
            raise self.refuse(node, "cuda.const.array_like takes a NumPy array of an outer scope")
        if set(keywords) - {"shape", "dtype"}:
            raise self.refuse(node, f"cuda.{space}.array takes shape and dtype; alignment is not supported")
        arguments = [
            *node.args,
            *(keywords[k] for k in ("shape", "dtype")[len(node.args) :] if k in keywords),
        ]
        if len(arguments) != 2:
            raise self.refuse(node, f"cuda.{space}.array takes shape and dtype")
        shape, element = self._shape(arguments[0]), self._element_type(arguments[1])
        dynamic = space == "shared" and shape == (0,)
        if not dynamic and (not shape or min(shape) < 1):
            raise self.refuse(node, "extents are positive; shape 0 asks for dynamic shared memory")
        array_type = ArrayType(element, len(shape), "C", space, (-1,) if dynamic else shape)
        place = self.place(node)
        for declared in self.arrays.values():  # the same statement, lowered again by a loop's typing
            if declared.place == place and declared.type == array_type:
                return ArrayValue(declared.name, array_type)
        name = self.array_hint or space
        if name in self.arrays or name in self.source.parameters:
            name = f"{name}.{len(self.arrays)}"
        self.arrays[name] = ir.ArrayDeclaration(place, name, array_type)
        return ArrayValue(name, array_type)

    def _element_type(self, node: ast.expr) -> Scalar:
        text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        value = StaticValue(node.value) if isinstance(node, ast.Constant) and text else self.evaluate(node)
        scalar = static_scalar(value)
        if scalar is None:
            raise self.refuse(node, f"not an element type of the dialect; supported: {', '.join(SCALARS)}")
        return scalar

    def _atomic(self, node: ast.Call, member: str) -> Value:
        operator = member.rstrip("_")
        whole = operator == "compare_and_swap"
        count = {"cas": 4, "compare_and_swap": 3}.get(operator, 3)
        nodes = self._arguments(node, f"cuda.atomic.{member}", count)
        values = self.evaluate_all(nodes)
        array = values[0]
        if not isinstance(array, ArrayValue) or array.type.space == "constant":
            raise self.refuse(node, f"cuda.atomic.{member} takes an array that can be written first")
        place = self.place(node)
        operator = "cas" if whole else operator
        index = [ir.Const(place, int64, 0)] if whole else [values[1]]
        if array.type.space == "local":
            raise self.refuse(node, "atomics work on global and shared arrays; a local array has one thread")
        indices = self.index_values(node, index, array)
        if len(indices) != array.type.ndim:
            raise self.refuse(node, f"cuda.atomic.{member} needs one index an axis ({array.type.ndim})")
        element = array.type.element
        if element.name not in ATOMIC_TYPES[operator]:
            allowed = ", ".join(sorted(ATOMIC_TYPES[operator]))
            raise self.refuse(
                node, f"cuda.atomic.{member} on {element} is not supported; supported: {allowed}"
            )
        rest = list(zip(nodes, values, strict=True))[1 if whole else 2 :]
        operands = tuple(self.convert(self.scalar(n, v), element) for n, v in rest)
        target = self.temporary(place, element)
        self.emit(ir.Atomic(place, operator, array.name, indices, operands, target))
        return target

    def barrier(self, node: ast.Call, name: str) -> Value:
        """``syncthreads`` and its voting forms."""
        place = self.place(node)
        if name == "syncthreads":
            self._arguments_at_most(node, name, 0)
            self.emit(ir.Barrier(place, "block"))
            return StaticValue(None)
        argument = self._arguments(node, f"cuda.{name}", 1)[0]
        predicate = self.truth(node, self.evaluate(argument))
        target = self.temporary(place, int32)
        self.emit(ir.Barrier(place, name.removeprefix("syncthreads_"), None, predicate, target))
        return target

    def _arguments_at_most(self, node: ast.Call, name: str, count: int) -> list[ast.expr]:
        if node.keywords or len(node.args) > count:
            raise self.refuse(node, f"cuda.{name} takes at most {count} positional arguments")
        return node.args

    def warp_barrier(self, node: ast.Call, name: str) -> Value:
        """``syncwarp``."""
        arguments = self._arguments_at_most(node, name, 1)
        mask = self.convert(self.evaluate_scalar(arguments[0]), uint32) if arguments else None
        self.emit(ir.Barrier(self.place(node), "warp", mask))
        return StaticValue(None)

    def fence(self, node: ast.Call, name: str) -> Value:
        """``threadfence`` and its narrower and wider forms."""
        self._arguments_at_most(node, name, 0)
        self.emit(ir.Fence(self.place(node), {"threadfence": "device"}.get(name, name.rpartition("_")[2])))
        return StaticValue(None)

    def warp(self, node: ast.Call, name: str) -> Value:
        """Shuffles, votes and matches; the mask comes first."""
        place = self.place(node)
        counts = {"shfl": 3, "activemask": 0, "lanemask_lt": 0, "match_any_sync": 2, "match_all_sync": 2}
        count = counts.get(name, counts["shfl"] if name.startswith("shfl") else 2)
        nodes = self._arguments_at_most(node, name, count)
        if len(nodes) != count:
            raise self.refuse(node, f"cuda.{name} takes {count} arguments")
        operands = [self.scalar(n, v) for n, v in zip(nodes, self.evaluate_all(nodes), strict=True)]
        arguments, results = self._warp_signature(node, name, operands)
        targets = tuple(self.temporary(place, result) for result in results)
        self.emit(ir.Collective(place, name, arguments, targets))
        return targets[0] if len(targets) == 1 else TupleValue(targets)

    def _warp_signature(
        self, node: ast.Call, name: str, operands: list[ir.Expr]
    ) -> tuple[tuple[ir.Expr, ...], tuple[Scalar, ...]]:
        if not operands:
            return (), (uint32,)
        mask = self.convert(operands[0], uint32)
        if name.startswith("shfl"):
            value = operands[1]
            if value.type.name not in _WORDS_32_64:
                raise self.refuse(node, f"cuda.{name} moves 32- and 64-bit numbers, not {value.type}")
            return (mask, value, self.convert(operands[2], int32)), (value.type,)
        if name.startswith("match"):
            if operands[1].type.name not in _WORDS_32_64:
                raise self.refuse(
                    node, f"cuda.{name} compares 32- and 64-bit numbers, not {operands[1].type}"
                )
            results = (uint32,) if name == "match_any_sync" else (uint32, boolean)
            return (mask, operands[1]), results
        predicate = self.truth(node, operands[1])
        return (mask, predicate), (uint32 if name == "ballot_sync" else boolean,)

    def select(self, node: ast.Call, name: str) -> Value:
        """``selp(condition, a, b)``: both operands are evaluated."""
        nodes = self._arguments(node, f"cuda.{name}", 3)
        values = [self.scalar(n, v) for n, v in zip(nodes, self.evaluate_all(nodes), strict=True)]
        common = unify(values[1].type, values[2].type)
        left, right = (self.spill(self.convert(v, common)) for v in values[1:])
        return ir.Select(self.place(node), common, self.truth(node, values[0]), left, right)


#: The method that lowers each word.
_HANDLERS: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync", "all_sync", "any_sync",
            "eq_sync", "ballot_sync", "match_any_sync", "match_all_sync", "activemask", "lanemask_lt",
        ),
        "warp",
    ),
    **dict.fromkeys(("syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or"), "barrier"),
    **dict.fromkeys(("threadfence", "threadfence_block", "threadfence_system"), "fence"),
    "syncwarp": "warp_barrier",
    "selp": "select",
}  # fmt: skip
