"""What a program consents to: grants, restrictions, and the decisions taken under them.

A grant is one-way: it is given in the program's source with a reason, keeps its first
reason, and cannot be withdrawn.  The environment can only take away
(:mod:`mxgemm.restrictions`); a grant that it revoked is recorded and has no effect.
One :class:`Policy` is the process's own (:func:`default_policy`); the functions of this
module act on it, and every other part of the library takes a Policy as an argument.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from typing import TYPE_CHECKING

from mxgemm.configs import CONFIGURATIONS, Configuration, rounding_precisions
from mxgemm.decisions import Decision, Grant, missing_call
from mxgemm.errors import UnsupportedError, one_of
from mxgemm.restrictions import VARIABLE, Restrictions

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

__all__ = [
    "Decision",
    "Grant",
    "Policy",
    "accept_automatic_float_rewrite",
    "accept_contraction",
    "accept_narrower_accumulator",
    "accept_operand_rounding",
    "accept_relaxed_accumulation",
    "default_policy",
    "grants",
    "set_reporter",
]


class Policy:
    """The grants of one program, what restricts them, and who hears of the decisions.

    Every method may be called from any thread.

    Parameters
    ----------
    restrictions : Restrictions
        What was taken away; nothing by default.
    explain : bool
        Whether each distinct decision is printed once on stderr.

    Attributes
    ----------
    unheard : int or None
        The number of grants while nobody hears of decisions, None while somebody does: one value tells a
        warmed call that nothing has changed and nothing is to be reported.
    """

    def __init__(self, restrictions: Restrictions | None = None, *, explain: bool = False) -> None:
        self.restrictions = restrictions or Restrictions()
        self._explain = explain
        self._lock = threading.Lock()
        self._grants: dict[str, Grant] = {}
        self._causes: set[Hashable] = set()
        self._reporter: Callable[[Decision], object] | None = None
        self._reporting = threading.local()
        self.unheard: int | None = None if explain else 0

    def accept_relaxed_accumulation(self, *, reason: str) -> None:
        """See :func:`accept_relaxed_accumulation`."""
        self._accept("relaxed-accumulation", reason)

    def accept_operand_rounding(self, precision: str, *, reason: str) -> None:
        """See :func:`accept_operand_rounding`."""
        known = rounding_precisions()
        if precision not in known:
            raise UnsupportedError(_no_rounding(precision, known))
        self._accept(f"operand-rounding-{precision}", reason)

    def accept_narrower_accumulator(self, *, reason: str) -> None:
        """See :func:`accept_narrower_accumulator`."""
        self._accept("narrower-accumulator", reason)

    def accept_automatic_float_rewrite(self, *, reason: str) -> None:
        """See :func:`accept_automatic_float_rewrite`."""
        self._accept("automatic-float-rewrite", reason)

    def accept_contraction(self, kernel: str | Callable[..., object], *, reason: str) -> None:
        """See :func:`accept_contraction`."""
        name = kernel if isinstance(kernel, str) else getattr(kernel, "__name__", "")
        if not isinstance(name, str) or not name.strip():
            raise UnsupportedError(
                f"accept_contraction takes a kernel or the name of one; got {kernel!r}, which has no name"
            )
        self._accept(f"contraction:{name}", reason)

    def grants(self) -> tuple[Grant, ...]:
        """Every grant in the order given, revoked ones included."""
        with self._lock:
            return tuple(self._grants.values())

    @property
    def number_of_grants(self) -> int:
        """How many grants were given: since none is withdrawn, the number tells the state."""
        return len(self._grants)

    def in_force(self, name: str) -> bool:
        """Whether the grant of this name was given and not revoked."""
        grant = self._grants.get(name)
        return grant is not None and grant.in_force

    def refusal(
        self, configuration: Configuration, *, also: Iterable[str] = (), consented: bool = False
    ) -> str | None:
        """Return why ``configuration`` may not run, or None where it may.

        Parameters
        ----------
        configuration : Configuration
            A row of the table.
        also : iterable of str
            Names of grants that the launch needs beyond the row's own, for example
            "automatic-float-rewrite".
        consented : bool
            Whether the call itself consents to what the row needs (``max_error=`` does);
            restrictions still count.

        Returns
        -------
        str or None
            The reason in words, which names every missing call or the restriction.
        """
        if self.restrictions.disables("matrix") and not configuration.is_scalar:
            return f"{VARIABLE}=matrix leaves only scalar"
        needed = (*configuration.grants, *also)
        revoked = [word for name in needed if (word := self.restrictions.revoked_by(name))]
        if revoked:
            return f"taken away by {VARIABLE}={','.join(revoked)}"
        missing = [missing_call(name) for name in needed if not consented and not self.in_force(name)]
        if missing:
            return f"needs {' and '.join(missing)}"
        return None

    def reasons(self, configuration: Configuration, *, also: Iterable[str] = ()) -> tuple[Grant, ...]:
        """The grants in force that ``configuration`` (and ``also``) rests on, in the order needed."""
        needed = (*configuration.grants, *also)
        return tuple(self._grants[name] for name in needed if self.in_force(name))

    def once(self, cause: Hashable) -> bool:
        """Whether ``cause`` comes up for the first time: true exactly once, whatever the threads."""
        with self._lock:
            new = cause not in self._causes
            self._causes.add(cause)
        return new

    def set_reporter(self, reporter: Callable[[Decision], object] | None) -> None:
        """See :func:`set_reporter`."""
        if reporter is not None and not callable(reporter):
            raise UnsupportedError(f"set_reporter takes a callable or None; got {reporter!r}")
        with self._lock:
            self._reporter = reporter
            self._note()

    def _note(self) -> None:
        """Bring ``unheard`` up to date; under the lock."""
        self.unheard = len(self._grants) if self._reporter is None and not self._explain else None

    def report(self, decision: Decision) -> None:
        """Print ``decision`` where explaining is on, and hand it to the reporter.

        Never raises because of either: see :func:`set_reporter`.
        """
        nobody_listens = self._reporter is None and not self._explain
        if nobody_listens or getattr(self._reporting, "active", False):
            return
        self._reporting.active = True
        try:
            if self._explain and self.once(("explain", decision)):
                _observe(_print, decision)
            if self._reporter is not None:
                _observe(self._reporter, decision)
        finally:
            self._reporting.active = False

    def _accept(self, name: str, reason: object) -> None:
        if not isinstance(reason, str) or not reason.strip():
            raise UnsupportedError(
                f"{missing_call(name)} takes a non-empty reason, in words that a reader of the program "
                f"can judge; got {reason!r}"
            )
        grant = Grant(name, reason, self.restrictions.revoked_by(name))
        with self._lock:
            self._grants.setdefault(name, grant)
            self._note()


def _no_rounding(precision: object, known: tuple[str, ...]) -> str:
    """The message for a precision that operand rounding is not a matter of."""
    rows = [row for row in CONFIGURATIONS if row.precision == precision]
    if not rows:
        return f"precision {precision!r} is not known; operands can be rounded for {one_of(known)}"
    if any(row.relaxed_accumulation for row in rows):
        need = f"floats need only {missing_call('relaxed-accumulation')}"
    else:
        need = "it needs no grant"
    return f"{precision} rounds no operand, so there is nothing to accept; {need}"


def _observe(observer: Callable[[Decision], object], decision: Decision) -> None:
    """Call ``observer``; what it raises is printed, as logging does, and the launch goes on."""
    try:
        observer(decision)
    except Exception:  # noqa: BLE001 — an observer is the program's own code and may raise anything
        with contextlib.suppress(OSError, ValueError):
            print("mxgemm: a reporter of decisions raised; the launch goes on", file=sys.stderr)  # noqa: T201
            traceback.print_exc()


def _print(decision: Decision) -> None:
    print(decision.text, file=sys.stderr, flush=True)  # noqa: T201 — the explain line is asked for


def _process_policy() -> Policy:
    """The process's Policy, from the environment at import; its lock is whole after a fork."""
    policy = Policy(
        Restrictions.from_environment(os.environ), explain=os.environ.get("MXGEMM_EXPLAIN") == "1"
    )
    if hasattr(os, "register_at_fork"):
        lock = policy._lock
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return policy


