"""gemm() under the program's consent: what runs, what is said of it, and how often."""

import inspect
import threading
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxgemm as mx
from tests.policies import in_a_process, policy_with, under

F32 = np.float32
ONES = {name: np.ones((2, 2), name) for name in ("float16", "float32", "float64", "int8", "int32")}


def ran(policy: Any, dtype: str = "float32", **options: Any) -> str:
    """The precision that gemm runs under a policy, advice aside."""
    with under(policy), warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.MatrixProductAdvice)
        found: str = mx.gemm_outcome(ONES[dtype], ONES[dtype], **options).outcome.plan.configuration.precision
    return found


# What runs


def test_the_grants_of_the_policy_decide() -> None:
    assert ran(policy_with()) == "scalar"
    assert ran(policy_with("relaxed")) == "f64"
    assert ran(policy_with("relaxed", "bf16")) == "bf16"
    assert ran(policy_with("relaxed", "bf16", "f16")) == "f16"
    assert ran(policy_with("relaxed", "bf16", disabled=["matrix"])) == "scalar"
    assert ran(policy_with(), "int8") == "exact"
    assert ran(policy_with(), "float64") == "native"


def test_a_grant_counts_from_the_next_call_on() -> None:
    policy = policy_with()
    assert ran(policy, "float16") == "scalar"
    policy.accept_relaxed_accumulation(reason="r")
    assert ran(policy, "float16") == "native"


def test_max_error_is_a_consent_for_that_one_call() -> None:
    policy = policy_with()
    assert ran(policy, max_error=0.1) == "bf16"
    assert ran(policy) == "scalar"
    assert policy.grants() == ()


def test_bits_follow_the_choice() -> None:
    x = np.array([[1 + 2.0**-12]], F32)
    one = np.ones((1, 1), F32)
    for grants, expected in (((), 1 + 2.0**-12), (("relaxed", "f16"), 1), (("relaxed",), 1 + 2.0**-12)):
        with under(policy_with(*grants)), warnings.catch_warnings():
            warnings.simplefilter("ignore", mx.MatrixProductAdvice)
            assert mx.gemm(x, one)[0, 0] == expected


# explain


def test_explain_gives_the_plan_of_gemm_and_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_arguments: Any, **_more: Any) -> Any:
        raise AssertionError

    out, heard = np.full((2, 2), 55, F32), []
    policy = policy_with("relaxed", "tf32")
    policy.set_reporter(heard.append)
    with under(policy):
        ran_plan = mx.gemm_outcome(ONES["float32"], ONES["float32"]).outcome.plan
        heard.clear()
        monkeypatch.setattr("mxgemm.units.run", never)
        plan = mx.explain(ONES["float32"], ONES["float32"])
        mx.explain(ONES["float32"], ONES["float32"], out=out)
    assert plan == ran_plan
    assert str(plan).splitlines()[1] == "  runs     float32/tf32 (fastest admitted)"
    assert (out == 55).all()
    assert heard == []


def test_explain_gives_no_advice() -> None:
    with under(policy_with()):  # a warning would be an error here
        assert mx.explain(ONES["float32"], ONES["float32"]).configuration.is_scalar


def test_explain_refuses_what_gemm_refuses() -> None:
    with under(policy_with()):
        with pytest.raises(mx.PolicyError):
            mx.explain(ONES["float32"], ONES["float32"], precision="f16")
        with pytest.raises(mx.ShapeError):
            mx.explain(ONES["float32"], np.ones((3, 2), F32))


# Advice


def test_advice_comes_once_and_names_the_missing_calls() -> None:
    with under(policy_with()):
        with pytest.warns(mx.MatrixProductAdvice) as caught:
            mx.gemm(ONES["float32"], ONES["float32"])
        mx.gemm(ONES["float32"], ONES["float32"])  # a warning would be an error here
        mx.gemm(np.ones((7, 3), F32), np.ones((3, 1), F32), alpha=2)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "float32" in text
    assert "mxgemm.accept_relaxed_accumulation(reason=...)" in text
    for precision in ("f16", "bf16", "tf32"):
        assert f'mxgemm.accept_operand_rounding("{precision}", reason=...)' in text


