"""Grants and decisions as values: what a program consented to, and what was done with it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from mxgemm.restrictions import VARIABLE

__all__ = ["Decision", "Grant", "missing_call"]


@dataclass(frozen=True, slots=True)
class Grant:
    """One consent of the program.

    Attributes
    ----------
    name : str
        "relaxed-accumulation", "operand-rounding-<precision>", "narrower-accumulator",
        "automatic-float-rewrite" or "contraction:<kernel>".
    reason : str
        The first reason that the program gave.
    revoked_by : str
        The word of ``MXGEMM_DISABLE`` that took the grant away; "" while it is in force.
    """

    name: str
    reason: str
    revoked_by: str = ""

    @property
    def in_force(self) -> bool:
        """Whether the grant has any effect."""
        return not self.revoked_by

    def __str__(self) -> str:
        revoked = f" (revoked by {VARIABLE}={self.revoked_by})" if self.revoked_by else ""
        return f"{self.name} reason={_quoted(self.reason)}{revoked}"


def missing_call(grant: str) -> str:
    """The call that gives the grant of this name, as a program would write it."""
    if grant.startswith("operand-rounding-"):
        precision = grant.removeprefix("operand-rounding-")
        return f'mxgemm.accept_operand_rounding("{precision}", reason=...)'
    family, _, kernel = grant.partition(":")
    first = f'"{kernel}", ' if kernel else ""
    return f"mxgemm.accept_{family.replace('-', '_')}({first}reason=...)"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision about one matrix product; its text is the explain line.

    Build one with :meth:`proved`, :meth:`granted` or :meth:`refused`.

    Attributes
    ----------
    kernel : str
        The kernel's name; "gemm" for :func:`mxgemm.gemm`.
    backend : str
        "cuda:<ordinal>" or "cpu:<architecture>".
    lowering : str
        "<lowering>, <variant>, <configuration>" of what runs; "" where refused.
    claim : str
        What makes it equal to the program's own computation, where nothing had to be
        granted: "bit-identical modulo 2^32" and the like.
    grants : tuple of Grant
        Those that it was admitted under.
    reason : str
        Why the original computation runs, where refused.
    """

    kernel: str
    backend: str
    lowering: str = ""
    claim: str = ""
    grants: tuple[Grant, ...] = ()
    reason: str = ""

    @classmethod
    def proved(
        cls, kernel: str, backend: str, *, lowering: str, variant: str, configuration: str, claim: str
    ) -> Decision:
        """The matrix units ran and need no consent, because of ``claim``."""
        return cls(kernel, backend, f"{lowering}, {variant}, {configuration}", claim=claim)

    @classmethod
    def granted(
        cls,
        kernel: str,
        backend: str,
        *,
        lowering: str,
        variant: str,
        configuration: str,
        grants: tuple[Grant, ...],
    ) -> Decision:
        """The matrix units ran under these grants."""
        return cls(kernel, backend, f"{lowering}, {variant}, {configuration}", grants=grants)

    @classmethod
    def refused(cls, kernel: str, backend: str, reason: str) -> Decision:
        """The original computation ran, for this reason."""
        return cls(kernel, backend, reason=reason)

    @property
    def applied(self) -> bool:
        """Whether the product ran on matrix units."""
        return bool(self.lowering)

    @property
    def text(self) -> str:
        """The explain line, without a line break."""
        head = f"mxgemm-explain {self.kernel} {self.backend} matrix"
        if not self.applied:
            return f"{head} refused {_one_line(self.reason)}"
        if not self.grants:
            return f"{head} applied proof={self.lowering}: {self.claim}"
        names = ",".join(grant.name for grant in self.grants)
        reasons = "; ".join(dict.fromkeys(grant.reason for grant in self.grants))
        return f'{head} applied granted={names} reason={_quoted(reasons)} lowering="{self.lowering}"'

    def __str__(self) -> str:
        return self.text


def _quoted(text: str) -> str:
    """``text`` in double quotes, with quotes and line breaks escaped, so that a line stays one line."""
    return json.dumps(text, ensure_ascii=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())
