"""Python to IR: types as Numba infers them, and what is refused, with line and caret."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.errors import KernelSyntaxError, UnsupportedError
from mxgemm.lang import ir
from mxgemm.lang.calls import _KEEP_FLOAT16
from mxgemm.lang.passes import build
from mxgemm.lang.promotion import binary, comparison, math_operand, range_type, unary, unify
from mxgemm.lang.source import KernelSource
from mxgemm.lang.types import SCALARS, ArrayType
from mxgemm.lang.walk import nodes, statements
from tests.lang.running import function, interpret

NUMBA = json.loads((Path(__file__).parent / "data" / "numba_typing.json").read_text())
TYPES = [SCALARS[name] for name in NUMBA["types"]]
FLOATS = ArrayType(SCALARS["float32"], 1)


def name_of(scalar: Any) -> str | None:
    return None if scalar is None else scalar.name


@pytest.mark.parametrize("operator", sorted(NUMBA["binary"]))
def test_operators_return_numbas_types(operator: str) -> None:
    ours = [[binary(operator, a, b) for b in TYPES] for a in TYPES]
    assert [[typing and typing.result.name for typing in row] for row in ours] == NUMBA["binary"][operator]


def test_comparisons_happen_in_numbas_types() -> None:
    ours = [[comparison(a, b).name for b in TYPES] for a in TYPES]
    assert ours == NUMBA["comparison"]["lt"]


@pytest.mark.parametrize("operator", sorted(NUMBA["unary"]))
def test_unary_operators_return_numbas_types(operator: str) -> None:
    assert [name_of(unary(operator, a)) for a in TYPES] == NUMBA["unary"][operator]


def test_variables_unify_to_numbas_types() -> None:
    known = TYPES[: len(NUMBA["unify"])]
    assert [[unify(a, b).name for b in known] for a in known] == NUMBA["unify"]


def test_math_functions_compute_in_numbas_types() -> None:
    one_argument = {f: row for f, row in NUMBA["math"].items() if not isinstance(row[0], list)}
    for name, row in one_argument.items():
        assert [math_operand(a, name in _KEEP_FLOAT16).name for a in TYPES] == row, name


def test_ranges_have_numbas_types_but_where_numba_drops_half_a_bound() -> None:
    integers = TYPES[1:9]
    assert [range_type((a,)).name for a in integers] == NUMBA["range1"]
    for a, row in zip(integers, NUMBA["range2"], strict=True):
        for b, expected in zip(integers, row, strict=True):
            deviates = {a.name, b.name} == {"int32", "uint64"}
            assert range_type((a, b)).name == ("int64" if deviates else expected)


def lowered(body: str, **types: Any) -> ir.Kernel:
    lines = [f"    {line}" for line in body.strip().splitlines()]
    text = "\n".join([f"def kernel({', '.join(types)}):", *lines]) + "\n"
    return build(KernelSource(function(text)), tuple(types.values()))


def type_of_store(body: str, **types: Any) -> str:
    """The type of the last value assigned to a variable named ``s``."""
    kernel = lowered(body, **types)
    found = [
        s.target.type.name
        for s in statements(kernel.body)
        if isinstance(s, ir.Assign) and s.target.name == "s"
    ]
    return found[-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("s = 0\nfor k in range(3):\n    s += x[k]", "float64"),
        ("s = 0.\nfor k in range(3):\n    s += x[k] * x[k]", "float64"),
        ("s = np.float32(0)\nfor k in range(3):\n    s += x[k] * x[k]", "float32"),
        ("s = n * n", "int64"),
        ("s = n / n", "float64"),
        ("s = cuda.threadIdx.x", "int32"),
        ("s = cuda.grid(1)", "int64"),
        ("s = x.shape[0]", "int64"),
        ("for s in range(n):\n    s = s", "int32"),
        ("for k in range(3):\n    s = k", "int64"),
        ("s = 1 if n > 2 else x[0]", "float64"),
        ("s = 1\nif n > 2:\n    s = x[0]\ns = s", "float64"),
        ("s = x[0] ** 2", "float32"),
        ("s = n << 3", "int64"),
        ("s = round(x[0])", "int64"),
        ("s = int(x[0])", "int64"),
        ("s = float(n)", "float64"),
        ("s = n > 2", "bool"),
        ("s = 2**63", "uint64"),
        ("s = -(2**63)", "int64"),
        ("s = 2**-1", "float64"),
        ("s = x.dtype.type(1)", "float32"),
    ],
)
def test_types_flow_as_in_numba(body: str, expected: str) -> None:
    assert type_of_store(body, x=FLOATS, n=SCALARS["int32"]) == expected


def test_a_variable_keeps_its_first_type_where_only_that_is_read() -> None:
    kernel = lowered("s = 0\nt = s * s\nfor k in range(3):\n    s += x[k]\nx[0] = s + t", x=FLOATS)
    kinds = {(n.name, n.type.name) for s in kernel.body for n in nodes(s) if isinstance(n, ir.Local)}
    assert {("s", "int64"), ("s", "float64"), ("t", "int64")} <= kinds


def test_types_converge_through_nested_loops_breaks_and_continues() -> None:
    body = (
        "s = 0\nfor i in range(4):\n    for j in range(4):\n        if j == 2:\n            continue\n"
        "        if i == 3:\n            s = s + 0.5\n            break\n        s += 1\nx[0] = s"
    )
    kernel = lowered(body, x=FLOATS)
    values = np.zeros(1, np.float32)
    interpret(
        cuda.jit(function("def kernel(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()))),
        1,
        1,
        values,
    )
    assert values[0] == 9.5
    assert "s:float64" in str(kernel)


@pytest.mark.parametrize(
    "text",
    ["2**-1", "2**63 // 3", "7 // -2 % 5", "~6 & 13", "-(2**63)", "1 << 62", "3 * 0.5", "2**64 - 1", "+True"],
)
def test_expressions_of_literals_have_the_value_that_python_gives_them(text: str) -> None:
    value = eval(text)  # noqa: S307  # the texts above
    out = np.zeros(1, np.asarray(value).dtype if not isinstance(value, bool) else np.int64)
    interpret(cuda.jit(function(f"def kernel(out):\n    out[0] = {text}\n")), 1, 1, out)
    assert out[0] == value


@pytest.mark.parametrize("text", ["2**64", "1 << 70", "-(2**64)"])
def test_an_expression_of_literals_beyond_64_bits_is_refused(text: str) -> None:
    with pytest.raises(KernelSyntaxError, match="does not fit 64 bits"):
        lowered(f"s = {text}", x=FLOATS)


def test_a_chained_comparison_stops_at_the_first_that_fails() -> None:
    text = (
        "def kernel(x, index, out):\n    i = cuda.grid(1)\n    if 0 <= index[i] < x.size > x[index[i]]:\n"
        "        out[i] = 1\n    if 0 <= index[i] < x.size and 1 < x[index[i]] // 1 <= 6 // x[index[i]]:\n"
        "        out[i] += 10\n"
    )
    index, out = np.array([-100, 2, 500, 0]), np.zeros(4)
    interpret(cuda.jit(function(text)), 1, 4, np.array([0, 1, 2, 3]), index, out)
    assert out.tolist() == [0, 11, 0, 1]


def test_a_chained_comparison_evaluates_its_middle_once() -> None:
    text = "def kernel(x):\n    x[1] = 0 < cuda.atomic.add(x, 0, 1) < cuda.atomic.add(x, 0, 10) < 99\n"
    for start, expected in ((5, [16, 1]), (-5, [-4, 0])):
        x = np.array([start, 7])
        interpret(cuda.jit(function(text)), 1, 1, x)
        assert x.tolist() == expected


def test_arrays_without_axes_have_one_element() -> None:
    text = "def kernel(x):\n    x[()] += x.size + x.ndim + len(x.shape)\n"
    x = np.array(5.0)
    kernel = cuda.jit(function(text))
    interpret(kernel, 1, 1, x)
    assert x == 6
    assert "x[0] = " in kernel.source()


@pytest.mark.parametrize("dtype", ["'float32'", "'f4'", "np.float32", "cuda.f4", "NAME", "x.dtype"])
def test_element_types_may_be_text_classes_and_names(dtype: str) -> None:
    body = f"    s = cuda.local.array(2, dtype={dtype})\n    s[0] = 1\n    x[0] = s[0]\n"
    kernel = build(KernelSource(function(f"NAME = 'float32'\ndef kernel(x):\n{body}")), (FLOATS,))
    assert kernel.arrays[0].type.element.name == "float32"


SQUARE = "def square(v):\n    return v * v\n\ndef kernel(x, v):\n    x[0] = square(v)\n"


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        ('"float32(float32)"', float(np.float32(1 / 3) * np.float32(1 / 3))),
        ("cuda.float32(cuda.float64)", float(np.float32(1 / 3 * (1 / 3)))),
        ('"(float64,)"', 1 / 3 * (1 / 3)),
        ('["int32(int32)", "float64(float32)"]', float(np.float32(1 / 3) * np.float32(1 / 3))),
    ],
)
def test_a_device_function_computes_in_the_types_of_its_signature(signature: str, expected: float) -> None:
    x = np.zeros(1)
    text = f"@cuda.jit({signature}, device=True)\n{SQUARE}"
    interpret(cuda.jit(function(text)), 1, 1, x, 1 / 3)
    assert x[0] == expected


@pytest.mark.parametrize(
    ("signature", "argument"),
    [("int32(int32)", "v"), ("float32(float32[:])", "v"), ("float32(float32)", "x")],
)
def test_an_argument_that_a_device_functions_signature_refuses_is_named(
    signature: str, argument: str
) -> None:
    call = SQUARE.replace("= square(v)", f"= square({argument})")
    text = f"@cuda.jit('{signature}', device=True)\n{call}"
    with pytest.raises(KernelSyntaxError, match="square is declared for"):
        build(KernelSource(function(text)), (FLOATS, SCALARS["float64"]))


def test_device_functions_have_defaults_and_keywords_in_any_order() -> None:
    text = (
        "@cuda.jit(device=True)\ndef f(a, b=2, c=0.5):\n    return a * 100 + b * 10 + c\n\n"
        "def kernel(x):\n    x[0] = f(1)\n    x[1] = f(1, 3)\n    x[2] = f(c=4, a=5)\n"
    )
    x = np.zeros(3)
    interpret(cuda.jit(function(text)), 1, 1, x)
    assert x.tolist() == [120.5, 130.5, 524]


@pytest.mark.parametrize("call", ["f()", "f(1, 2, 3)", "f(1, d=2)", "f(1, a=2)", "f(b=2)", "f(**1)"])
def test_calls_that_do_not_fit_a_device_functions_parameters_list_them(call: str) -> None:
    text = f"@cuda.jit(device=True)\ndef f(a, b=2):\n    return a\n\ndef kernel(x):\n    x[0] = {call}\n"
    with pytest.raises(KernelSyntaxError, match=r"f takes the arguments \(a, b\)"):
        build(KernelSource(function(text)), (FLOATS,))


@pytest.mark.parametrize(
    "parameters", ["x, *rest", "x, **rest", "x, *, y=1", "x, /", "x, y=1"], ids=lambda text: text[3:]
)
def test_kernels_have_plain_parameters(parameters: str) -> None:
    count = 2 if "y" in parameters else 1
    with pytest.raises(KernelSyntaxError, match=r"parameters"):
        build(KernelSource(function(f"def kernel({parameters}):\n    pass\n")), (FLOATS,) * count)


def test_static_shared_memory_ends_at_cudas_limit() -> None:
    text = "def kernel(x):\n    s = cuda.shared.array({}, cuda.float32)\n    s[0] = 1\n    x[0] = s[0]\n"
    build(KernelSource(function(text.format(12288))), (FLOATS,))
    with pytest.raises(KernelSyntaxError, match=r"49156 bytes of static shared memory.*49152"):
        build(KernelSource(function(text.format(12289))), (FLOATS,))


REFUSED = {
    "with open('f'): pass": "with is not part of the dialect",
    "try:\n    pass\nexcept ValueError:\n    pass": "try is not part of the dialect",
    "y = [1, 2]": "a list is not part of the dialect",
    "y = [k for k in x]": "a list comprehension is not part",
    "y = lambda: 1": "lambda is not part",
    "y = 'text'": "str literals",
    "y = x[0:2]": "slices inside a kernel",
    "y = unknown": "'unknown' is not defined",
    "y = z\nz = 1": "used before any assignment",
    "return 1": "a kernel returns nothing",
    "for v in x:\n    pass": "for loops run over range",
    "for k in range(1.5):\n    pass": "range takes integers",
    "x[0.5] = 1": "indices are integers",
    "x[0, 0] = 1": "2 indices for an array with 1 axes",
    "y = x + 1": "a number is needed here, this is an array",
    "y = 1.5 << 2": "have no operator",
    "y = sorted(x)": "not a function of the dialect; supported: abs, acos",
    "y = math.modf(n)": "modf is not a function of the dialect; supported: abs, acos",
    "y = min(n)": "min takes two numbers or more",
    "y = n in (1, 2)": "comparisons are <, <=",
    "y = n is n": "comparisons are <, <=",
    "yield n": "yield is not part of the dialect",
    "y = x.dtype.bits": "an element type has type and calls",
    "y = cuda.local.array(2, 'float33')": "not an element type",
    "print(x[0])": "print inside a kernel",
    "y = cuda.shared.array(n, np.float32)": "is constant",
    "y = cuda.shared.array(4, np.complex64)": "not an element type",
    "cuda.atomic.and_(x, 0, 1)": "cuda.atomic.and_ on float32 is not supported",
    "y = (1, 2)[n]": "indexed by a constant",
    "a, b = 1, 2, 3": "2 names need a tuple of 2",
    "raise ValueError": "raise is not part",
    "assert n": "assert is not part",
    "y = f'{n}'": "an f-string",
    "x.fill(0)": "arrays have shape, size",
    "y = 1180591620717411303424": "does not fit",
    "cuda.nothing()": "has no attribute",
    "y = helper(1)": "put @cuda.jit",
    "n.real": "no effect",
    "cuda.grid(n)": "a constant is needed",
    "def inner():\n    pass": "a nested function",
}


@pytest.mark.parametrize("body", sorted(REFUSED), ids=lambda body: body.splitlines()[0])
def test_what_is_refused_says_where_and_why(body: str) -> None:
    text = "def helper(v):\n    return v\n\ndef kernel(x, n):\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    found = function(text)
    with pytest.raises(KernelSyntaxError) as caught:
        build(KernelSource(found), (FLOATS, SCALARS["int32"]))
    assert REFUSED[body] in str(caught.value)
    assert caught.value.filename.startswith("<kernel")
    assert caught.value.lineno >= 5
    assert caught.value.offset >= 5
    assert caught.value.text.strip() in text


def test_the_caret_stands_under_the_construct() -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        lowered("y = 1\nx[0] = y + unknown", x=FLOATS)
    assert (caught.value.lineno, caught.value.text[caught.value.offset - 1 :].strip()) == (3, "unknown")


def test_recursion_is_refused() -> None:
    text = "@cuda.jit(device=True)\ndef f(v):\n    return f(v - 1)\ndef kernel(x):\n    x[0] = f(1)\n"
    with pytest.raises(KernelSyntaxError, match="calls itself"):
        build(KernelSource(function(text)), (FLOATS,))


def test_a_row_bound_in_a_loop_is_the_same_row_in_every_round() -> None:
    text = (
        "def kernel(x, y):\n    s = 0\n    for i in range(x.shape[0]):\n        row = x[i]\n"
        "        for j in range(len(row)):\n            s += row[j]\n    y[0] = s\n    y[1] = row[0]\n"
    )
    y = np.zeros(2)
    interpret(cuda.jit(function(text)), 1, 1, np.arange(6.0).reshape(2, 3), y)
    assert y.tolist() == [15, 3]


def test_a_name_bound_to_two_arrays_on_two_paths_is_refused() -> None:
    with pytest.raises(KernelSyntaxError, match="bound to different things"):
        lowered("a = x\nif n > 1:\n    a = y\na[0] = 1", x=FLOATS, y=FLOATS, n=SCALARS["int32"])


def test_a_lambda_is_no_kernel() -> None:
    with pytest.raises((KernelSyntaxError, SyntaxError)):
        build(KernelSource(lambda _x: None), (FLOATS,))


def test_source_that_cannot_be_read_says_where_kernels_come_from() -> None:
    namespace: dict[str, Any] = {}
    exec("def kernel(x):\n    x[0] = 1\n", namespace)  # noqa: S102  # source without a file is the case
    with pytest.raises(KernelSyntaxError, match=r"cannot be read.*notebook"):
        build(KernelSource(namespace["kernel"]), (FLOATS,))


def test_branches_on_outer_constants_are_decided_at_compile_time() -> None:
    branch = "    if FLAG is None:\n        x[0] = 1\n    else:\n        x[0] = 'never'\n"
    text = f"FLAG = None\ndef kernel(x):\n{branch}"
    build(KernelSource(function(text)), (FLOATS,))


def test_words_outside_a_kernel_say_so() -> None:
    with pytest.raises(UnsupportedError, match="only inside a function"):
        cuda.grid(1)
