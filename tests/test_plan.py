"""Admission: the fastest row that the grants admit and that has a kernel, with a reason for every other."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mxgemm import bounds
from mxgemm import plan as plan_module
from mxgemm.capabilities import Capabilities, cpu_model
from mxgemm.configs import (
    ARCHITECTURES,
    ELEMENT_TYPES,
    configuration,
    configurations_for,
    has_unit,
    rounding_precisions,
)
from mxgemm.errors import DTypeError, PolicyError, UnsupportedError
from mxgemm.plan import Plan, plan
from mxgemm.policy import Policy
from mxgemm.problem import GemmProblem, pose
from mxgemm.restrictions import Restrictions
from mxgemm.shapes import contiguous
from tests.policies import policy_with

F32 = "float32"
HOPPER = cpu_model("cpu")


def posed(dtype: str = F32, k: int = 100, **asked: Any) -> GemmProblem:
    return pose(contiguous(dtype, (3, k)), contiguous(dtype, (k, 4)), **asked)[0]


def planned(
    dtype: str = F32,
    *grants: str,
    arch: str = "sm_90",
    disabled: Iterable[str] = (),
    k: int = 100,
    **how: Any,
) -> Plan:
    return plan(posed(dtype, k), policy_with(*grants, disabled=disabled), cpu_model(f"cpu:{arch}"), **how)


def chosen(*args: Any, **asked: Any) -> str:
    return planned(*args, **asked).configuration.precision


EVERY_GRANT = ("relaxed", *rounding_precisions())

# The fastest


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_without_grants_8_bit_integers_and_hoppers_float64_run_on_the_units(dtype: str) -> None:
    expected = {"int8": "exact", "uint8": "exact", "float64": "native"}.get(dtype, "scalar")
    assert chosen(dtype) == expected


@pytest.mark.parametrize(
    ("arch", "integers"), [(arch, "scalar" if arch == "sm_70" else "exact") for arch in ARCHITECTURES]
)
def test_elsewhere_float64_is_scalar_and_8_bit_integers_are_exact_from_turing_on(
    arch: str, integers: str
) -> None:
    assert chosen("int8", arch=arch) == integers
    assert chosen("float64", arch=arch) == ("native" if arch == "sm_90" else "scalar")


@pytest.mark.parametrize(
    ("grants", "expected"),
    [
        (("relaxed", "f16", "bf16", "tf32"), "f16"),
        (("relaxed", "bf16", "f16"), "f16"),
        (("relaxed", "bf16", "tf32"), "bf16"),
        (("relaxed", "tf32"), "tf32"),
        (("relaxed",), "f64"),
        (("relaxed", "f16x3", "bf16x3", "bf16x6", "tf32x3", "i8crt5"), "f64"),  # no kernels yet
        (("f16", "bf16", "tf32"), "scalar"),
        ((), "scalar"),
    ],
)
def test_float32_on_hopper(grants: tuple[str, ...], expected: str) -> None:
    assert chosen(F32, *grants) == expected


@pytest.mark.parametrize(
    ("arch", "grants", "expected"),
    [
        ("sm_80", ("relaxed",), "scalar"),
        ("sm_80", ("relaxed", "tf32"), "tf32"),
        ("sm_86", ("relaxed", "tf32"), "tf32"),  # costs what scalar costs and stands before it
        ("sm_89", ("relaxed", "bf16", "tf32"), "bf16"),
        ("sm_75", EVERY_GRANT, "scalar"),
        ("sm_70", EVERY_GRANT, "scalar"),
        ("sm_100", EVERY_GRANT, "scalar"),
        ("sm_120", EVERY_GRANT, "scalar"),
    ],
)
def test_float32_elsewhere(arch: str, grants: tuple[str, ...], expected: str) -> None:
    assert chosen(F32, *grants, arch=arch) == expected


@pytest.mark.parametrize(
    ("dtype", "architectures"),
    [
        ("float16", {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90"}),
        ("bfloat16", {"sm_80", "sm_86", "sm_89", "sm_90"}),
        ("float8_e4m3fn", {"sm_90"}),
        ("float8_e5m2", {"sm_90"}),
    ],
)
def test_narrow_floats_need_relaxed_accumulation_and_a_kernel(dtype: str, architectures: set[str]) -> None:
    for arch in ARCHITECTURES:
        assert chosen(dtype, arch=arch) == "scalar"
        assert chosen(dtype, "relaxed", arch=arch) == ("native" if arch in architectures else "scalar")


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_choice_is_the_cheapest_admitted_row_with_a_kernel(dtype: str, arch: str) -> None:
    for count in range(4):
        for grants in combinations(("relaxed", "f16", "bf16", "tf32", "f16x3"), count):
            admitted = {"relaxed-accumulation" if g == "relaxed" else f"operand-rounding-{g}" for g in grants}
            rows = [
                row
                for row in configurations_for(dtype, dtype)
                if arch in row.kernels and has_unit(row.unit, arch) and admitted.issuperset(row.grants)
            ]
            cheapest = min(row.cost(arch) for row in rows)
            first = next(row for row in rows if row.cost(arch) == cheapest)
            assert planned(dtype, *grants, arch=arch).configuration == first


def test_the_kernels_column_decides_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_split_kernels(dtype_a: str, dtype_b: str) -> tuple[Any, ...]:
        rows = configurations_for(dtype_a, dtype_b)
        return tuple(replace(r, kernels=r.kernels | {"sm_90"}) if r.precision == "f16x3" else r for r in rows)

    grants = ("relaxed", "f16x3")
    assert chosen(F32, *grants) == "f64"
    monkeypatch.setattr(plan_module, "configurations_for", with_split_kernels)
    assert chosen(F32, *grants) == "f16x3"
    assert chosen(F32, *grants, arch="sm_80") == "scalar"
    assert chosen(F32, "relaxed") == "f64"


def test_ties_go_by_table_order(monkeypatch: pytest.MonkeyPatch) -> None:
    grants = ("relaxed", "f16", "bf16")
    assert chosen(F32, *grants) == "f16"
    monkeypatch.setattr(plan_module, "configurations_for", lambda a, b: configurations_for(a, b)[::-1])
    assert chosen(F32, *grants) == "bf16"


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_cpu_model_and_the_card_choose_alike(dtype: str, arch: str) -> None:
    card = Capabilities("cuda:0", arch, "a card", 132, 232448)
    for grants in ((), ("relaxed",), ("relaxed", "bf16"), EVERY_GRANT):
        policy = policy_with(*grants)
        model = plan(posed(dtype), policy, cpu_model(f"cpu:{arch}"))
        assert plan(posed(dtype), policy, card).configuration is model.configuration


def test_every_faster_row_is_refused_in_words() -> None:
    made = planned(F32, "relaxed", "tf32")
    assert [refusal.configuration.precision for refusal in made.refused] == ["f16", "bf16"]
    for refusal in made.refused:
        name = refusal.configuration.precision
        assert f'mxgemm.accept_operand_rounding("{name}", reason=...)' in str(refusal)
    assert [grant.name for grant in made.granted] == ["relaxed-accumulation", "operand-rounding-tf32"]
    assert [grant.reason for grant in made.granted] == ["why relaxed", "why tf32"]


def test_a_refusal_names_every_missing_call() -> None:
    first = planned(F32).refused[0]
    assert "mxgemm.accept_relaxed_accumulation(reason=...)" in first.reason
    assert 'mxgemm.accept_operand_rounding("f16", reason=...)' in first.reason


def test_nothing_granted_is_claimed_where_nothing_was_needed() -> None:
    for dtype in ("int8", "float64", F32):
        assert planned(dtype).granted == ()
    assert planned("int8", *EVERY_GRANT).granted == ()


# Restrictions


@pytest.mark.parametrize(
    ("word", "dtype", "expected"),
    [
        ("matrix", F32, "scalar"),
        ("matrix", "int8", "scalar"),
        ("matrix", "float64", "scalar"),
        ("accumulation-order", F32, "scalar"),
        ("accumulation-order", "float16", "scalar"),
        ("accumulation-order", "int8", "exact"),
        ("accumulation-order", "float64", "native"),
        ("operand-rounding-f16", F32, "bf16"),
        ("operand-rounding-bf16", F32, "f16"),
        ("operand-rounding-f16", "float16", "native"),
        ("narrower-accumulator", F32, "f16"),
        ("automatic-float-rewrite", F32, "f16"),
        ("contraction", F32, "f16"),
        ("window", F32, "f16"),
        ("epilogue", F32, "f16"),
    ],
)
def test_a_restriction_wins_over_every_grant(word: str, dtype: str, expected: str) -> None:
    made = planned(dtype, *EVERY_GRANT, disabled=[word])
    assert made.configuration.precision == expected
    if expected in ("scalar", "bf16"):
        assert f"MXGEMM_DISABLE={word}" in str(made.refused[0])


@pytest.mark.parametrize(
    ("word", "precision"),
    [
        ("matrix", "f16"),
        ("matrix", "bf16x9"),
        ("accumulation-order", "f64"),
        ("operand-rounding-tf32", "tf32"),
    ],
)
def test_a_restriction_wins_over_an_explicit_precision(word: str, precision: str) -> None:
    for budget in ({}, {"max_error": 1e-2}):
        with pytest.raises(PolicyError, match=f"MXGEMM_DISABLE={word}"):
            planned(F32, *EVERY_GRANT, disabled=[word], precision=precision, **budget)
    assert chosen(F32, disabled=[word], precision="scalar") == "scalar"


def test_restrictions_are_checked_at_every_plan() -> None:
    policy, asked = policy_with("relaxed"), posed("float16")
    assert plan(asked, policy, HOPPER).configuration.precision == "native"
    policy.restrictions = Restrictions(frozenset(["accumulation-order"]))
    assert plan(asked, policy, HOPPER).configuration.precision == "scalar"


# An explicit precision


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_on_the_cpu_an_explicit_precision_needs_only_a_unit_row(dtype: str, arch: str) -> None:
    for row in configurations_for(dtype, dtype):
        if has_unit(row.unit, arch):
            assert chosen(dtype, *EVERY_GRANT, arch=arch, precision=row.precision) == row.precision
        else:
            with pytest.raises(UnsupportedError) as caught:
                planned(dtype, *EVERY_GRANT, arch=arch, precision=row.precision)
            message, _, offered = str(caught.value).partition("supported are ")
            assert f"'{row.precision}'" in message
            assert arch in message
            assert offered.replace(" or ", ", ").split(", ") == [
                r.precision for r in configurations_for(dtype, dtype) if has_unit(r.unit, arch)
            ]


def test_on_a_card_an_explicit_precision_needs_a_kernel() -> None:
    card, policy = Capabilities("cuda:0", "sm_90"), policy_with(*EVERY_GRANT)
    assert plan(posed(), policy, card, precision="tf32").configuration.precision == "tf32"
    with pytest.raises(UnsupportedError) as caught:
        plan(posed(), policy, card, precision="bf16x9")
    assert "no kernel" in str(caught.value)
    assert "device='cpu'" in str(caught.value)
    assert str(caught.value).endswith("supported are f16, bf16, tf32, f64 or scalar")


@pytest.mark.parametrize(
    ("precision", "calls"),
    [
        ("bf16x9", ["mxgemm.accept_relaxed_accumulation(reason=...)"]),
        ("f64", ["mxgemm.accept_relaxed_accumulation(reason=...)"]),
        (
            "f16x3",
            [
                "mxgemm.accept_relaxed_accumulation(reason=...)",
                'mxgemm.accept_operand_rounding("f16x3", reason=...)',
            ],
        ),
        (
            "i8crt8",
            [
                "mxgemm.accept_relaxed_accumulation(reason=...)",
                'mxgemm.accept_operand_rounding("i8crt8", reason=...)',
            ],
        ),
    ],
)
def test_a_precision_that_was_not_accepted_names_the_missing_calls(precision: str, calls: list[str]) -> None:
    with pytest.raises(PolicyError) as caught:
        planned(F32, precision=precision)
    for call in calls:
        assert call in str(caught.value)
    assert ("accept_operand_rounding" in str(caught.value)) == (len(calls) == 2)


def test_only_the_missing_call_is_named() -> None:
    with pytest.raises(PolicyError) as caught:
        planned(F32, "f16", precision="f16")
    assert "accept_relaxed_accumulation" in str(caught.value)
    assert "accept_operand_rounding" not in str(caught.value)


def test_a_grant_for_one_number_of_moduli_is_none_for_another() -> None:
    assert chosen(F32, "relaxed", "i8crt8", precision="i8crt8") == "i8crt8"
    with pytest.raises(PolicyError, match="i8crt9"):
        planned(F32, "relaxed", "i8crt8", precision="i8crt9")


def test_an_explicit_precision_never_needs_automatic_float_rewrite() -> None:
    policy = policy_with("relaxed", "bf16")
    assert plan(posed(), policy, HOPPER, precision="bf16").configuration.precision == "bf16"
    assert "automatic" not in str(plan(posed(), Policy(), HOPPER))


@pytest.mark.parametrize("precision", ["fp12", "native", "exact", "", "F16"])
def test_an_unknown_precision_is_refused_with_the_known(precision: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        planned(F32, *EVERY_GRANT, precision=precision)
    assert repr(precision) in str(caught.value)
    assert "bf16x9" in str(caught.value)


@pytest.mark.parametrize("precision", [7, ["f16"], b"f16"])
def test_a_precision_is_a_name(precision: object) -> None:
    with pytest.raises(UnsupportedError, match="f16, bf16"):
        planned(F32, *EVERY_GRANT, precision=precision)


# max_error


@pytest.mark.parametrize(
    ("arch", "budget", "expected"),
    [
        ("sm_90", 2.0**-6, "bf16"),
        ("sm_90", 2.0**-8, "tf32"),
        ("sm_90", 2.0**-11, "f64"),
        ("sm_90", 1e-13, "f64"),
        ("sm_80", 2.0**-8, "tf32"),
        ("sm_80", 2.0**-11, "scalar"),
        ("sm_75", 1.0, "scalar"),
    ],
)
def test_a_budget_takes_the_fastest_row_whose_bound_meets_it(arch: str, budget: float, expected: str) -> None:
    made = planned(F32, arch=arch, max_error=budget)
    assert made.configuration.precision == expected
    leading = bounds.leading(made.configuration, arch, 100)
    assert leading is not None
    assert leading <= budget


def test_f16_is_no_candidate_for_a_budget_and_says_why() -> None:
    made = planned(F32, *EVERY_GRANT, max_error=1.0)
    assert made.configuration.precision == "bf16"
    assert [r.configuration.precision for r in made.refused] == ["f16"]
    assert "|A||B|" in made.refused[0].reason


def test_a_budget_is_met_exactly_at_the_bound() -> None:
    tf32 = configuration(F32, F32, "tf32")
    leading = bounds.leading(tf32, "sm_90", 100)
    assert leading is not None
    assert chosen(F32, max_error=leading) == "tf32"
    assert chosen(F32, max_error=np.nextafter(leading, 0)) == "f64"


def test_a_budget_depends_on_k() -> None:
    leading = bounds.leading(configuration("float16", "float16", "native"), "sm_90", 100)
    assert leading is not None
    budget = 1.5 * leading
    assert chosen("float16", max_error=budget, k=100) == "native"
    with pytest.raises(UnsupportedError, match="K = 1000"):
        planned("float16", max_error=budget, k=1000)


def test_no_row_within_the_budget_names_the_smallest_bound_on_offer() -> None:
    for arch, smallest in (("sm_90", "f64"), ("sm_80", "scalar")):
        row = configuration(F32, F32, smallest)
        with pytest.raises(UnsupportedError) as caught:
            planned(F32, arch=arch, max_error=1e-30)
        assert f"{bounds.leading(row, arch, 100):.3g} times |A||B| ({smallest})" in str(caught.value)
        assert "max_error=1e-30" in str(caught.value)


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integers_meet_a_budget_of_nothing(dtype: str) -> None:
    assert chosen(dtype, max_error=0) == ("exact" if dtype == "int8" else "scalar")


def test_a_budget_is_a_consent_for_one_call() -> None:
    policy = Policy()
    made = plan(posed(), policy, HOPPER, max_error=2.0**-6)
    assert [grant.name for grant in made.granted] == ["max_error"]
    assert "max_error=0.0156" in made.granted[0].reason
    assert policy.grants() == ()
    assert plan(posed(), policy, HOPPER).configuration.is_scalar


@pytest.mark.parametrize(
    ("word", "expected"),
    [("matrix", "scalar"), ("accumulation-order", "scalar"), ("operand-rounding-bf16", "tf32")],
)
def test_a_restriction_wins_over_a_budget(word: str, expected: str) -> None:
    assert chosen(F32, disabled=[word], max_error=2.0**-6) == expected


def test_with_a_precision_the_budget_must_hold_for_that_precision() -> None:
    assert chosen(F32, precision="bf16", max_error=2.0**-6) == "bf16"
    leading = bounds.leading(configuration(F32, F32, "bf16"), "sm_90", 100)
    assert leading is not None
    assert chosen(F32, precision="bf16", max_error=leading) == "bf16"
    with pytest.raises(PolicyError) as caught:
        planned(F32, *EVERY_GRANT, precision="bf16", max_error=np.nextafter(leading, 0))
    assert f"{leading:.3g} times |A||B|" in str(caught.value)


def test_a_budget_for_a_split_on_the_cpu_is_its_consent() -> None:
    assert chosen(F32, precision="bf16x9", max_error=2.0**-15) == "bf16x9"


@pytest.mark.parametrize("precision", ["f16", "f16x3", "i8crt12"])
def test_no_budget_holds_for_a_bound_with_row_or_range_terms(precision: str) -> None:
    with pytest.raises(PolicyError, match=precision):
        planned(F32, *EVERY_GRANT, precision=precision, max_error=1.0)


@pytest.mark.parametrize("budget", [-1.0, float("nan"), float("inf"), 10**400, "1e-3", 1j])
def test_a_budget_is_a_finite_number(budget: object) -> None:
    with pytest.raises(UnsupportedError, match="max_error"):
        planned(F32, max_error=budget)


def test_a_budget_may_be_a_numpy_scalar() -> None:
    assert chosen(F32, max_error=np.float32(2.0**-6)) == "bf16"


# Types that depend on the choice


def test_the_accumulators_type_is_that_of_the_chosen_row() -> None:
    double = posed(out_dtype="float64")
    with pytest.raises(DTypeError, match="float32/scalar"):
        plan(double, Policy(), HOPPER)
    assert plan(double, policy_with("relaxed"), HOPPER).configuration.precision == "f64"


# Decisions


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "text"),
    [
        ("int8", None, "applied proof=cpu model, sm_90, int8|uint8/exact: bit-identical modulo 2^32"),
        ("int8", "int64", "applied proof=cpu model, sm_90, int8|uint8/exact: bit-identical modulo 2^64"),
        ("float64", None, "applied proof=cpu model, sm_90, float64/native: bit-identical to scalar"),
        ("int32", None, "refused no kernel for matrix units of sm_90 is faster for int32"),
        ("float16", None, "refused native: needs mxgemm.accept_relaxed_accumulation(reason=...)"),
    ],
)
def test_the_explain_line_without_grants(dtype: str, out_dtype: str | None, text: str) -> None:
    decision = plan(posed(dtype, out_dtype=out_dtype), Policy(), HOPPER).decision()
    assert decision.text == f"mxgemm-explain gemm cpu:sm_90 matrix {text}"


def test_the_explain_line_with_grants() -> None:
    assert planned(F32, "relaxed", "bf16", arch="sm_80").decision().text == (
        "mxgemm-explain gemm cpu:sm_80 matrix applied "
        'granted=relaxed-accumulation,operand-rounding-bf16 reason="why relaxed; why bf16" '
        'lowering="cpu model, sm_80, float32/bf16"'
    )


def test_the_explain_line_of_an_explicit_scalar() -> None:
    assert planned(F32, *EVERY_GRANT, precision="scalar").decision().text == (
        "mxgemm-explain gemm cpu:sm_90 matrix refused precision='scalar' asks for no matrix unit"
    )


def test_a_decision_names_the_kernel_that_it_is_about() -> None:
    assert planned("int8").decision("matmul_kernel").kernel == "matmul_kernel"


# The value


def test_planning_is_pure() -> None:
    policy = policy_with("relaxed", "tf32")
    heard: list[object] = []
    policy.set_reporter(heard.append)
    before = policy.grants()
    assert plan(posed(), policy, HOPPER) == plan(posed(), policy, HOPPER)
    assert (policy.grants(), heard) == (before, [])


def test_a_plan_prints_what_runs_where_why_and_its_bound() -> None:
    made = planned(F32, "relaxed", "tf32")
    lines = str(made).splitlines()
    assert lines[0] == str(made.problem)
    assert lines[1] == "  runs     float32/tf32 (fastest admitted)"
    assert lines[2] == "  on       cpu:sm_90, cpu model, sm_90"
    assert lines[3] == f"  bound    {made.bound}"
    assert '  granted  operand-rounding-tf32 reason="why tf32"' in lines
    assert [line for line in lines if line.startswith("  refused  bf16: needs ")]
    assert made.bound == bounds.describe(made.configuration, "sm_90", 100)
