"""Grants are one-way and carry a reason; the environment only takes away; decisions are values and lines."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from mxgemm.configs import CONFIGURATIONS, configuration, rounding_precisions
from mxgemm.decisions import Decision, Grant, missing_call
from mxgemm.errors import MxgemmError, UnsupportedError
from mxgemm.policy import Policy
from mxgemm.restrictions import Restrictions, known_words

F32 = "float32"
BF16 = configuration(F32, F32, "bf16")
BF16X9 = configuration(F32, F32, "bf16x9")
SCALAR = configuration(F32, F32, "scalar")
INT32 = configuration("int32", "int32", "exact")

ACCEPTS: dict[str, Callable[[Policy, str], None]] = {
    "relaxed-accumulation": lambda p, reason: p.accept_relaxed_accumulation(reason=reason),
    "operand-rounding-bf16": lambda p, reason: p.accept_operand_rounding("bf16", reason=reason),
    "narrower-accumulator": lambda p, reason: p.accept_narrower_accumulator(reason=reason),
    "automatic-float-rewrite": lambda p, reason: p.accept_automatic_float_rewrite(reason=reason),
    "contraction:saxpy": lambda p, reason: p.accept_contraction("saxpy", reason=reason),
}
each_grant = pytest.mark.parametrize("name", ACCEPTS)


def restricted(*words: str) -> Policy:
    return Policy(Restrictions(frozenset(words)))


def generous(policy: Policy) -> Policy:
    """Give `policy` every grant that a row of the table can need."""
    policy.accept_relaxed_accumulation(reason="r")
    for precision in rounding_precisions():
        policy.accept_operand_rounding(precision, reason="r")
    return policy


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in an interpreter of its own, with only these MXGEMM_ variables."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MXGEMM_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=clean | environment, capture_output=True, text=True, check=False
    )


# Grants


@each_grant
def test_a_grant_is_readable_with_its_reason(name: str) -> None:
    policy = Policy()
    ACCEPTS[name](policy, "checked against gamma_K")
    assert policy.grants() == (Grant(name, "checked against gamma_K"),)
    assert policy.in_force(name)


@each_grant
def test_the_first_reason_is_kept(name: str) -> None:
    policy = Policy()
    ACCEPTS[name](policy, "first")
    ACCEPTS[name](policy, "second")
    assert [grant.reason for grant in policy.grants()] == ["first"]


@each_grant
@pytest.mark.parametrize("blank", ["", " ", "\t\n", None, 3])
def test_a_blank_reason_is_a_value_error_and_grants_nothing(name: str, blank: str) -> None:
    policy = Policy()
    with pytest.raises(ValueError, match="non-empty reason") as caught:
        ACCEPTS[name](policy, blank)
    assert isinstance(caught.value, MxgemmError)
    assert policy.grants() == ()


def test_an_unknown_precision_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnsupportedError) as caught:
        Policy().accept_operand_rounding("fp4", reason="r")
    assert all(precision in str(caught.value) for precision in rounding_precisions())


@pytest.mark.parametrize("precision", ["bf16x9", "native", "exact", "f64", "scalar"])
def test_a_precision_that_rounds_nothing_cannot_be_accepted(precision: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{precision} rounds no operand"):
        Policy().accept_operand_rounding(precision, reason="r")


def test_each_crt_has_a_grant_of_its_own() -> None:
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="r")
    policy.accept_operand_rounding("i8crt8", reason="r")
    assert policy.refusal(configuration(F32, F32, "i8crt8")) is None
    assert policy.refusal(configuration(F32, F32, "i8crt7")) is not None


def test_contraction_takes_a_kernel_by_its_name() -> None:
    def saxpy() -> None: ...

    policy = Policy()
    policy.accept_contraction(saxpy, reason="r")
    assert policy.in_force("contraction:saxpy")


@pytest.mark.parametrize("kernel", ["", " ", 3])
def test_contraction_of_something_without_a_name_is_refused(kernel: str) -> None:
    with pytest.raises(UnsupportedError, match="has no name"):
        Policy().accept_contraction(kernel, reason="r")


def test_nothing_public_withdraws_a_grant() -> None:
    verbs = ("revoke", "withdraw", "clear", "reset", "remove", "forget", "reject", "deny", "pop")
    assert not [name for name in dir(Policy) if any(verb in name for verb in verbs)]
    with pytest.raises(AttributeError):
        Grant("relaxed-accumulation", "r").reason = "another"  # type: ignore[misc]  # what must fail


# Admission


@pytest.mark.parametrize("row", CONFIGURATIONS, ids=lambda row: row.name)
def test_a_row_is_admitted_exactly_when_all_that_it_needs_was_granted(row) -> None:
    assert (Policy().refusal(row) is None) == (row.grants == ())
    assert generous(Policy()).refusal(row) is None


def test_a_refusal_names_every_missing_call() -> None:
    reason = Policy().refusal(BF16)
    assert reason is not None
    assert "mxgemm.accept_relaxed_accumulation(reason=...)" in reason
    assert 'mxgemm.accept_operand_rounding("bf16", reason=...)' in reason


def test_a_refusal_does_not_name_what_was_given() -> None:
    policy = Policy()
    policy.accept_relaxed_accumulation(reason="r")
    reason = policy.refusal(BF16)
    assert reason is not None
    assert "relaxed" not in reason


def test_a_launch_may_need_more_than_its_row() -> None:
    policy = generous(Policy())
    also = ("automatic-float-rewrite", "narrower-accumulator")
    reason = policy.refusal(BF16, also=also)
    assert reason is not None
    assert "accept_automatic_float_rewrite" in reason
    assert "accept_narrower_accumulator" in reason
    policy.accept_automatic_float_rewrite(reason="x")
    policy.accept_narrower_accumulator(reason="y")
    assert policy.refusal(BF16, also=also) is None
    assert [grant.reason for grant in policy.reasons(BF16, also=also)] == ["r", "r", "x", "y"]


def test_a_consent_in_the_call_stands_for_the_grants() -> None:
    assert Policy().refusal(BF16, consented=True) is None
    assert Policy().reasons(BF16) == ()


@pytest.mark.parametrize("name", ["relaxed-accumulation", "operand-rounding-bf16x3", "contraction:saxpy"])
def test_the_missing_call_is_one_that_exists(name: str) -> None:
    policy = Policy()
    call = missing_call(name).replace("mxgemm.", "policy.").replace("...", "'because'")
    eval(call, {"policy": policy})  # noqa: S307 — our own text, and that it evaluates is the point
    assert policy.in_force(name)


# Restrictions


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("accumulation-order", "relaxed-accumulation"),
        ("operand-rounding-bf16", "operand-rounding-bf16"),
        ("narrower-accumulator", "narrower-accumulator"),
        ("automatic-float-rewrite", "automatic-float-rewrite"),
        ("contraction", "contraction:saxpy"),
    ],
)
def test_a_revoked_grant_is_recorded_and_has_no_effect(word: str, name: str) -> None:
    policy = restricted(word)
    ACCEPTS[name](policy, "r")
    assert policy.grants() == (Grant(name, "r", revoked_by=word),)
    assert not policy.in_force(name)
    assert word in str(policy.grants()[0])


def test_a_revoked_rounding_refuses_its_precision_alone() -> None:
    policy = generous(restricted("operand-rounding-bf16"))
    refused = {row.precision for row in CONFIGURATIONS if policy.refusal(row)}
    assert refused == {"bf16"}
    assert "MXGEMM_DISABLE=operand-rounding-bf16" in str(policy.refusal(BF16))


def test_a_restriction_wins_over_a_consent_in_the_call() -> None:
    assert restricted("accumulation-order").refusal(BF16X9, consented=True) is not None


def test_matrix_leaves_only_scalar() -> None:
    policy = generous(restricted("matrix"))
    assert {row.precision for row in CONFIGURATIONS if policy.refusal(row) is None} == {"scalar"}
    assert policy.refusal(INT32) == "MXGEMM_DISABLE=matrix leaves only scalar"


def test_no_word_touches_scalar() -> None:
    assert restricted(*known_words()).refusal(SCALAR) is None


def test_an_unknown_word_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(UnsupportedError) as caught:
        Restrictions.from_environment({"MXGEMM_DISABLE": "matrix, matrices"})
    assert "'matrices'" in str(caught.value)
    assert all(word in str(caught.value) for word in known_words())


def test_blanks_and_empty_words_do_not_count() -> None:
    parsed = Restrictions.from_environment({"MXGEMM_DISABLE": " matrix ,, window,"})
    assert parsed.words == {"matrix", "window"}
    assert parsed.disables("window")
    assert str(parsed) == "MXGEMM_DISABLE=matrix,window"


# Decisions

RELAXED = Grant("relaxed-accumulation", "checked")
ROUNDED = Grant("operand-rounding-bf16", "accurate enough")


def test_the_text_of_a_proved_decision() -> None:
    decision = Decision.proved(
        "gemm",
        "cpu:sm_90",
        lowering="model",
        variant="s8",
        configuration="int32/exact",
        claim="bit-identical modulo 2^32",
    )
    assert decision.text == (
        "mxgemm-explain gemm cpu:sm_90 matrix applied proof=model, s8, int32/exact: bit-identical modulo 2^32"
    )
    assert decision.applied


def test_the_text_of_a_granted_decision() -> None:
    decision = Decision.granted(
        "gemm",
        "cuda:0",
        lowering="wgmma",
        variant="128x256",
        configuration="float32/bf16",
        grants=(RELAXED, ROUNDED),
    )
    assert decision.text == (
        "mxgemm-explain gemm cuda:0 matrix applied granted=relaxed-accumulation,operand-rounding-bf16 "
        'reason="checked; accurate enough" lowering="wgmma, 128x256, float32/bf16"'
    )
    assert decision.applied


def test_the_text_of_a_refusal() -> None:
    decision = Decision.refused("matmul", "cpu:sm_90", "scalar runs:\n  nothing granted")
    assert decision.text == "mxgemm-explain matmul cpu:sm_90 matrix refused scalar runs: nothing granted"
    assert not decision.applied


def test_a_reason_cannot_break_its_line() -> None:
    grants = (Grant("relaxed-accumulation", 'said "yes"\nand left'),)
    decision = Decision.granted(
        "gemm", "cuda:0", lowering="mma", variant="v", configuration="c", grants=grants
    )
    assert "\n" not in decision.text
    assert r'reason="said \"yes\"\nand left"' in decision.text


def test_every_decision_reaches_the_reporter_and_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Decision] = []
    policy = Policy(explain=True)
    policy.set_reporter(heard.append)
    first, second = (Decision.refused("gemm", "cpu:sm_90", reason) for reason in ("one", "two"))
    for decision in (first, second, first):
        policy.report(decision)
    assert heard == [first, second, first]
    assert capsys.readouterr().err == f"{first.text}\n{second.text}\n"


def test_nothing_is_printed_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    Policy().report(Decision.refused("gemm", "cpu:sm_90", "r"))
    assert capsys.readouterr() == ("", "")


def test_a_reporter_can_be_taken_off() -> None:
    heard: list[Decision] = []
    policy = Policy()
    policy.set_reporter(heard.append)
    policy.set_reporter(None)
    policy.report(Decision.refused("gemm", "cpu:sm_90", "r"))
    assert heard == []


def test_a_reporter_must_be_callable() -> None:
    with pytest.raises(UnsupportedError, match="takes a callable"):
        Policy().set_reporter(3)  # type: ignore[arg-type]  # what must fail


def test_a_failing_reporter_is_shown_and_fails_no_launch(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(decision: Decision) -> None:
        raise RuntimeError(f"no room for {decision.kernel}")

    policy = Policy()
    policy.set_reporter(fails)
    policy.report(Decision.refused("gemm", "cpu:sm_90", "r"))
    shown = capsys.readouterr().err
    assert "the launch goes on" in shown
    assert "RuntimeError: no room for gemm" in shown


def test_what_a_reporter_decides_itself_is_not_reported_again() -> None:
    heard: list[Decision] = []
    policy = Policy()

    def multiplies(decision: Decision) -> None:
        heard.append(decision)
        policy.report(Decision.refused("inner", "cpu:sm_90", "r"))

    policy.set_reporter(multiplies)
    policy.report(Decision.refused("outer", "cpu:sm_90", "r"))
    assert [decision.kernel for decision in heard] == ["outer"]


# Threads


def in_threads(count: int, work: Callable[[int], None]) -> None:
    barrier = threading.Barrier(count)

    def member(index: int) -> None:
        barrier.wait()
        work(index)

    threads = [threading.Thread(target=member, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_cause_comes_first_once_under_threads() -> None:
    policy = Policy()
    first: list[tuple[int, int]] = []

    def ask(index: int) -> None:
        first.extend((cause, index) for cause in range(200) if policy.once(cause))

    in_threads(8, ask)
    assert sorted(cause for cause, _ in first) == list(range(200))


def test_one_reason_survives_threads_that_grant_at_once() -> None:
    policy = Policy()
    seen: list[str] = []

    def grant(index: int) -> None:
        policy.accept_relaxed_accumulation(reason=str(index))
        seen.append(policy.grants()[0].reason)

    in_threads(8, grant)
    assert set(seen) == {policy.grants()[0].reason}
    assert len(policy.grants()) == 1


# The process's own policy

GRANTING = """
import mxgemm as mx
mx.accept_relaxed_accumulation(reason="first")
mx.accept_relaxed_accumulation(reason="second")
mx.accept_operand_rounding("bf16", reason="b")
mx.accept_narrower_accumulator(reason="n")
mx.accept_automatic_float_rewrite(reason="a")
mx.accept_contraction("saxpy", reason="c")
print(*(f"{grant.name}={grant.reason}={grant.revoked_by}" for grant in mx.grants()), sep=";")
"""


def test_the_public_grants_are_process_wide() -> None:
    run = in_a_process(GRANTING)
    assert run.stdout.strip() == (
        "relaxed-accumulation=first=;operand-rounding-bf16=b=;narrower-accumulator=n=;"
        "automatic-float-rewrite=a=;contraction:saxpy=c="
    )


def test_the_environment_revokes_public_grants() -> None:
    run = in_a_process(GRANTING, MXGEMM_DISABLE="accumulation-order,contraction")
    assert "relaxed-accumulation=first=accumulation-order;" in run.stdout
    assert "contraction:saxpy=c=contraction" in run.stdout
    assert "operand-rounding-bf16=b=;" in run.stdout


def test_an_unknown_word_in_the_environment_fails_the_import() -> None:
    run = in_a_process("import mxgemm", MXGEMM_DISABLE="tensor-cores")
    assert run.returncode == 1
    assert "MXGEMM_DISABLE does not know 'tensor-cores'; known words are matrix" in run.stderr


DECIDING = """
from mxgemm import policy
from mxgemm.decisions import Decision
heard = []
policy.set_reporter(heard.append)
for reason in ("r", "r"):
    policy.default_policy().report(Decision.refused("gemm", "cpu:sm_90", reason))
