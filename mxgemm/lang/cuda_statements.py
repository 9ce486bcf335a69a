"""IR statements as CUDA C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mxgemm.lang import ir
from mxgemm.lang.cuda_expressions import ArrayText, ExpressionText, stripped
from mxgemm.lang.cuda_types import C_TYPES, SUFFIXES, Names, literal
from mxgemm.lang.rules import BrokenRuleError
from mxgemm.lang.types import Scalar, TupleType
from mxgemm.lang.walk import nodes, statements

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StatementText"]

_ULL: Final = "unsigned long long"
#: How CUDA's atomic functions see a 64-bit signed element.
_ATOMIC_CASTS: Final[dict[str, str]] = {"int64": _ULL}
_ATOMIC_NAMES: Final[dict[str, str]] = {
    "add": "atomicAdd", "max": "atomicMax", "min": "atomicMin", "nanmax": "atomicMax",
    "nanmin": "atomicMin", "and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor", "inc": "atomicInc",
    "dec": "atomicDec", "exch": "atomicExch", "cas": "atomicCAS",
}  # fmt: skip
_FENCES: Final = {"device": "__threadfence", "block": "__threadfence_block", "system": "__threadfence_system"}


class StatementText(ExpressionText):
    """Writes statements; ``declarations`` afterwards gives the variables that they need.

    Parameters
    ----------
    functions
        Device functions by IR name, with their C names.
    """

    def __init__(
        self,
        names: Names,
        variants: dict[str, set[Scalar]],
        arrays: dict[str, ArrayText],
        functions: dict[str, tuple[str, ir.Function]],
        body: tuple[ir.Statement, ...],
    ) -> None:
        super().__init__(names, variants, arrays)
        self.functions = functions
        self.root = body
        self.declared: dict[str, str] = {}
        self.in_loop_header: set[str] = set()

    def block(self, body: Sequence[ir.Statement], depth: int) -> str:
        """Write statements, indented."""
        return "".join(f"{'    ' * depth}{line}\n" for s in body for line in self.lines(s))

    def target(self, local: ir.Local) -> str:
        """A variable that is assigned, declared at the function's start."""
        name = self.variable(local.name, local.type)
        if name not in self.in_loop_header:
            self.declared[name] = C_TYPES[local.type.name]
        return name

    def lines(self, s: ir.Statement) -> list[str]:  # noqa: C901, PLR0912  # one case a node of the IR
        """Write one statement as lines."""
        match s:
            case ir.Assign():
                return [f"{self.target(s.target)} = {stripped(self.text(s.value))};"]
            case ir.Store():
                return [f"{self.element(s.array, s.indices, s.wraps)} = {stripped(self.text(s.value))};"]
            case ir.Atomic():
                return [self._atomic(s)]
            case ir.Collective():
                return self._collective(s)
            case ir.Barrier():
                return [self._barrier(s)]
            case ir.Fence():
                return [f"{_FENCES[s.scope]}();"]
            case ir.BindView():
                return self._view(s)
            case ir.Call():
                return self._call(s)
            case ir.If():
                return self._if(s)
            case ir.For():
                return self._for(s)
            case ir.While():
                head = f"while ({stripped(self.text(s.condition))}) {{"
                return [head, *self._nested(s.body), "}"]
            case ir.Break():
                return ["break;"]
            case ir.Continue():
                return ["continue;"]
            case ir.Return():
                return [self._return(s)]

    def _nested(self, body: Sequence[ir.Statement]) -> list[str]:
        return [f"    {line}" for s in body for line in self.lines(s)]

    def _return(self, s: ir.Return) -> str:
        values = ", ".join(stripped(self.text(v)) for v in s.values)
        return f"return {{{values}}};" if len(s.values) > 1 else f"return {values};".replace(" ;", ";")

    def _atomic(self, s: ir.Atomic) -> str:
        element = self.arrays[s.array].type.element
        address = f"&{self.element(s.array, s.indices, s.wraps)}"
        values = [stripped(self.text(v)) for v in s.values]
        if s.operator == "sub":
            negated = f"-({values[0]})" if element.is_float or element.kind == "i" else f"0u - ({values[0]})"
            name, values = (
                "atomicAdd",
                [
                    f"({_ULL})0 - ({_ULL})({values[0]})"
                    if element.bits == 64 and element.is_integer
                    else negated
                ],
            )
        elif f"mx_atomic_{s.operator}_{SUFFIXES[element.name]}" in _own_atomics():
            name = f"mx_atomic_{s.operator}_{SUFFIXES[element.name]}"
        elif s.operator == "exch" and element.name == "float64":
            call = f"atomicExch(({_ULL}*){address}, ({_ULL})__double_as_longlong({values[0]}))"
            return self._assigned(s, f"__longlong_as_double((long long){call})")
        else:
            name = _ATOMIC_NAMES[s.operator]
        cast = _ATOMIC_CASTS.get(element.name)
        if cast is not None and s.operator not in ("max", "min", "nanmax", "nanmin"):
            address = f"({cast}*){address}"
            values = [f"({cast})({v})" for v in values]
            return self._assigned(s, f"(long long){name}({', '.join([address, *values])})")
        return self._assigned(s, f"{name}({', '.join([address, *values])})")

    def _assigned(self, s: ir.Atomic, call: str) -> str:
        if s.target is None or not self._is_read(s.target):
            return f"{call};"
        return f"{self.target(s.target)} = {call};"

    def _is_read(self, local: ir.Local) -> bool:
        """True when anything in the function reads the variable."""
        return (local.name, local.type) in _reads(self.root)

    def _collective(self, s: ir.Collective) -> list[str]:
        arguments = [stripped(self.text(a)) for a in s.arguments]
        targets = [self.target(t) for t in s.targets]
        if s.operator == "lanemask_lt":
            return [f"{targets[0]} = (1u << mx_lane()) - 1u;"]
        if s.operator == "eq_sync":
            mask, predicate = arguments
            return [f"{targets[0]} = __all_sync({mask}, {predicate}) || !__any_sync({mask}, {predicate});"]
        if s.operator == "match_all_sync":
            same = self.names.fresh("same")
            self.declared[same] = "int"
            return [
                f"{targets[0]} = __match_all_sync({', '.join(arguments)}, &{same});",
                f"{targets[1]} = {same} != 0;",
            ]
        return [f"{targets[0]} = __{s.operator}({', '.join(arguments)});"]

    def _barrier(self, s: ir.Barrier) -> str:
        if s.scope == "block":
            return "__syncthreads();"
        if s.scope == "warp":
            return f"__syncwarp({'' if s.mask is None else stripped(self.text(s.mask))});"
        if s.predicate is None or s.target is None:
            raise BrokenRuleError(f"a voting barrier without predicate or target at {s.place}")
        call = f"__syncthreads_{s.scope}({stripped(self.text(s.predicate))})"
        # CUDA promises a non-zero value of the logical votes, not 1.
        return f"{self.target(s.target)} = {call}{'' if s.scope == 'count' else ' != 0'};"

    def _view(self, s: ir.BindView) -> list[str]:
        base = self.arrays[s.base]
        fixed = len(s.indices)
        pointer = self.names.of(s.name)
        self.arrays[s.name] = ArrayText(
            s.type, pointer, base.extents[fixed:], _strides(base)[fixed:] if s.type.layout == "A" else ()
        )
        self.declared[pointer] = f"{'const ' if base.constant else ''}{C_TYPES[s.type.element.name]}*"
        self.arrays[s.name].constant = base.constant
        return [f"{pointer} = {base.pointer} + ({stripped(self.offset(base, list(s.indices), s.wraps))});"]

    def _call(self, s: ir.Call) -> list[str]:
        name, function = self.functions[s.function]
        arguments: list[str] = []
        for argument in s.arguments:
            if isinstance(argument, str):
                array = self.arrays[argument]
                arguments.append(array.pointer)
                if array.type.shape is None:
                    arguments += array.extents
                    arguments += array.strides if array.type.layout == "A" else ()
            else:
                arguments.append(stripped(self.text(argument)))
        call = f"{name}({', '.join(arguments)})"
        if not s.targets:
            return [f"{call};"]
        if isinstance(function.result, TupleType):
            result = self.names.fresh("result")
            self.declared[result] = f"{name}_result"
            lines = [f"{result} = {call};"]
            return lines + [f"{self.target(t)} = {result}.item{i};" for i, t in enumerate(s.targets)]
        return [f"{self.target(s.targets[0])} = {call};"]

    def _if(self, s: ir.If) -> list[str]:
        lines = [f"if ({stripped(self.text(s.condition))}) {{", *self._nested(s.then)]
        if s.otherwise:
            rest = s.otherwise
            if len(rest) == 1 and isinstance(rest[0], ir.If):
                chained = self._if(rest[0])
                return [*lines, f"}} else {chained[0]}", *chained[1:]]
            lines += ["} else {", *self._nested(rest)]
        return [*lines, "}"]

    def _for(self, s: ir.For) -> list[str]:
        c_type = C_TYPES[s.target.type.name]
        lines: list[str] = []
        start = stripped(self.text(s.start))
        stop = self._held(s.stop, "stop", lines)
        name = self.variable(s.target.name, s.target.type)
        step = s.step.value if isinstance(s.step, ir.Const) else None
        plain = step in (1, -1) or (
            step is not None and step > 0 and isinstance(s.stop, (ir.Const, ir.Extent))
        )
        if not plain or step is None:
            return lines + self._counted(s, start, stop)
        if self._only_here(s):
            self.in_loop_header.add(name)
            counter, first = name, ""
        else:
            self.target(s.target)
            counter, first = self.names.fresh(f"{name}_next"), name
        change = (
            f"{counter} += {literal(step, s.target.type)}"
            if step > 1
            else f"{'++' if step > 0 else '--'}{counter}"
        )
        compare = "<" if step > 0 else ">"
        lines.append(f"for ({c_type} {counter} = {start}; {counter} {compare} {stop}; {change}) {{")
        if first:
            lines.append(f"    {first} = {counter};")
        return [*lines, *self._nested(s.body), "}"]

    def _counted(self, s: ir.For, start: str, stop: str) -> list[str]:
        """A loop over a count, which no overflow of the induction variable can disturb."""
        c_type = C_TYPES[s.target.type.name]
        wide = "unsigned long long" if s.target.type.kind == "u" else "long long"
        suffix = "u64" if s.target.type.kind == "u" else "i64"
        first, step, count, name = (self.names.fresh(n) for n in ("first", "step", "count", "next"))
        target = self.target(s.target)
        step_text = f"({_ULL})({wide}){step}"
        return [
            f"const {c_type} {first} = {start};",
            f"const {c_type} {step} = {stripped(self.text(s.step))};",
            f"{_ULL} {count} = mx_count_{suffix}({first}, {stop}, {step});",
            f"for ({_ULL} {name} = ({_ULL}){first}; {count} != 0; --{count}, {name} += {step_text}) {{",
            f"    {target} = ({c_type}){name};",
            *self._nested(s.body),
            "}",
        ]

    def _held(self, bound: ir.Expr, word: str, lines: list[str]) -> str:
        """A bound that is read once, as Python reads it."""
        if isinstance(bound, (ir.Const, ir.Extent)):
            return self.text(bound)
        name = self.names.fresh(word)
        lines.append(f"const {C_TYPES[bound.type.name]} {name} = {stripped(self.text(bound))};")
        return name

    def _only_here(self, s: ir.For) -> bool:
        """True when the induction variable is neither assigned in the body nor used outside it."""
        key = (s.target.name, s.target.type)
        if len(self.variants.get(s.target.name, ())) != 1:
            return False
        loops = [
            f
            for f in statements(self.root)
            if isinstance(f, ir.For) and (f.target.name, f.target.type) == key
        ]
        if any(_writes(f.body, key) for f in loops):
            return False
        return _mentions(self.root, key) == sum(_mentions(f.body, key) + 1 for f in loops)

    def declarations(self, parameters: set[str]) -> list[str]:
        """Declarations of the variables assigned, in first-use order, parameters left out."""
        return [f"    {c_type} {name};\n" for name, c_type in self.declared.items() if name not in parameters]


