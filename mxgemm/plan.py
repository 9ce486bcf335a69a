"""Plan: admission.  Problem × configuration table × policy × capabilities → what will run, and why.

Pure: no side effect, no launch.  A Plan says which configuration was chosen, which
grants or which exactness admitted it, why every faster one was refused, and the bound
that the result will meet.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from mxgemm import bounds
from mxgemm.capabilities import Capabilities
from mxgemm.configs import Configuration, configuration, configurations_for, has_unit, precisions_for
from mxgemm.errors import PolicyError, UnsupportedError, one_of
from mxgemm.policy import Decision, Grant, Policy
from mxgemm.problem import GemmProblem, check_dtypes, without_vanishing_terms

__all__ = ["FASTEST", "Plan", "Refusal", "named", "plan"]

FASTEST = "fastest admitted"


class Kernel(Protocol):
    """What admission needs to know of a GPU kernel: how it calls itself."""

    @property
    def lowering(self) -> str:
        """The kernel family, for example "mma.sync"."""

    @property
    def variant(self) -> str:
        """The tile and what else tells it from its siblings."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A configuration that would have been faster, and why it does not run."""

    configuration: Configuration
    reason: str

    @property
    def names_a_call(self) -> bool:
        """Whether a grant would lift it; restrictions and bounds are not lifted so."""
        return "mxgemm.accept_" in self.reason

    def __str__(self) -> str:
        return f"{self.configuration.precision}: {self.reason}"


@dataclass(frozen=True)
class Plan:
    """What will run.

    Attributes
    ----------
    problem : GemmProblem
        What is asked.
    configuration : Configuration
        The arithmetic that it runs in.
    capabilities : Capabilities
        Where it runs.
    request : str
        How the configuration was chosen: "fastest admitted", "precision=…" or "max_error=…".
    granted : tuple of Grant
        The grants that admitted it; empty when nothing had to be granted.
    refused : tuple of Refusal
        Faster configurations, with the reason for each.
    bound : str
        The error bound in words and figures.
    kernel : Kernel or None
        The GPU kernel; None on the CPU model.
    workspace_bytes : int
        Device memory that packing needs beyond the operands.
    notes : tuple of str
        What else the caller may want to know, for example which operand is packed.
    """

    problem: GemmProblem
    configuration: Configuration
    capabilities: Capabilities
    request: str
    granted: tuple[Grant, ...] = ()
    refused: tuple[Refusal, ...] = ()
    bound: str = ""
    kernel: Kernel | None = None
    workspace_bytes: int = 0
    notes: tuple[str, ...] = field(default=())

    @property
    def lowering(self) -> str:
        """Which code computes it: a kernel family, or the CPU model."""
        return self.kernel.lowering if self.kernel else "cpu model"

    @property
    def variant(self) -> str:
        """The kernel's tile, or the architecture that the CPU model follows."""
        return self.kernel.variant if self.kernel else self.capabilities.arch

    @property
    def proof(self) -> str:
        """Why the bits cannot differ from the original computation's; empty when grants were needed."""
        if self.configuration.is_scalar or self.configuration.grants:
            return ""
        if self.configuration.is_integer:
            types = (self.configuration.accumulator, self.problem.d.dtype)
            return f"bit-identical modulo 2^{max(int(name.strip('uint')) for name in types)}"
        return "bit-identical to scalar"

    def decision(self, kernel_name: str = "gemm") -> Decision:
        """The decision that the policy reports for this plan."""
        backend = self.capabilities.backend
        if self.configuration.is_scalar:
            reason = "; ".join(map(str, self.refused)) or self._why_scalar()
            return Decision.refused(kernel_name, backend, reason)
        names = {
            "lowering": self.lowering,
            "variant": self.variant,
            "configuration": self.configuration.name,
        }
        if self.proof:
            return Decision.proved(kernel_name, backend, claim=self.proof, **names)
        return Decision.granted(kernel_name, backend, grants=self.granted, **names)

    def _why_scalar(self) -> str:
        if self.request != FASTEST:
            return f"{self.request} asks for no matrix unit"
        return f"no kernel for matrix units of {self.capabilities.arch} is faster for {self.problem.a.dtype}"

    def __str__(self) -> str:
        lines = [
            str(self.problem),
            f"  runs     {self.configuration.name} ({self.request})",
            f"  on       {self.capabilities.backend}, {self.lowering}, {self.variant}",
            f"  bound    {self.bound}",
        ]
        if self.proof:
            lines.append(f"  proof    {self.proof}")
        lines += [f"  granted  {grant}" for grant in self.granted]
        lines += [f"  refused  {refusal}" for refusal in self.refused]
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)


def plan(
    problem: GemmProblem,
    policy: Policy,
    capabilities: Capabilities,
    *,
    precision: str | None = None,
    max_error: float | None = None,
) -> Plan:
    """Decide what runs.

    Parameters
    ----------
    problem, policy, capabilities
        What is asked, what is consented to, and where.
    precision : str, optional
        A precision by name; it needs a unit row on the CPU model and a kernel on a GPU.
    max_error : float, optional
        Budget for P in units of |A||B|, a consent for this one call.

    Raises
    ------
    PolicyError
        The precision was not accepted (the message names the missing call), or does not
        meet ``max_error``.
    UnsupportedError
        No such precision, no row or kernel here, or nothing meets ``max_error``.
    DTypeError
        D or C has a type that the configuration does not give.
    """
    if max_error is not None:
        max_error = _budget(max_error)
    asked = _Request(problem, policy, capabilities, precision, max_error)
    if precision is not None:
        chosen = _requested(asked, precision)
    elif max_error is not None:
        chosen = _within_budget(asked, max_error)
    else:
        chosen = _fastest(asked)
    check_dtypes(problem, chosen.configuration)
    return chosen