assert len(heard) == 2
"""


@pytest.mark.parametrize(("value", "lines"), [("1", 1), ("0", 0), ("yes", 0), ("", 0)])
def test_explain_prints_each_distinct_decision_once(value: str, lines: int) -> None:
    run = in_a_process(DECIDING, MXGEMM_EXPLAIN=value)
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines() == ["mxgemm-explain gemm cpu:sm_90 matrix refused r"] * lines


FORKING = """
import os, signal, threading
from mxgemm import policy
default, stop = policy.default_policy(), threading.Event()
def busy():
    while not stop.is_set():
        default.once(object())
threads = [threading.Thread(target=busy) for _ in range(4)]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        default.once("in the child")
        os._exit(0)
    children.append(child)
stop.set()
statuses = [os.waitpid(child, 0)[1] for child in children]
assert statuses == [0] * 20, statuses
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_the_policy_works_in_a_child_forked_while_threads_use_it() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MXGEMM_")}
    run = subprocess.run(
        [sys.executable, "-c", FORKING], env=clean, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr


def test_grants_are_counted_for_warmed_calls_while_nobody_listens() -> None:
    policy = Policy()
    assert policy.unheard == 0
    for _ in range(2):
        policy.accept_relaxed_accumulation(reason="the first counts")
    assert policy.unheard == policy.number_of_grants == 1
    policy.set_reporter(lambda _decision: None)
    policy.accept_operand_rounding("f16", reason="while somebody listens")
    assert policy.unheard is None
    policy.set_reporter(None)
    assert policy.unheard == policy.number_of_grants == 2
    assert Policy(explain=True).unheard is None
