"""autotune(): measure every kernel that could compute a product, and remember the fastest.

A kernel never moves a bit of the result, so there is nothing to consent to: measuring only replaces the
model's prediction of times by times.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from mxgemm import array, device, gpu
from mxgemm.array_spec import as_view
from mxgemm.capabilities import Capabilities
from mxgemm.errors import UnsupportedError
from mxgemm.gemm import forget_warmed
from mxgemm.kernels import Candidate, Choice, remembered, signature
from mxgemm.kernels.remembered import Key
from mxgemm.options import Options, refuse_unknown
from mxgemm.plan import Plan
from mxgemm.plan import plan as make_plan
from mxgemm.policy import default_policy
from mxgemm.problem import GemmProblem
from mxgemm.restrictions import VARIABLE
from mxgemm.road import begin

if TYPE_CHECKING:
    from mxgemm.device.timing import Timing

__all__ = ["Autotuned", "Measured", "autotune"]

_LONGEST = 86400.0  # seconds: a race ends after nine rounds anyway
_OF_A_PROBLEM = ("precision", "max_error", "device")
_SUPPORTED = (
    "supported are arrays on a GPU, mxgemm.ArraySpec, NumPy arrays with device='cuda', a Plan from "
    "mxgemm.explain of any of these, and its problem"
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate and its time.

    Attributes
    ----------
    entry : str
        The kernel's name; it tells candidates apart.
    lowering, variant : str
        The kernel family, the tile and what else tells it from its siblings.
    predicted : float or None
        Microseconds by the model; None where the family has no model of times.
    microseconds : float
        Median of one call.
    bursts : int
        How many bursts the median is of: one for what was clearly slower.
    workspace_bytes : int
    """

    entry: str
    lowering: str
    variant: str
    predicted: float | None
    microseconds: float
    bursts: int
    workspace_bytes: int

    def __str__(self) -> str:
        return f"{self.lowering} {self.variant}"


@dataclass(frozen=True)
class Autotuned:
    """What :func:`autotune` found.

    Attributes
    ----------
    plan : Plan
        What :func:`mxgemm.gemm` runs from now on.
    measured : tuple of Measured
        Every candidate, fastest first.
    chosen, model : Measured
        The fastest, and the model's choice.
    remembered : str
        Where the choice is kept, or why it is not.
    """

    plan: Plan
    measured: tuple[Measured, ...]
    chosen: Measured
    model: Measured
    remembered: str

    @property
    def why(self) -> str:
        """Why the chosen one, in words."""
        found = f"least median of {len(self.measured)} candidates in turn, all of which gave the same bits"
        if self.chosen == self.model:
            return f"{found}; the model's choice too"
        slower = 100 * (self.model.microseconds / self.chosen.microseconds - 1)
        return f"{found}; the model's choice takes {slower:.1f} % longer"

    def __str__(self) -> str:
        here = self.plan.capabilities
        lines = [
            str(self.plan.problem),
            f"  runs        {self.plan.configuration.name} on {here.name} ({here.backend})",
            f"  chosen      {self.chosen}",
            f"  model       {self.model}",
            f"  why         {self.why}",
            f"  remembered  {self.remembered}",
            f"  {'measured':>10}  {'predicted':>10}  us",
        ]
        for one in self.measured:
            predicted = "" if one.predicted is None else f"{one.predicted:.1f}"
            marks = (" (chosen)" * (one == self.chosen), " (model)" * (one == self.model))
            lines.append(f"  {one.microseconds:>10.1f}  {predicted:>10}  {one}{''.join(marks)}")
        return "\n".join(lines)


