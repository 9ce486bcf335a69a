"""What was measured of one product: the choice, and the words that tell one product from another."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mxgemm.configs import Configuration
from mxgemm.kernels.canonical import ARRAYS
from mxgemm.kernels.operands import LARGEST_ALIGNMENT
from mxgemm.problem import GemmProblem

__all__ = ["Choice", "kernels_sha256", "signature"]


class Choice(NamedTuple):
    """The kernel that measurement prefers for one product on one device; it moves no bit of the result.

    Attributes
    ----------
    entry, variant : str
        The fastest instance's name, and what tells it from its siblings.
    microseconds : float
        Its median.
    model_entry, model_variant : str
        The instance that the model chooses.
    model_microseconds : float
        The median of that one, measured in turn with the others.
    candidates : int
        Instances that were measured.
    date : str
        UTC, ISO 8601.
    """

    entry: str
    variant: str
    microseconds: float
    model_entry: str
    model_variant: str
    model_microseconds: float
    candidates: int
    date: str

    @property
    def why(self) -> str:
        """Why this instance runs, in words."""
        found = f"measured by autotune on {self.date[:10]}: {self.microseconds:.1f} us"
        if self.entry == self.model_entry:
            return f"{found}, least of {self.candidates} candidates and the model's choice too"
        return (
            f"{found}, least of {self.candidates} candidates; "
            f"model's choice {self.model_microseconds:.1f} us ({self.model_variant})"
        )


def signature(
    problem: GemmProblem,
    configuration: Configuration,
    arch: str,
    alignment: Mapping[str, int],
    copied: Collection[str],
) -> str:
    """All of a product that decides its candidates and their times, as text.

    Values do not: of alpha and beta only whether they are 0, and no bounds of a clamp.

    Parameters
    ----------
    alignment : mapping of str to int
        Bytes, as :func:`mxgemm.kernels.lower` takes them; 16 where not named.
    copied : collection of str
        As there.
    """
    plain = replace(
        problem,
        alpha=int(problem.alpha != 0),
        beta=int(problem.beta != 0),
        epilogue=replace(problem.epilogue, lo=0, hi=0),
        overlaps=(),
    )
    present = [name for name in ARRAYS if getattr(problem, name) is not None]
    aligned = ", ".join(f"{name} {alignment.get(name, LARGEST_ALIGNMENT)}" for name in present)
    words = (configuration.name, arch, repr(plain), f"aligned {aligned}", f"copied {sorted(copied)}")
    return "; ".join(words)


@lru_cache(maxsize=1)
def kernels_sha256() -> str:
    """SHA-256 of every file that decides what kernels there are: building blocks and generators."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".cuh", ".py"):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