@pytest.mark.parametrize("face", ["gemm", "gemm_outcome", "gemm_grouped"])
def test_advice_points_at_the_line_of_the_program(face: str) -> None:
    x = ONES["float16"]
    call, operands = getattr(mx, face), ([(x, x)],) if face == "gemm_grouped" else (x, x)
    with under(policy_with()), pytest.warns(mx.MatrixProductAdvice) as caught:
        call(*operands)
    lines = Path(caught[0].filename).read_text().splitlines()
    assert caught[0].filename == __file__
    assert lines[caught[0].lineno - 1] == "        call(*operands)"


def test_advice_comes_once_for_each_type_and_place() -> None:
    with under(policy_with()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for dtype, device in 2 * list(product(("float32", "float16"), ("cpu", "cpu:sm_90", "cpu:sm_80"))):
            mx.gemm(ONES[dtype], ONES[dtype], device=device)
    assert len(caught) == 4


def test_advice_comes_once_from_many_threads() -> None:
    caught: list[str] = []
    policy, barrier = policy_with(), threading.Barrier(8)

    def call() -> None:
        barrier.wait()
        mx.gemm(ONES["float32"], ONES["float32"])

    with under(policy), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_more: caught.append(str(message))  # type: ignore[assignment]
        threads = [threading.Thread(target=call) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("int8", {}),
        ("int32", {}),
        ("float64", {}),
        ("float32", {"precision": "scalar"}),
        ("float32", {"max_error": 1e-6, "device": "cpu:sm_80"}),
        ("float16", {"device": "cpu:sm_70"}),
        ("float32", {"device": "cpu:sm_100"}),
    ],
)
def test_no_advice_where_no_grant_would_help(dtype: str, options: dict[str, Any]) -> None:
    with under(policy_with()):  # a warning would be an error here
        mx.gemm(ONES[dtype], ONES[dtype], **options)


def test_no_advice_for_what_the_environment_took_away() -> None:
    with under(policy_with(disabled=["matrix"])):
        mx.gemm(ONES["float32"], ONES["float32"])
    with under(policy_with(disabled=["accumulation-order"])):
        mx.gemm(ONES["float16"], ONES["float16"])


def test_a_restriction_of_something_else_does_not_silence_advice() -> None:
    for word in ("window", "operand-rounding-f16"):
        policy = policy_with(disabled=[word])
        with under(policy), pytest.warns(mx.MatrixProductAdvice) as caught:
            mx.gemm(ONES["float32"], ONES["float32"])
        assert "MXGEMM_DISABLE" not in str(caught[0].message)


def test_advice_that_is_an_error_leaves_out_untouched() -> None:
    out = np.full((2, 2), 55, F32)
    with under(policy_with()), pytest.raises(mx.MatrixProductAdvice):
        mx.gemm(ONES["float32"], ONES["float32"], out=out)
    assert (out == 55).all()


# Decisions


def test_the_reporter_hears_every_decision_and_the_outcome_is_its_text() -> None:
    heard: list[mx.Decision] = []
    policy = policy_with("relaxed", "bf16")
    policy.set_reporter(heard.append)
    with under(policy):
        results = [mx.gemm_outcome(ONES[t], ONES[t]) for t in ("int8", "float32", "float32", "int32")]
    assert [r.outcome.text for r in results] == [d.text for d in heard]
    assert str(results[0].outcome) == (
        "mxgemm-explain gemm cpu:sm_90 matrix applied "
        "proof=cpu model, sm_90, int8|uint8/exact: bit-identical modulo 2^32"
    )
    assert heard[1] == heard[2]
    assert [d.applied for d in heard] == [True, True, True, False]