def autotune(
    a: Any, b: Any = None, c: Any = None, *, seconds: float = 1.0, remember: bool = True,
    **options: Unpack[Options],
) -> Autotuned:  # fmt: skip
    """Measure every kernel that could compute a product on its GPU, and remember the fastest.

    From now on, in this process and later ones, :func:`mxgemm.gemm` runs the fastest for products like
    this one: of its shapes, strides, element types, pointer alignments, configuration and kind of epilogue,
    on a device of the same name.  All candidates belong to the configuration and give the same bits, which
    is compared before anything is timed.  Kernels that change make what was measured void.

    Parameters
    ----------
    a, b, c : array or ArraySpec
        As in :func:`mxgemm.gemm`; they are neither read nor written, since measuring takes random operands
        of its own.  Or ``a`` alone is a Plan of :func:`mxgemm.explain`, or its ``problem`` (then with
        ``precision=`` or ``max_error=`` as in ``gemm``, and ``device=``, by default "cuda"); pointers then
        count as aligned to 16 bytes, as those of whole arrays are.
    seconds : float
        About as long as the bursts may take; compilation comes on top.
    remember : bool
        Whether the choice is kept.
    **options
        As :func:`mxgemm.gemm`; of ``out`` only the layout counts, ``verify``, ``stream`` and ``workspace``
        change nothing.

    Returns
    -------
    Autotuned
        Prints as a table.

    Raises
    ------
    UnsupportedError
        For a product on the CPU model, which has no kernels, and one without anything to compute; while the
        stream captures a CUDA graph; for ``seconds`` that are no positive number.
    VerificationError
        When two candidates differ in a bit: a fault that should be reported.
    MxgemmError
        As :func:`mxgemm.gemm`.
    """
    limit = _limit(seconds)
    asked = _asked(a, b, c, options)
    if asked.plan.problem.is_empty or not asked.plan.problem.reads_operands:
        raise UnsupportedError(f"there is nothing to measure in {asked.plan.problem}: no product is computed")
    return _autotuned(asked, limit, remember=remember)


def _limit(seconds: Any) -> float:
    a_number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
    if not a_number or not 0 < seconds < math.inf:
        raise UnsupportedError(f"seconds={seconds!r} is no positive number")
    return float(min(seconds, _LONGEST))


@dataclass(frozen=True)
class _Asked:
    """A planned product, and what else chooses its kernel."""

    plan: Plan
    alignment: Mapping[str, int]
    copied: frozenset[str]

    @property
    def here(self) -> Capabilities:
        return self.plan.capabilities

    @property
    def keywords(self) -> dict[str, Any]:
        """For :func:`mxgemm.kernels.lower` and its siblings."""
        more = {"multiprocessors": self.here.multiprocessors, "copied": self.copied}
        return {"alignment": self.alignment, **more}

    @property
    def key(self) -> Key:
        """What the choice is kept for."""
        made, here = self.plan, self.here
        words = signature(made.problem, made.configuration, here.arch, self.alignment, self.copied)
        return remembered.Key(here.name, here.multiprocessors, words)


def _asked(a: Any, b: Any, c: Any, options: Options) -> _Asked:
    refuse_unknown(options)
    if isinstance(a, Plan | GemmProblem):
        return _of_problem(a, (b, c), options)
    own: Options = {**options, "out": as_view(options.get("out"))}
    begun = begin((as_view(a), as_view(b), as_view(c)), own, default_policy())
    _refuse_model(begun.plan.capabilities)
    call = begun.call
    if call.a.host is None:
        stream = array.launch_stream(options.get("stream"), call.out, call.a)
        device.refuse_capture(stream, call.a.ordinal, "autotune measures, which cannot be part of it")
    return _Asked(begun.plan, dict(gpu.alignments(call)), gpu.to_copy(call))


