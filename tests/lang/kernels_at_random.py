"""Random kernels as source text: expressions of every type and operator, branches, loops, shared memory."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.lang import evaluate, exact

THREADS, BLOCKS = 32, 2
TYPES = tuple(evaluate.TYPING["types"])
INTEGERS = tuple(t for t in TYPES if t not in exact.FLOATS and t != "bool")
LITERALS = (0, 1, -1, 2, 3, 7, 63, 64, 255, -128, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
REALS = (0.0, -0.0, 1.0, -1.5, 0.1, 65504.0, 1e-8, 3.4e38, 1e300, 5e-324, 2.0**-24)
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>")
NAMES = dict(
    zip(
        ARITHMETIC,
        ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"),
        strict=True,
    )
)


def spelled(name: str) -> str:
    return "cuda.boolean" if name == "bool" else f"cuda.{name}"


def not_literal(text: str, name: str) -> str:
    """The expression, which Python does not fold: what it makes of literals has tests of its own."""
    read = any(isinstance(node, ast.Name) for node in ast.walk(ast.parse(text, mode="eval")))
    return text if read else f"{spelled(name)}({text})"


@dataclass
class Builder:
    """Draws a kernel; ``variables`` are the names in scope with their types."""

    draw: Any
    variables: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    shared: int = 0
    counter: int = 0
    exchanges: bool = True

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def leaf(self) -> tuple[str, str]:
        kind = self.pick(("array", "array", "variable", "variable", "integer", "real", "thread"))
        if kind == "variable" and self.variables:
            name = self.pick(sorted(self.variables))
            return name, self.variables[name]
        if kind == "integer":
            return f"({self.pick(LITERALS)})", "int64"
        if kind == "real":
            return f"({self.pick(REALS)!r})", "float64"
        if kind == "thread":
            return "cuda.threadIdx.x", "int32"
        name = self.pick(TYPES)
        return f"a_{name}[i]", name

    def expression(self, depth: int) -> tuple[str, str]:
        """Text and type of an expression."""
        if depth == 0:
            return self.leaf()
        kind = self.pick(("binary",) * 5 + ("unary", "choice", "convert", "minmax", "math", "abs", "compare"))
        if kind == "binary":
            return self.binary(depth)
        text, name = self.expression(depth - 1)
        if kind == "unary":
            text = not_literal(text, name)
            operator = self.pick("-~" if name not in exact.FLOATS else "-")
            result = evaluate.TYPING["unary"]["neg" if operator == "-" else "invert"][evaluate.NUMBER[name]]
            return f"({operator}{text})", result
        if kind == "convert":
            target = self.pick(TYPES)
            return f"{spelled(target)}({text})", target
        if kind == "math":
            function = self.pick(("sqrt", "floor", "ceil", "trunc", "fabs"))
            return f"math.{function}({text})", evaluate.TYPING["math"][function][evaluate.NUMBER[name]]
        if kind == "abs":
            return f"abs({text})", evaluate.TYPING["unary"]["abs"][evaluate.NUMBER[name]]
        other, other_name = self.expression(depth - 1)
        if "bfloat16" in (name, other_name) and name != other_name and kind != "compare":
            return text, name  # Numba unifies bfloat16 with itself only
        if kind == "choice":
            return f"({text} if {self.condition()} else {other})", evaluate.unified(name, other_name)
        if kind == "minmax":
            return f"{self.pick(('min', 'max'))}({text}, {other})", evaluate.unified(name, other_name)
        return f"({text} {self.pick(('<', '<=', '>', '>=', '==', '!='))} {other})", "bool"

    def binary(self, depth: int) -> tuple[str, str]:
        operator = self.pick(ARITHMETIC)
        (left, tl), (right, tr) = self.expression(depth - 1), self.expression(depth - 1)
        left = not_literal(left, tl)
        if NAMES[operator] in ("and", "or", "xor", "lshift", "rshift"):
            left, tl = (left, tl) if tl not in exact.FLOATS else (f"cuda.int32({left})", "int32")
            right, tr = (right, tr) if tr not in exact.FLOATS else (f"cuda.int32({right})", "int32")
        if operator == "**":
            right, tr = f"({self.pick((-3, -1, 0, 1, 2, 5, 13, 64))})", "int64"
        both_integers = tl not in exact.FLOATS and tr not in exact.FLOATS
        if operator in ("//", "%") and both_integers:
            right = f"({right} | 1)"
            tr = str(evaluate.result_type("or", tr, "int64"))
        result = evaluate.result_type(NAMES[operator], tl, tr)
        assert result is not None
        return f"({left} {operator} {right})", result

    def condition(self) -> str:
        (left, _), (right, _) = self.expression(1), self.expression(1)
        test = f"({left} {self.pick(('<', '>', '==', '!=', '<='))} {right})"
        return f"({test} {self.pick(('and', 'or'))} not {test})" if self.draw(st.booleans()) else test

    def add(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    def statement(self, indent: int, *, divergent: bool) -> None:
        kinds = ["assign", "assign", "assign", "if", "for", "while"] + (
            ["exchange"] if self.exchanges and not divergent else []
        )
        kind = self.pick(kinds if indent < 3 else ("assign",))
        getattr(self, kind)(indent, divergent)

    def assign(self, indent: int, divergent: bool) -> None:
        text, name = self.expression(self.pick((1, 2, 2, 3)))
        if divergent and self.variables:  # keep the types of variables that other paths see
            target = self.pick(sorted(self.variables))
            self.add(indent, f"{target} = {spelled(self.variables[target])}({text})")
        else:
            self.counter += 1
            self.variables[f"v{self.counter}"] = name
            self.add(indent, f"v{self.counter} = {text}")

    def body(self, indent: int, *, divergent: bool) -> None:
        before = dict(self.variables)
        for _ in range(self.pick((1, 2))):
            self.statement(indent, divergent=divergent)
        self.variables = before

    def nothing_yet(self, indent: int) -> bool:
        if not self.variables:
            self.assign(indent, False)
        return False

    def if_(self, indent: int, _divergent: bool) -> None:
        self.nothing_yet(indent)
        self.add(indent, f"if {self.condition()}:")
        self.body(indent + 1, divergent=True)
        if self.draw(st.booleans()):
            self.add(indent, "else:")
            self.body(indent + 1, divergent=True)

    def for_(self, indent: int, _divergent: bool) -> None:
        self.nothing_yet(indent)
        self.counter += 1
        index = f"k{self.counter}"
        bounds = self.pick(("3", "0, 4", "5, -1, -2", "cuda.threadIdx.x % 4", "cuda.threadIdx.x, 34, 7"))
        self.add(indent, f"for {index} in range({bounds}):")
        self.variables[index] = "int64"
        if self.draw(st.booleans()):
            self.add(indent + 1, f"if {self.condition()}:")
            self.add(indent + 2, self.pick(("break", "continue")))
        inner = dict(self.variables)
        del self.variables[index]
        self.variables = {k: v for k, v in inner.items() if k != index}
        self.body(indent + 1, divergent=True)

    def while_(self, indent: int, _divergent: bool) -> None:
        self.nothing_yet(indent)
        self.counter += 1
        name = f"w{self.counter}"
        self.add(indent, f"{name} = cuda.threadIdx.x % 3")
        self.add(indent, f"while {name} < 3:")
        self.add(indent + 1, f"{name} += 1")
        self.body(indent + 1, divergent=True)

    def exchange(self, indent: int, _divergent: bool) -> None:
        self.shared += 1
        name = f"s{self.shared}"
        text, kind = self.expression(1)
        self.lines.insert(1, f"    {name} = cuda.shared.array({THREADS}, {spelled(kind)})")
        self.add(indent, f"{name}[cuda.threadIdx.x] = {text}")
        self.add(indent, "cuda.syncthreads()")
        self.counter += 1
        self.variables[f"v{self.counter}"] = kind
        shift = self.pick((1, 5, 31))
        self.add(indent, f"v{self.counter} = {name}[(cuda.threadIdx.x + {shift}) % {THREADS}]")


for word in ("if", "for", "while"):
    setattr(Builder, word, getattr(Builder, f"{word}_"))


@st.composite
def kernels(draw: Any, *, shared: bool = True) -> str:
    """The source of a kernel over inputs ``a_<type>`` and outputs ``o_<type>``."""
    builder = Builder(draw, exchanges=shared)
    parameters = ", ".join(f"a_{name}" for name in TYPES)
    builder.lines = [
        f"def kernel({parameters}, {', '.join(f'o_{t}' for t in TYPES)}):",
        "    i = cuda.grid(1)",
    ]
    for _ in range(draw(st.integers(1, 4))):
        builder.statement(1, divergent=False)
    for name, kind in builder.variables.items():
        builder.add(
            1,
            f"o_{kind}[i] = o_{kind}[i] + {name}"
            if kind in exact.FLOATS
            else f"o_{kind}[i] = o_{kind}[i] ^ {name}",
        )
    return "\n".join(builder.lines) + "\n"


def arrays(seed: int) -> dict[str, Any]:
    """Inputs with every type's edges, and zeroed outputs."""
    rng = np.random.default_rng(seed)
    size = THREADS * BLOCKS
    result = {}
    for name in TYPES:
        result[f"a_{name}"] = _input(rng, name, size)
    for name in TYPES:
        result[f"o_{name}"] = np.zeros(size, result[f"a_{name}"].dtype)
    return result


def _input(rng: np.random.Generator, name: str, size: int) -> Any:
    import mxgemm.cuda as dialect

    dtype = getattr(dialect, "boolean" if name == "bool" else name).dtype
    if name == "bool":
        return rng.random(size) < 0.5
    if name in exact.FLOATS:
        raw = (
            rng.integers(0, 2 ** (8 * dtype.itemsize), size, np.uint64)
            .astype(f"u{dtype.itemsize}")
            .view(dtype)
        )
        small = rng.standard_normal(size).astype(dtype)
        values = np.where(rng.random(size) < 0.3, raw, small)
        values[:6] = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]).astype(dtype)
        return values
    information = np.iinfo(dtype)
    values = rng.integers(information.min, information.max, size, dtype, endpoint=True)
    values = np.where(rng.random(size) < 0.4, (values % 9).astype(dtype), values)
    values[:4] = [information.min, information.max, 0, 1]
    return values
