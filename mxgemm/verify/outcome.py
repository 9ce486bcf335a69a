"""What a check found: CheckResult for a caller, Certificate for the result of one gemm."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Certificate", "CheckResult"]


def _verdict_line(verdicts: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{count} {name}" for name, count in verdicts if count)


def _place(where: tuple[int, ...] | None) -> str:
    return "" if where is None else f" at [{', '.join(map(str, where))}]"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict on a result, entry by entry; true when every entry passed.

    Attributes
    ----------
    passed : bool
    ratio : float
        The largest |D − exact D| / bound; infinity where an entry had to be something else exactly.
    where : tuple of int or None
        Index in (*batch, M, N) of that entry; None for an empty result.
    level : str
        "full": every entry was checked.
    entries : int
        Entries checked.
    bound : str
        The bound of A·B in words.
    verdicts : tuple of (str, int)
        Entries by verdict: "within bound", "outside bound", "overflow possible" (the bound
        is void: any value passes), "decided by NaN or Inf", "operand overflow" (rounding an
        operand to the unit's format gave Inf).
    """

    passed: bool
    ratio: float
    where: tuple[int, ...] | None
    level: str
    entries: int
    bound: str
    verdicts: tuple[tuple[str, int], ...]

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        return (
            f"{verdict}: {self.entries} entries ({_verdict_line(self.verdicts)})\n"
            f"  largest ratio to the bound {self.ratio:.3g}{_place(self.where)}\n"
            f"  bound {self.bound}"
        )


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was verified of one result before it was handed out.

    Attributes
    ----------
    level : str
        "full": every entry against its bound.
    passed : bool
    bound : str
        The bound of A·B in words.
    ratio : float
        The largest measured ratio to the bound.
    where : tuple of int or None
        Index in (*batch, M, N) of that entry.
    entries : int
        Entries checked.
    verdicts : tuple of (str, int)
        As in :class:`CheckResult`.
    seed : int or None
        Of the random choices; None where there were none.
    seconds : float
        Time that the verification took, on the host.
    computed_on : str
        Where the result was computed, for example "cuda:0"; it was copied from there to be checked.
    """

    level: str
    passed: bool
    bound: str
    ratio: float
    where: tuple[int, ...] | None
    entries: int
    verdicts: tuple[tuple[str, int], ...]
    seed: int | None
    seconds: float
    computed_on: str = ""

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        seed = "" if self.seed is None else f", seed {self.seed}"
        copied = f", copied from {self.computed_on}" if self.computed_on.startswith("cuda") else ""
        return (
            f"certificate: {verdict}, level {self.level}{seed}, {self.seconds:.3g} s on the host{copied}\n"
            f"  entries  {self.entries} ({_verdict_line(self.verdicts)})\n"
            f"  ratio    {self.ratio:.3g} of the bound{_place(self.where)}\n"
            f"  bound    {self.bound}"
        )