def _of_problem(given: Plan | GemmProblem, rest: tuple[Any, Any], options: Options) -> _Asked:
    allowed = _OF_A_PROBLEM if isinstance(given, GemmProblem) else ()
    extra = [name for name in options if name not in allowed]
    if extra or any(x is not None for x in rest):
        raise UnsupportedError(
            f"a {type(given).__name__} says all of a product but for {', '.join(allowed) or 'nothing'}; "
            f"got also {', '.join(extra) or 'b or c'}: leave it away, or pass the arrays"
        )
    made = given if isinstance(given, Plan) else _planned(given, options)
    _refuse_model(made.capabilities)
    problem = made.problem
    # Whether C is D itself cannot be told from a problem; C that lies as D does is taken to be.
    in_place = {"c"} if problem.c == problem.d else set()
    return _Asked(made, {}, frozenset(problem.overlaps) - in_place)


def _planned(problem: GemmProblem, options: Options) -> Plan:
    place = options.get("device") or "cuda"
    name, colon, number = str(place).partition(":")
    if name == "cpu":
        raise UnsupportedError(f"device={place!r} has no kernels to measure; {_SUPPORTED}")
    if name != "cuda" or not (number.isdecimal() if colon else True):
        raise UnsupportedError(f"device={place!r} is not known; supported are 'cuda' and 'cuda:<number>'")
    here = device.capabilities(int(number or "0"))
    precision, max_error = options.get("precision"), options.get("max_error")
    return make_plan(problem, default_policy(), here, precision=precision, max_error=max_error)


def _refuse_model(here: Capabilities) -> None:
    if here.is_cpu:
        raise UnsupportedError(
            f"autotune measures kernels on a GPU, and {here.backend} has none to choose among; {_SUPPORTED}"
        )


def _ordinal(here: Capabilities) -> int:
    return int(here.backend.removeprefix("cuda:"))


def _autotuned(asked: _Asked, seconds: float, *, remember: bool) -> Autotuned:
    from mxgemm import kernels
    from mxgemm.autotune_measure import measure

    made, arch = asked.plan, asked.here.arch
    candidates = kernels.candidates(made.problem, made.configuration, arch, **asked.keywords)
    by_model = kernels.lower(made.problem, made.configuration, arch, **asked.keywords)
    times = measure(
        made.problem, candidates, _ordinal(asked.here),
        alignment=asked.alignment, seconds=seconds, always=by_model.instance.entry,
    )  # fmt: skip
    found = sorted((_measured(one, times) for one in candidates), key=lambda one: one.microseconds)
    model = next(one for one in found if one.entry == by_model.instance.entry)
    choice = _choice(found, model)
    refused = "remember=False" if not remember else ""
    if default_policy().restrictions.disables("autotune"):
        refused = f"{VARIABLE} has the word autotune"
    where = f"no: {refused}" if refused else _keep(asked, choice, found)
    now = kernels.lower(made.problem, made.configuration, arch, **asked.keywords, preferred=_in_force(asked))
    plan = replace(made, kernel=now.instance, workspace_bytes=now.workspace_bytes, notes=now.notes)
    return Autotuned(plan, tuple(found), found[0], model, where)


def _measured(one: Candidate, times: Mapping[str, Timing]) -> Measured:
    made, kernel = one.lowering, one.lowering.instance
    time = times[kernel.entry]
    return Measured(
        kernel.entry, kernel.lowering, kernel.variant, one.predicted, round(time.microseconds, 3),
        time.bursts, made.workspace_bytes,
    )  # fmt: skip


def _choice(found: list[Measured], model: Measured) -> Choice:
    best, now = found[0], dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return Choice(
        best.entry, best.variant, best.microseconds, model.entry, model.variant, model.microseconds,
        len(found), now,
    )  # fmt: skip


def _keep(asked: _Asked, choice: Choice, found: list[Measured]) -> str:
    """Remember the choice, let warmed calls take it, and say where it is kept."""
    where = remembered.keep(asked.key, choice, {one.entry: one.microseconds for one in found})
    forget_warmed()
    return where


def _in_force(asked: _Asked) -> Choice | None:
    """What calls take from now on: with ``remember=False``, what was measured before, if anything was."""
    disabled = default_policy().restrictions.disables("autotune")
    return None if disabled else remembered.find(asked.key)