def _mentions(body: Sequence[ir.Statement], key: tuple[str, Scalar]) -> int:
    return sum(1 for b in body for n in nodes(b) if isinstance(n, ir.Local) and (n.name, n.type) == key)


def _writes(body: tuple[ir.Statement, ...], key: tuple[str, Scalar]) -> bool:
    return any(
        isinstance(b, (ir.Assign, ir.For)) and (b.target.name, b.target.type) == key for b in statements(body)
    )


def _own_atomics() -> frozenset[str]:
    from mxgemm.lang.cuda_prelude import HELPERS

    return frozenset(HELPERS)


def _reads(body: tuple[ir.Statement, ...]) -> set[tuple[str, Scalar]]:
    from mxgemm.lang.walk import operands

    return {
        (n.name, n.type)
        for s in statements(body)
        for o in operands(s)
        if o not in _targets(s)
        for n in nodes(o)
        if isinstance(n, ir.Local)
    }


def _targets(s: ir.Statement) -> tuple[ir.Local, ...]:
    target = getattr(s, "target", None)
    return (target,) if target is not None else tuple(getattr(s, "targets", ()))


def _strides(array: ArrayText) -> tuple[str, ...]:
    """Element strides; those of a column-major array are products of its extents."""
    if array.strides:
        return array.strides
    strides = ["1"]
    for extent in array.extents[:-1]:
        strides.append(f"{strides[-1]} * {extent}" if strides[-1] != "1" else extent)
    return tuple(strides)
