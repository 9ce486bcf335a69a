"""The road of one call: read, plan, run where it belongs, verify, hand out.

``begin`` refuses everything that can be refused; ``finish`` runs.  Between the two stands a
:class:`Begun`, so that several calls can be planned before the first one runs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mxgemm import array, device, gpu
from mxgemm import verify as verification
from mxgemm.array import ArrayView
from mxgemm.call import Call, HostOperands, host_operands, read_call
from mxgemm.errors import MatrixProductAdvice, UnsupportedError, VerificationError, one_of
from mxgemm.kernels import Lowering
from mxgemm.options import Options, refuse_unknown
from mxgemm.outcome import GemmResult, Outcome
from mxgemm.plan import FASTEST, Plan
from mxgemm.plan import plan as make_plan
from mxgemm.policy import Policy
from mxgemm.run import deliver_host, run_host

if TYPE_CHECKING:
    from mxgemm.verify import Certificate

__all__ = ["LEVELS", "Begun", "begin", "finish", "run_and_verify"]

HandOut = Callable[[], GemmResult]

LEVELS = ("full",)
_READ = ("alpha", "beta", "transpose_a", "transpose_b", "out", "out_dtype", "epilogue", "device")


class Begun(NamedTuple):
    """A call that was read and planned.

    Attributes
    ----------
    call : Call
    plan : Plan
    options : Options
        The caller's keywords.
    lowering : Lowering or None
        The launches on a GPU; None on the CPU model.
    may_allocate : bool
        Whether the lowering was chosen as one that may have workspace.
    """

    call: Call
    plan: Plan
    options: Options
    lowering: Lowering | None = None
    may_allocate: bool = True


def begin(operands: tuple[Any, Any, Any], options: Options, policy: Policy) -> Begun:
    """Read and plan one call: everything that can be refused is refused here."""
    refuse_unknown(options)
    level = options.get("verify")
    if level is not None and level not in LEVELS:
        raise UnsupportedError(f"verify={level!r} is not supported; supported is {one_of(LEVELS)}")
    given = {name: value for name, value in options.items() if name in _READ}
    call = read_call(*operands, **given)  # type: ignore[arg-type]  # a typed dictionary's values are objects
    if call.capabilities.is_cpu:
        for name in ("stream", "workspace"):
            if options.get(name) is not None:
                raise UnsupportedError(f"{name}= is for GPUs; on {call.capabilities.backend} it must be None")
        return Begun(call, _plan(call, options, policy), options)
    call = gpu.as_uploaded(call)
    planned = _plan(call, options, policy)
    may_allocate = _may_allocate(call, options)
    made, lowering = gpu.lower_call(
        call, planned, may_allocate=may_allocate, remembered=not policy.restrictions.disables("autotune")
    )
    return Begun(call, made, options, lowering, may_allocate)


def _may_allocate(call: Call, options: Options) -> bool:
    """Whether the product can have workspace: a captured one has only what ``workspace=`` brings."""
    if options.get("workspace") is not None:
        return True
    ordinal = int(call.capabilities.backend.removeprefix("cuda:"))
    return not device.is_capturing(_stream(call, options), ordinal)


def _plan(call: Call, options: Options, policy: Policy) -> Plan:
    precision, max_error = options.get("precision"), options.get("max_error")
    return make_plan(call.problem, policy, call.capabilities, precision=precision, max_error=max_error)


def finish(begun: Begun, policy: Policy, *, observed: bool = True) -> GemmResult:
    """Report, run, verify and hand out one planned call; parameters as :func:`run_and_verify`."""
    return run_and_verify(begun, policy, observed=observed)()


def run_and_verify(begun: Begun, policy: Policy, *, observed: bool = True) -> HandOut:
    """Report, run and verify one planned call, and return what hands its result out.

    Until that is called, a result on the host or one that is verified has not reached ``out``.

    Parameters
    ----------
    observed : bool
        Whether the caller gets the Outcome; on a GPU nothing is allocated for its flags otherwise.
    """
    policy.report(begun.plan.decision())
    _advise(begun.plan, policy)
    if begun.lowering is None:
        return _run_on_host(begun)
    return _run_on_device(begun, begun.lowering, observed=observed)


def _run_on_host(begun: Begun) -> HandOut:
    operands = host_operands(begun.call)
    found = run_host(begun.call, begun.plan, operands)
    certificate = _verify(found.array, begun, operands) if begun.options.get("verify") else None
    outcome = Outcome(begun.plan, read_flags=found.read_flags)
    return lambda: GemmResult(deliver_host(found.array, begun.call), outcome, certificate)


def _run_on_device(begun: Begun, lowering: Lowering, *, observed: bool) -> HandOut:
    call, options = begun.call, begun.options
    ordinal = int(call.capabilities.backend.removeprefix("cuda:"))
    from_host = call.a.host is not None
    stream = _stream(call, options)
    given = options.get("workspace")
    workspace: ArrayView | None = None if given is None else array.view(given, "workspace", writable=True)
    checked = bool(options.get("verify"))
    if checked:
        device.refuse_capture(stream, ordinal, "verify= checks on the host; leave it away under capture")
        # The operands may be made on the given stream, which need not be their library's current one.
        device.synchronize(stream, ordinal)
    operands = host_operands(call) if checked else None
    on_device = gpu.upload(call, ordinal, stream)
    direct = call.out if not (from_host or checked) else None
    target = direct or gpu.new_result(call, ordinal, stream)
    done = gpu.run_device(on_device, lowering, target, stream, workspace, observe=observed)
    outcome = Outcome(begun.plan, read_flags=done.read_flags)
    if not (from_host or checked):
        return lambda: GemmResult(array.deliver(target, stream), outcome)
    result = array.to_host(target, stream)
    certificate = _verify(result, begun, operands) if operands else None
    if call.out is None and not from_host:
        return lambda: GemmResult(array.deliver(target, stream), outcome, certificate)
    return lambda: GemmResult(deliver_host(result, call), outcome, certificate)


def _stream(call: Call, options: Options) -> int:
    """The stream rule; arrays from the host have none of their own."""
    if call.a.host is not None and options.get("stream") is None:
        return device.LEGACY
    return array.launch_stream(options.get("stream"), call.out, call.a)


def _advise(made: Plan, policy: Policy) -> None:
    """Say once for each pair of type and place that a grant would let matrix units run."""
    offers = [refusal for refusal in made.refused if refusal.names_a_call]
    if made.request != FASTEST or not made.configuration.is_scalar or not offers:
        return
    if not policy.once(("advice", made.capabilities.backend, offers[0])):
        return
    message = f"this {made.problem.a.dtype} product runs without matrix units: {'; '.join(map(str, offers))}"
    warnings.warn(message, MatrixProductAdvice, stacklevel=_level_of_the_program())


def _level_of_the_program() -> int:
    """The ``stacklevel`` at which the caller of this function warns about the program's own line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mxgemm":
        level, frame = level + 1, frame.f_back
    return level


def _verify(result: np.ndarray[Any, Any], begun: Begun, operands: HostOperands) -> Certificate:
    problem = begun.plan.problem
    full = result.reshape((*problem.batch, problem.m, problem.n))
    arch = begun.plan.capabilities.arch
    found = verification.full(full, problem, begun.plan.configuration, arch, operands)
    certificate = replace(found, computed_on=begun.plan.capabilities.backend)
    if not certificate.passed:
        raise VerificationError(f"the result left its bound\n{certificate}", certificate, result)
    return certificate
