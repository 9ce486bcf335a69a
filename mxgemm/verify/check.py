"""Every entry of a result against its bound; what float64 cannot decide is settled exactly."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mxgemm.bounds import describe
from mxgemm.bounds.assess import Assessment, assess
from mxgemm.bounds.doubled import Float64
from mxgemm.bounds.tiles import Array, OperandsLike, Subject, Tile, tiles, widened
from mxgemm.configs import Configuration
from mxgemm.errors import DTypeError, ShapeError
from mxgemm.problem import GemmProblem
from mxgemm.verify.exact import deviation, entry
from mxgemm.verify.integers import expected
from mxgemm.verify.outcome import Certificate, CheckResult

__all__ = ["check_result", "full"]

Mask = NDArray[np.bool_]

WITHIN, OUTSIDE = "within bound", "outside bound"
VOID, DECIDED, OPERAND = "overflow possible", "decided by NaN or Inf", "operand overflow"
VERDICTS = (WITHIN, OUTSIDE, VOID, DECIDED, OPERAND)


@dataclass(slots=True)
class _Tally:
    """What has been seen so far, tile after tile."""

    ratio: float = 0.0
    where: tuple[int, ...] | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))

    def add(self, tile: Tile, ratio: Float64, verdicts: dict[str, Mask]) -> None:
        """Take in one tile: the ratio of each entry, and which entries have which verdict."""
        for name, mask in verdicts.items():
            self.counts[name] += int(np.count_nonzero(mask))
        worst = int(np.argmax(ratio))
        if self.where is None or ratio.flat[worst] > self.ratio:
            self.ratio, self.where = float(ratio.flat[worst]), tile.position(worst)


def check_result(
    result: Array, problem: GemmProblem, configuration: Configuration, arch: str, operands: OperandsLike
) -> CheckResult:
    """Check every entry of a result.

    Parameters
    ----------
    result : (*batch, M, N) array
        Of the problem's result type.
    problem : GemmProblem
    configuration : Configuration
        Whose bound must hold.
    arch : str
        Whose unit computed it.
    operands : OperandsLike
        Arrays with op() and broadcasting applied.

    Returns
    -------
    CheckResult
        An entry passes within its bound; a NaN or Inf only where the operands demand it, where
        D's element type overflows, or where the bound is void. Integers must be equal.

    Raises
    ------
    ShapeError, DTypeError
        For a result of another shape or type.
    UnsupportedError
        When ``arch`` has no row for the configuration's unit.
    """
    shape = (*problem.batch, problem.m, problem.n)
    if result.shape != shape:
        raise ShapeError(f"the result has shape {result.shape}; this product gives {shape}")
    if result.dtype.name != problem.d.dtype:
        raise DTypeError(f"the result has type {result.dtype.name}; this product gives {problem.d.dtype}")
    tally = _Tally()
    subject = Subject(problem, configuration, arch, operands)
    check = _check_integers if configuration.is_integer else _check_floats
    for tile in tiles(problem):
        check(tally, result[tile.index], subject, tile)
    return CheckResult(
        tally.counts[OUTSIDE] == 0, tally.ratio, tally.where, "full", result.size,
        describe(configuration, arch, problem.k), tuple(tally.counts.items()),
    )  # fmt: skip


def full(
    result: Array, problem: GemmProblem, configuration: Configuration, arch: str, operands: OperandsLike
) -> Certificate:
    """As :func:`check_result`, with the time it took, as a certificate of level "full"."""
    start = time.perf_counter()
    found = check_result(result, problem, configuration, arch, operands)
    seconds = time.perf_counter() - start
    return Certificate(
        found.level, found.passed, found.bound, found.ratio, found.where, found.entries, found.verdicts,
        seed=None, seconds=seconds,
    )  # fmt: skip


def _check_integers(tally: _Tally, result: Array, subject: Subject, tile: Tile) -> None:
    wrong = result != expected(subject, tile)
    tally.add(tile, np.where(wrong, np.inf, 0.0), {WITHIN: ~wrong, OUTSIDE: wrong})


def _check_floats(tally: _Tally, result: Array, subject: Subject, tile: Tile) -> None:
    values, found = widened(result), assess(subject, tile)
    with np.errstate(all="ignore"):
        passed, ratio, undecided = _judge(values, found)
    for number in np.flatnonzero(undecided):
        exact = entry(subject, tile.position(int(number)))
        apart, bound = deviation(float(values.flat[number]), exact), float(found.bound.flat[number])
        passed.flat[number] = bool(apart <= bound)
        ratio.flat[number] = _ratio(float(apart), bound)
    decided = found.expected != 0
    verdicts = {
        WITHIN: passed & ~found.void & ~decided,
        OUTSIDE: ~passed,
        VOID: found.void,
        DECIDED: passed & decided,
        OPERAND: found.overflowed,
    }
    tally.add(tile, ratio, verdicts)


def _ratio(apart: float, bound: float) -> float:
    if bound > 0:
        return apart / bound
    return 0.0 if apart == 0 else float("inf")


def _judge(values: Float64, found: Assessment) -> tuple[Mask, Float64, Mask]:
    """Return (passed, ratio, undecided) by float64 alone; undecided entries need their exact value.

    An estimate h + l of radius r decides |D − exact| <= bound when the computed distance
    is at least r and its own two roundings away from the bound.
    """
    apart = np.abs((values - found.high) - found.low)
    slack = found.radius + 2.0**-51 * (np.abs(values - found.high) + np.abs(found.low))
    regular = np.isfinite(values) & (found.expected == 0) & ~found.void
    within = apart + slack <= found.bound
    outside = apart - slack > found.bound
    must_overflow = np.abs(found.high) - np.abs(found.low) - found.radius - found.error >= found.overflow
    passed = np.where(regular, within & ~must_overflow, _irregular(values, found))
    undecided = regular & ~within & ~outside & ~must_overflow
    ratio = np.where(apart == 0, 0.0, apart / found.bound)
    ratio = np.where(regular & ~must_overflow, ratio, np.where(passed, 0.0, np.inf))
    return passed, ratio, undecided


def _irregular(values: Float64, found: Assessment) -> Mask:
    """Entries that are not finite or must not be: what the operands or D's element type demand."""
    same = (values == found.expected) | (np.isnan(values) & np.isnan(found.expected))
    demanded: Mask = same & (found.expected != 0)
    size = np.abs(found.high) + np.abs(found.low) + found.radius + found.error
    overflows = np.isinf(values) & (size >= found.overflow) & (np.sign(values) == np.sign(found.high))
    allowed: Mask = found.void | demanded | ((found.expected == 0) & overflows)
    return allowed
