"""Lowering of Python expressions to typed IR."""

from __future__ import annotations

import ast
import types as python_types
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.lang import ir
from mxgemm.lang.context import describe
from mxgemm.lang.operators import OperatorLowering
from mxgemm.lang.scope import ArrayValue, StaticValue, TupleValue, Value
from mxgemm.lang.stubs import Stub
from mxgemm.lang.types import ArrayType, Scalar, int64, scalar_of_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxgemm.lang.place import Place

__all__ = ["ExpressionLowering"]


class ExpressionLowering(OperatorLowering):
    """Adds names, attributes and subscripts to operators."""

    def _lower_Constant(self, node: ast.Constant) -> Value:
        if isinstance(node.value, (str, bytes, complex)) or node.value is Ellipsis:
            raise self.refuse(node, f"{type(node.value).__name__} literals are not part of the dialect")
        return self.constant(self.place(node), node.value)

    def _lower_Name(self, node: ast.Name) -> Value:
        if node.id in self.local_names:
            return self.variable(node)
        found, value = self.source.outer(node.id)
        if not found:
            raise self.refuse(node, f"the name {node.id!r} is not defined")
        if isinstance(value, np.ndarray):
            return self.constant_array(node, value)
        return self.constant(self.place(node), value)

    def constant_array(self, node: ast.AST, value: Any) -> ArrayValue:
        """A host array known at compile time, as a constant array."""
        contiguous = np.ascontiguousarray(value)
        element = scalar_of_dtype(contiguous.dtype)
        if contiguous.ndim == 0 or contiguous.nbytes > 65536:
            raise self.refuse(node, "constant arrays have 1 or more axes and at most 65536 bytes")
        data = contiguous.tobytes()
        array_type = ArrayType(element, contiguous.ndim, "C", "constant", contiguous.shape)
        for declared in self.arrays.values():
            if declared.type == array_type and declared.data == data:
                return ArrayValue(declared.name, array_type)
        name = self.array_hint or "constant"
        if name in self.arrays or name in self.source.parameters:
            name = f"{name}.{len(self.arrays)}"
        self.arrays[name] = ir.ArrayDeclaration(self.place(node), name, array_type, data)
        return ArrayValue(name, array_type)

    def _lower_Tuple(self, node: ast.Tuple) -> Value:
        return TupleValue(tuple(self.evaluate_all(node.elts)))

    def _lower_Attribute(self, node: ast.Attribute) -> Value:
        base = self.evaluate(node.value)
        place = self.place(node)
        if isinstance(base, StaticValue):
            return self._static_attribute(node, base.object)
        if isinstance(base, ArrayValue):
            return self._array_attribute(node, base)
        raise self.refuse(node, f"{describe(base)} has no attribute {node.attr!r} in the dialect ({place})")

    def _static_attribute(self, node: ast.Attribute, base: Any) -> Value:
        place = self.place(node)
        if isinstance(base, Scalar):
            if node.attr == "type":  # a NumPy element type's class; here both are the type itself
                return StaticValue(base)
            raise self.refuse(node, f"an element type has type and calls in the dialect, not {node.attr!r}")
        try:
            value = getattr(base, node.attr)
        except AttributeError as error:
            raise self.refuse(node, str(error)) from None
        if isinstance(value, Stub):
            family, _, axis = value.name.partition(".")
            if axis in ("x", "y", "z"):
                return ir.Register(place, family, "xyz".index(axis))
            if value.name in ("laneid", "warpsize"):
                return (
                    ir.Const(place, int64, 32) if value.name == "warpsize" else ir.Register(place, "laneid")
                )
            return StaticValue(value)
        if isinstance(base, (python_types.ModuleType, type, Stub)) or callable(value):
            return (
                self.constant_array(node, value)
                if isinstance(value, np.ndarray)
                else self.constant(place, value)
            )
        raise self.refuse(node, f"attribute {node.attr!r} of {base!r} is not known to the dialect")

    def _array_attribute(self, node: ast.Attribute, base: ArrayValue) -> Value:
        place = self.place(node)
        if node.attr == "shape":
            return TupleValue(tuple(self.extent(place, base, axis) for axis in range(base.type.ndim)))
        if node.attr == "ndim":
            return ir.Const(place, int64, base.type.ndim)
        if node.attr == "size":
            extents = [self.extent(place, base, axis) for axis in range(base.type.ndim)]
            size = extents[0] if extents else ir.Const(place, int64, 1)
            for extent in extents[1:]:
                size = ir.Binary(place, int64, "mul", size, extent)
            return size
        if node.attr == "dtype":
            return StaticValue(base.type.element)
        if node.attr == "T" and base.type.ndim == 1:
            return base
        raise self.refuse(
            node, f"arrays have shape, size, ndim, dtype and indexing in the dialect, not {node.attr!r}"
        )

    def extent(self, place: Place, array: ArrayValue, axis: int) -> ir.Expr:
        """The extent of ``array`` along ``axis``."""
        if array.type.shape is not None and array.type.shape[axis] >= 0:
            return ir.Const(place, int64, array.type.shape[axis])
        return ir.Extent(place, array.name, axis)

    def _lower_Subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        place = self.place(node)
        if isinstance(base, TupleValue):
            return self._tuple_item(node, base)
        if not isinstance(base, ArrayValue):
            raise self.refuse(node, f"{describe(base)} cannot be indexed")
        indices = self.indices(node, base)
        if len(indices) == base.type.ndim:
            return ir.Load(place, base.type.element, base.name, indices)
        return self.view(place, base, indices)

    def view(self, place: Place, base: ArrayValue, indices: tuple[ir.Expr, ...]) -> ArrayValue:
        """A row (or plane) of an array, its first indices fixed."""
        view_type = ArrayType(
            base.type.element,
            base.type.ndim - len(indices),
            "C" if base.type.layout == "C" else "A",
            base.type.space,
            None if base.type.shape is None else base.type.shape[len(indices) :],
        )
        name = self.view_names.setdefault(place, f".view{len(self.view_names)}")
        self.emit(ir.BindView(place, name, base.name, indices, view_type))
        return ArrayValue(name, view_type)

    def _tuple_item(self, node: ast.Subscript, base: TupleValue) -> Value:
        index = self.evaluate(node.slice)
        if not isinstance(index, ir.Const) or not isinstance(index.value, int):
            raise self.refuse(node, "a tuple is indexed by a constant in the dialect")
        if not -len(base.items) <= index.value < len(base.items):
            raise self.refuse(node, f"index {index.value} is outside a tuple of {len(base.items)} items")
        return base.items[index.value]

    def indices(self, node: ast.Subscript, base: ArrayValue) -> tuple[ir.Expr, ...]:
        """The integer indices of a subscript."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part in parts:
            if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is Ellipsis):
                raise self.refuse(
                    part,
                    "slices inside a kernel are not part of the dialect; index elements, or rows as a[i]",
                )
        return self.index_values(node, self.evaluate_all(parts), base)

    def index_values(self, node: ast.AST, values: Sequence[Value], base: ArrayValue) -> tuple[ir.Expr, ...]:
        """Check index values: integers, at most one an axis; a tuple stands for its items."""
        flat: list[ir.Expr] = []
        for value in values:
            items = value.items if isinstance(value, TupleValue) else (value,)
            flat += [self.scalar(node, item) for item in items]
        if len(flat) > base.type.ndim or len(flat) < min(1, base.type.ndim):
            raise self.refuse(node, f"{len(flat)} indices for an array with {base.type.ndim} axes")
        for index in flat:
            if not index.type.is_integer:
                raise self.refuse(node, f"an index of type {index.type}; indices are integers")
        return tuple(self.convert(i, int64) if i.type.kind != "u" else i for i in flat)

    def _lower_Call(self, node: ast.Call) -> Value:
        return self.call(node)

    @abstractmethod
    def call(self, node: ast.Call) -> Value:
        """Lower a call."""