_DEFAULT = _process_policy()


def default_policy() -> Policy:
    """The Policy of this process, which ``gemm`` uses."""
    return _DEFAULT


def accept_relaxed_accumulation(*, reason: str) -> None:
    """Consent to any order of summation in the accumulator's type.

    Parameters
    ----------
    reason : str
        Why the program's results stand it; the first reason given is kept.

    Raises
    ------
    UnsupportedError
        For a blank reason (a ``ValueError``).
    """
    _DEFAULT.accept_relaxed_accumulation(reason=reason)


def accept_operand_rounding(precision: str, *, reason: str) -> None:
    """Consent to operands being rounded as ``precision`` rounds them; one grant a precision.

    Parameters
    ----------
    precision : str
        For example "f16", "bf16x3" or "i8crt8".
    reason : str
        Why the program's results stand it; the first reason given is kept.

    Raises
    ------
    UnsupportedError
        For an unknown precision (lists the known), for one that rounds nothing
        ("bf16x9", "native", …), and for a blank reason.
    """
    _DEFAULT.accept_operand_rounding(precision, reason=reason)


def accept_narrower_accumulator(*, reason: str) -> None:
    """Consent to a unit's float32 accumulator where the program's own is float64.

    Parameters
    ----------
    reason : str
        Why the program's results stand it; the first reason given is kept.

    Raises
    ------
    UnsupportedError
        For a blank reason.
    """
    _DEFAULT.accept_narrower_accumulator(reason=reason)


def accept_automatic_float_rewrite(*, reason: str) -> None:
    """Consent to float kernels being rewritten behind a launch; ``gemm`` never needs it.

    Parameters
    ----------
    reason : str
        Why the program's results stand it; the first reason given is kept.

    Raises
    ------
    UnsupportedError
        For a blank reason.
    """
    _DEFAULT.accept_automatic_float_rewrite(reason=reason)


def accept_contraction(kernel: str | Callable[..., object], *, reason: str) -> None:
    """Consent to a multiply and an add of ``kernel`` and of one fused with it becoming one FMA.

    Parameters
    ----------
    kernel : str or kernel
        A kernel, or its name; the grant goes by the name.
    reason : str
        Why the program's results stand it; the first reason given is kept.

    Raises
    ------
    UnsupportedError
        For something without a name, and for a blank reason.
    """
    _DEFAULT.accept_contraction(kernel, reason=reason)


def grants() -> tuple[Grant, ...]:
    """Every grant that this process gave, in order; a revoked one says what revoked it."""
    return _DEFAULT.grants()


def set_reporter(reporter: Callable[[Decision], object] | None) -> None:
    """Hand every decision of this process to ``reporter`` from now on; None ends that.

    Parameters
    ----------
    reporter : callable or None
        Called with one :class:`Decision`, in the thread that took it. What it raises is
        printed on stderr with its traceback, as :mod:`logging` does with a failing handler,
        and the launch goes on. Decisions taken by the reporter itself are not reported.

    Raises
    ------
    UnsupportedError
        For something that cannot be called.
    """
    _DEFAULT.set_reporter(reporter)
