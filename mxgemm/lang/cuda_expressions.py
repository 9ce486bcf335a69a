"""IR expressions as CUDA C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir
from mxgemm.lang.cuda_types import C_TYPES, SUFFIXES, Names, literal
from mxgemm.lang.functions import FUNCTIONS
from mxgemm.lang.types import ArrayType, Scalar, float32, float64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["ArrayText", "ExpressionText", "stripped"]

_INFIX: Final[dict[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "and": "&", "or": "|", "xor": "^",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip

#: CUDA's names of the functions whose names differ from the table's.
_C_FUNCTIONS: Final[dict[str, str]] = {"gamma": "tgamma"}
_AXIS: Final = "xyz"


class ArrayText:
    """How an array is written: its pointer, extents and element strides."""

    def __init__(
        self, array: ArrayType, pointer: str, extents: Sequence[str], strides: Sequence[str]
    ) -> None:
        self.type = array
        self.pointer = pointer
        self.extents = tuple(extents)
        self.strides = tuple(strides)  # empty: contiguous in the layout's order
        self.constant = array.space == "constant"


class ExpressionText:
    """Writes expressions; remembers which extents and strides it used."""

    def __init__(self, names: Names, variants: dict[str, set[Scalar]], arrays: dict[str, ArrayText]) -> None:
        self.names = names
        self.variants = variants
        self.arrays = arrays

    def variable(self, name: str, scalar: Scalar) -> str:
        """The C variable of an IR local."""
        several = len(self.variants.get(name, ())) > 1
        return self.names.of(name, SUFFIXES[scalar.name] if several else "")

    def text(self, e: ir.Expr) -> str:  # noqa: C901  # one case a node of the IR
        """Write an expression, parenthesised where it needs it."""
        match e:
            case ir.Const():
                return literal(e.value, e.type)
            case ir.Local():
                return self.variable(e.name, e.type)
            case ir.Register():
                return "mx_lane()" if e.name == "laneid" else f"(int){e.name}.{_AXIS[e.axis]}"
            case ir.Extent():
                return self.arrays[e.array].extents[e.axis]
            case ir.Convert():
                return self.convert(self.text(e.operand), e.operand.type, e.type)
            case ir.Unary():
                return self._unary(e)
            case ir.Binary():
                return self._binary(e)
            case ir.Compare():
                left, right = (self._widened(x) for x in (e.left, e.right))
                return f"({left} {_INFIX[e.operator]} {right})"
            case ir.Logical():
                return f"({self.text(e.left)} {'&&' if e.operator == 'and' else '||'} {self.text(e.right)})"
            case ir.Select():
                return f"({self.text(e.condition)} ? {self.text(e.left)} : {self.text(e.right)})"
            case ir.Math():
                return self._math(e)
            case ir.Load():
                return self.element(e.array, e.indices, e.wraps)

    def _widened(self, e: ir.Expr) -> str:
        """An operand, 16-bit floats as float."""
        return f"mx_{SUFFIXES[e.type.name]}_to_f32({self.text(e)})" if _is_half(e.type) else self.text(e)

    def _narrowed(self, text: str, scalar: Scalar) -> str:
        """A float result in the type it was asked for."""
        return f"mx_{SUFFIXES[scalar.name]}_from_f32({stripped(text)})" if _is_half(scalar) else text

    def convert(self, text: str, source: Scalar, target: Scalar) -> str:
        """A conversion: exact where it can be, else rounded once, saturated or wrapped."""
        if _is_half(source):
            widened = f"mx_{SUFFIXES[source.name]}_to_f32({stripped(text)})"
            return widened if target == float32 else self.convert(widened, float32, target)
        if target.kind == "b":
            return f"({text} != 0)"
        if _is_half(target):
            if source == float32:
                return f"mx_{SUFFIXES[target.name]}_from_f32({stripped(text)})"
            wide = text if source == float64 else f"(double){text}"
            return f"mx_{SUFFIXES[target.name]}_from_f64({stripped(wide)})"
        if source.is_float and target.is_integer:
            return f"mx_{SUFFIXES[target.name]}_from_{SUFFIXES[source.name]}({stripped(text)})"
        if text.startswith("(int)") and target.name == "int32":
            return text
        return f"({C_TYPES[target.name]}){text}"

    def _unary(self, e: ir.Unary) -> str:
        operand = self._widened(e.operand)
        if e.operator == "not":
            return f"!{operand}"
        if e.operator == "invert":
            return f"!{operand}" if e.type.kind == "b" else f"(~{operand})"
        if e.operator == "abs":
            return self._absolute(e, operand)
        if e.type.is_float:
            return self._narrowed(f"(-{operand})", e.type)
        return f"mx_sub_i64(0ll, {stripped(operand)})" if e.type.kind == "i" else f"(0ull - {operand})"

    def _absolute(self, e: ir.Unary, operand: str) -> str:
        if e.type.is_float:
            name = "fabs" if e.type == float64 else "fabsf"
            return self._narrowed(f"{name}({stripped(operand)})", e.type)
        if e.type.kind == "u":
            return operand
        negated = f"mx_sub_i64(0ll, (long long){operand})"
        return f"({operand} < 0 ? ({C_TYPES[e.type.name]}){negated} : {operand})"

    def _binary(self, e: ir.Binary) -> str:
        left, right = self._widened(e.left), self._widened(e.right)
        operator, scalar = e.operator, e.type
        if operator == "pow":
            return self._power(e, left, right)
        if operator in ("lshift", "rshift"):
            return self._shift(e, left, right)
        if operator in ("floordiv", "mod"):
            return f"mx_{operator}_{SUFFIXES[scalar.name]}({stripped(left)}, {stripped(right)})"
        if scalar.name == "int64" and operator in ("add", "sub", "mul"):
            return f"mx_{operator}_i64({stripped(left)}, {stripped(right)})"
        return self._narrowed(f"({left} {_INFIX[operator]} {right})", scalar)

    def _shift(self, e: ir.Binary, left: str, right: str) -> str:
        if isinstance(e.right, ir.Const) and 0 <= int(e.right.value) <= 63:
            shift = int(e.right.value)
            if e.operator == "rshift":
                return f"({left} >> {shift})"
            if e.type.kind == "u":
                return f"({left} << {shift})"
        amount = f"(unsigned long long){right}" if e.right.type.kind != "u" else stripped(right)
        return f"mx_{e.operator}_{SUFFIXES[e.type.name]}({stripped(left)}, {amount})"

    def _power(self, e: ir.Binary, left: str, right: str) -> str:
        if e.right.type.is_float:
            return f"{'powf' if e.type == float32 else 'pow'}({stripped(left)}, {stripped(right)})"
        name = f"mx_pow_{SUFFIXES[e.type.name]}_{SUFFIXES[e.right.type.name]}"
        return f"{name}({stripped(left)}, {stripped(right)})"

    def _math(self, e: ir.Math) -> str:
        operand = e.arguments[0].type
        texts = [stripped(self._widened(a)) for a in e.arguments]
        if FUNCTIONS[e.name].kind == "integer":
            return self._bits(e, texts[0])
        if e.name in ("min", "max") and operand.is_integer:
            sign = "<" if e.name == "min" else ">"
            left, right = (self.text(a) for a in e.arguments)
            return f"({right} {sign} {left} ? {right} : {left})"
        if e.name in ("radians", "degrees"):
            factor = literal(
                3.141592653589793 / 180 if e.name == "radians" else 180 / 3.141592653589793, float64
            )
            return f"({texts[0]} * {'(float)' if e.type == float32 else ''}{factor})"
        if e.name in ("isnan", "isinf", "isfinite"):
            return f"(bool){e.name}({texts[0]})"
        name = {"min": "fmin", "max": "fmax"}.get(e.name, _C_FUNCTIONS.get(e.name, e.name))
        suffix = "" if operand == float64 else "f"
        return self._narrowed(f"{name}{suffix}({', '.join(texts)})", e.type)

    def _bits(self, e: ir.Math, text: str) -> str:
        operand = e.arguments[0].type
        wide = operand.bits == 64
        unsigned = f"({C_TYPES[f'uint{operand.bits}']})({text})"
        if e.name == "brev":
            return f"__brev{'ll' if wide else ''}({text})"
        if e.name == "popc":
            inner = f"__popc{'ll' if wide else ''}({unsigned})"
        elif e.name == "clz":
            inner = f"__clz{'ll' if wide else ''}({'(long long)' if wide else '(int)'}{unsigned})"
            inner = f"({inner} - {32 - operand.bits})" if operand.bits < 32 else inner
        else:
            inner = f"__ffs{'ll' if wide else ''}({'(long long)' if wide else '(int)'}{unsigned})"
        return f"({C_TYPES[e.type.name]}){inner}"

    def element(self, array: str, indices: Iterable[ir.Expr], wraps: Sequence[bool]) -> str:
        """An array element."""
        text = self.arrays[array]
        return f"{text.pointer}[{stripped(self.offset(text, list(indices), wraps))}]"

    def offset(self, array: ArrayText, indices: list[ir.Expr], wraps: Sequence[bool]) -> str:
        """The element offset of (leading) indices."""
        if not indices:
            return "0"
        terms = []
        for axis, index in enumerate(indices):
            text = self.text(index)
            if not wraps or wraps[axis]:
                text = f"mx_wrap({stripped(text)}, {array.extents[axis]})"
            terms.append(text)
        if array.strides:
            return " + ".join(f"{_factor(t)} * {s}" for t, s in zip(terms, array.strides, strict=False))
        if array.type.layout == "F":
            terms, extents = terms[::-1], array.extents[::-1]
        else:
            extents = array.extents
        offset = terms[0]
        for term, extent in zip(terms[1:], extents[1:], strict=False):
            offset = f"{_factor(offset)} * {extent} + {term}"
        for extent in extents[len(terms) :]:
            offset = f"{_factor(offset)} * {extent}"
        return offset


def _is_half(scalar: Scalar) -> bool:
    return scalar.is_float and scalar.bits == 16


def _factor(text: str) -> str:
    return f"({text})" if " " in text and not _enclosed(text) else text


def _enclosed(text: str) -> bool:
    """True when one pair of parentheses (after an optional function name) spans the whole text."""
    start = text.find("(")
    if start < 0 or not text.endswith(")") or (not text[:start].isidentifier() and start > 0):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0 and position > start:
            return position == len(text) - 1
    return False


def stripped(text: str) -> str:
    """``text`` without parentheses that span it whole."""
    return text[1:-1] if text.startswith("(") and _enclosed(text) else text
