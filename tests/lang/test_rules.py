"""The IR's rules catch what a faulty pass would leave behind."""

from dataclasses import replace
from typing import Any

import pytest

from mxgemm.lang import ir, passes
from mxgemm.lang.rules import RULES, BrokenRuleError, verify
from mxgemm.lang.source import KernelSource
from mxgemm.lang.types import SCALARS, ArrayType
from mxgemm.lang.walk import map_expressions
from tests.lang.running import function

FLOATS = ArrayType(SCALARS["float32"], 2)
TEXT = """
@cuda.jit(device=True)
def f(v, a):
    return v + a[0, 0]

def kernel(x, n):
    s = cuda.shared.array(4, cuda.float32)
    w = cuda.const.array_like(np.arange(3.0))
    row = x[0]
    for k in range(n):
        s[0] = x[k, 1] * 2 if k > 1 and n < 5 else -x[0, 0]
        s[1] = f(1, x)
        x[k, 0] = (n << 2) + (n // 3) + math.sqrt(x[k, 0]) + row[1]
    cuda.atomic.add(x, (0, 0), 1)
    while n > 3:
        n = n / 2 > 1
"""
TEXT = TEXT.replace("    w = cuda.const.array_like(np.arange(3.0))\n", "")


def built() -> ir.Kernel:
    return passes.build(KernelSource(function(TEXT)), (FLOATS, SCALARS["int32"]))


WRONG = SCALARS["int16"]
MUTANTS: dict[str, tuple[type, dict[str, Any]]] = {
    "a literal fits its type": (ir.Const, {"value": 2**80}),
    "a conversion changes the type": (ir.Convert, {"type": SCALARS["int32"]}),
    "operators are known": (ir.Binary, {"operator": "concat"}),
    "operands have the type computed in": (ir.Binary, {"type": WRONG}),
    "unary keeps its type": (ir.Unary, {"type": WRONG}),
    "comparisons compare one type": (ir.Compare, {"operator": "near"}),
    "both arms of a choice have its type": (ir.Select, {"type": WRONG}),
    "functions are in the table": (ir.Math, {"name": "bessel"}),
    "an assignment keeps the type": (ir.Assign, {"value": None}),
    "arrays are declared and indexed fully": (ir.Load, {"indices": ()}),
    "a load has the element type": (ir.Load, {"type": WRONG}),
    "a store has the element type": (ir.Store, {"value": None}),
    "a loop's bounds have the induction type": (ir.For, {"start": None}),
    "a view fixes leading axes": (ir.BindView, {"base": "nowhere"}),
    "a call matches its function": (ir.Call, {"arguments": ()}),
    "an atomic has the element type": (ir.Atomic, {"values": None}),
    "conditions are bool": (ir.While, {"condition": None}),
}


@pytest.mark.parametrize("rule", sorted(MUTANTS))
def test_a_broken_rule_is_named(rule: str) -> None:
    kernel = built()
    kind, change = MUTANTS[rule]
    stranger = ir.Const(kernel.place, WRONG, 1)
    change = {k: ((stranger,) if k == "values" else stranger) if v is None else v for k, v in change.items()}
    seen = []

    def mutate(node: Any) -> Any:
        if isinstance(node, kind) and not seen:
            seen.append(node)
            return replace(node, **change)
        return node

    body = tuple(map_expressions(statement, mutate) for statement in kernel.body)
    assert seen
    with pytest.raises(BrokenRuleError, match="after a mutant"):
        verify(replace(kernel, body=body), "a mutant")


def test_every_mutant_breaks_a_rule_of_the_table() -> None:
    assert set(MUTANTS) <= {rule.name for rule in RULES}


def test_the_rules_are_checked_after_every_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kernel: ir.Kernel) -> ir.Kernel:
        return replace(
            kernel, body=(ir.Assign(kernel.place, ir.Local(kernel.place, WRONG, "z"), kernel.body[0].value),)
        )

    monkeypatch.setattr(passes, "PASSES", (("broken", broken), *passes.PASSES))
    with pytest.raises(BrokenRuleError, match="after broken"):
        passes.build(KernelSource(function("def kernel(x, n):\n    y = 1\n")), (FLOATS, SCALARS["int32"]))


def test_written_arrays_are_found_through_views_and_device_functions() -> None:
    text = (
        "@cuda.jit(device=True)\ndef put(a, v):\n    a[0] = v\n\n"
        "def kernel(x, y, z):\n    row = x[1]\n    row[0] = z[0, 0]\n    put(y[2], 3)\n"
    )
    kernel = passes.build(KernelSource(function(text)), (FLOATS, FLOATS, FLOATS))
    assert kernel.written == {"x", "y"}