class _Request(NamedTuple):
    """The arguments of :func:`plan`, for the functions below."""

    problem: GemmProblem
    policy: Policy
    capabilities: Capabilities
    precision: str | None
    max_error: float | None

    @property
    def wording(self) -> str:
        words = [f"precision={self.precision!r}"] if self.precision is not None else []
        words += [f"max_error={self.max_error:.3g}"] if self.max_error is not None else []
        return ", ".join(words) or FASTEST


def named(problem: GemmProblem, capabilities: Capabilities, precision: str) -> Configuration:
    """The configuration that ``precision`` names here, whatever the policy says of running it.

    Raises
    ------
    UnsupportedError
        No such precision for these types, or no unit row or kernel here; names what is supported.
    """
    if not isinstance(precision, str):
        raise UnsupportedError(
            f"precision={precision!r} is no name; supported are "
            f"{one_of(precisions_for(problem.a.dtype, problem.b.dtype))}"
        )
    config = configuration(problem.a.dtype, problem.b.dtype, precision)
    missing = _unavailable(config, capabilities, explicit=True)
    if missing:
        rows = configurations_for(problem.a.dtype, problem.b.dtype)
        able = [c.precision for c in rows if not _unavailable(c, capabilities, explicit=True)]
        raise UnsupportedError(
            f"precision {precision!r} on {capabilities.backend}: {missing}; supported are {one_of(able)}"
        )
    return config


def _finish(
    asked: _Request, config: Configuration, refused: list[Refusal] | None = None, *, consented: bool = False
) -> Plan:
    granted = asked.policy.reasons(config)
    if consented and config.grants:
        granted = (Grant("max_error", f"{asked.wording} consents for this call"),)
    bound = bounds.describe(config, asked.capabilities.arch, asked.problem.k)
    told = tuple(refused or ())
    problem = without_vanishing_terms(asked.problem, config.accumulator)
    return Plan(problem, config, asked.capabilities, asked.wording, granted, told, bound)


def _unavailable(config: Configuration, capabilities: Capabilities, *, explicit: bool) -> str | None:
    """Why the hardware cannot run the row here, or None."""
    arch = capabilities.arch
    if not has_unit(config.unit, arch):
        return f"{arch} has no confirmed {config.unit} unit"
    if not config.is_scalar and arch not in config.kernels and not (explicit and capabilities.is_cpu):
        return f"there is no kernel for it on {arch} yet; the CPU model runs it (device='cpu')"
    return None


def _requested(asked: _Request, precision: str) -> Plan:
    config = named(asked.problem, asked.capabilities, precision)
    consented = asked.max_error is not None
    refusal = asked.policy.refusal(config, consented=consented)
    if refusal:
        raise PolicyError(f"precision {precision!r} of {asked.problem.a.dtype}: {refusal}")
    if asked.max_error is not None:
        _check_meets(config, asked.capabilities.arch, asked.problem.k, asked.max_error)
    return _finish(asked, config, consented=consented)


def _budget(max_error: Any) -> float:
    try:
        budget = float(max_error) if isinstance(max_error, numbers.Real) else math.nan
    except OverflowError:
        budget = math.inf
    if not 0 <= budget < math.inf:
        raise UnsupportedError(f"max_error={max_error!r}: it must be a number >= 0, in units of |A||B|")
    return budget


def _check_meets(config: Configuration, arch: str, k: int, max_error: float) -> None:
    leading = bounds.leading(config, arch, k)
    if leading is None:
        raise PolicyError(
            f"precision {config.precision!r} has a bound in row and column maxima or a limited range, "
            f"so that no max_error in units of |A||B| holds for it: {bounds.describe(config, arch, k)}"
        )
    if leading > max_error:
        raise PolicyError(
            f"precision {config.precision!r} does not meet max_error={max_error:.3g}: its bound at K = {k} "
            f"is {leading:.3g} times |A||B|"
        )


def _candidates(asked: _Request) -> list[Configuration]:
    """The rows that have a kernel here, cheapest first; ties stay in table order."""
    here = asked.capabilities
    rows = configurations_for(asked.problem.a.dtype, asked.problem.b.dtype)
    able = [config for config in rows if not _unavailable(config, here, explicit=False)]
    return sorted(able, key=lambda config: config.cost(here.arch))


def _fastest(asked: _Request) -> Plan:
    refused: list[Refusal] = []
    for config in _candidates(asked):
        reason = asked.policy.refusal(config)
        if reason is None:
            return _finish(asked, config, refused)
        refused.append(Refusal(config, reason))
    raise UnsupportedError(f"{asked.problem.a.dtype} has no kernel on {asked.capabilities.arch}")


def _within_budget(asked: _Request, max_error: float) -> Plan:
    refused: list[Refusal] = []
    offers: list[tuple[float, str]] = []
    for config in _candidates(asked):
        leading = bounds.leading(config, asked.capabilities.arch, asked.problem.k)
        if leading is None:
            refused.append(Refusal(config, "its bound is no multiple of |A||B| alone"))
            continue
        reason = asked.policy.refusal(config, consented=True)
        if reason is None:
            offers.append((leading, config.precision))
            if leading <= max_error:
                return _finish(asked, config, refused, consented=True)
            reason = f"its bound {leading:.3g} is above max_error={max_error:.3g}"
        refused.append(Refusal(config, reason))
    best, precision = min(offers)
    raise UnsupportedError(
        f"no configuration of {asked.problem.a.dtype} meets max_error={max_error:.3g} at "
        f"K = {asked.problem.k}; the smallest bound on offer is {best:.3g} times |A||B| ({precision})"
    )