def test_a_refused_call_is_no_decision() -> None:
    heard: list[mx.Decision] = []
    policy = policy_with()
    policy.set_reporter(heard.append)
    with under(policy), pytest.raises(mx.PolicyError):
        mx.gemm(ONES["float32"], ONES["float32"], precision="f16")
    assert heard == []


# The process: one-way grants and the environment, in an interpreter of their own


CALL = """
import warnings, numpy as np, mxgemm as mx
warnings.simplefilter("ignore", mx.MatrixProductAdvice)
x = np.ones((2, 2), np.float32)
def ran(**options):
    return mx.gemm_outcome(x, x, **options).outcome.plan.configuration.precision
"""


def output_of(code: str, **environment: str) -> str:
    run = in_a_process(CALL + code, **environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_public_grants_change_what_the_process_runs() -> None:
    assert output_of("""
print(ran())
mx.accept_relaxed_accumulation(reason="r")
print(ran())
mx.accept_operand_rounding("tf32", reason="r")
print(ran())
mx.accept_operand_rounding("f16", reason="r")
print(ran(), ran(precision="f16"), ran(max_error=5e-3), [grant.name for grant in mx.grants()])
""").split("\n") == [
        "scalar",
        "f64",
        "tf32",
        "f16 f16 tf32 ['relaxed-accumulation', 'operand-rounding-tf32', 'operand-rounding-f16']",
        "",
    ]


def test_the_environment_takes_away_and_is_read_at_import() -> None:
    code = """
import os
os.environ["MXGEMM_DISABLE"] = "matrix"
mx.accept_relaxed_accumulation(reason="r")
mx.accept_operand_rounding("f16", reason="r")
mx.accept_operand_rounding("bf16", reason="r")
print(ran())
try:
    ran(precision="f16")
except mx.PolicyError as error:
    print(error)
"""
    first, second = output_of(code, MXGEMM_DISABLE="operand-rounding-f16").splitlines()
    assert first == "bf16"  # and not scalar, which "matrix" would leave
    assert "MXGEMM_DISABLE=operand-rounding-f16" in second


def test_explain_prints_each_distinct_decision_once_on_stderr() -> None:
    code = (
        CALL
        + """
for _ in range(3):
    ran()
    mx.gemm(x.astype(np.int8), x.astype(np.int8))
mx.explain(x, x, device="cpu:sm_80")
import sys
print([name for name in ("cupy", "torch", "jax", "cuda") if name in sys.modules])
"""
    )
    run = in_a_process(code, MXGEMM_EXPLAIN="1")
    assert run.stdout == "[]\n"  # and no device library was imported
    lines = run.stderr.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("mxgemm-explain gemm cpu:sm_90 matrix refused f16: needs mxgemm.accept_")
    assert lines[1].endswith("int8|uint8/exact: bit-identical modulo 2^32")


def test_advice_appears_once_in_a_program_with_pythons_own_filter() -> None:
    run = in_a_process("""
import numpy as np, mxgemm as mx
x = np.ones((2, 2), np.float32)
for _ in range(3):
    mx.gemm(x, x)
mx.gemm(x, x)
""")
    assert run.returncode == 0
    assert run.stderr.count("MatrixProductAdvice") == 1


def test_public_names_are_there() -> None:
    assert {"gemm", "gemm_outcome", "gemm_grouped", "explain", "check", "epilogue"} <= set(mx.__all__)
    assert all(hasattr(mx, name) for name in mx.__all__)
    parameters = inspect.signature(mx.gemm).parameters
    assert {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY} == {
        "alpha": 1, "beta": 0, "transpose_a": False, "transpose_b": False, "precision": None,
        "max_error": None, "out": None, "out_dtype": None, "epilogue": None, "verify": None, "device": None,
        "stream": None, "workspace": None,
    }  # fmt: skip
    assert [name for name, p in parameters.items() if p.kind is not p.KEYWORD_ONLY] == ["a", "b", "c"]
