"""What the environment takes away: ``MXGEMM_DISABLE``, a comma-separated list of words.

A restriction wins over every grant and over every consent in a call; nothing in the
environment grants anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mxgemm.configs import rounding_precisions
from mxgemm.errors import UnsupportedError, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["VARIABLE", "Restrictions", "known_words"]

VARIABLE = "MXGEMM_DISABLE"

# A grant's family (its name up to ":") and the word that revokes it, where the two differ.
_REVOKED_BY = {"relaxed-accumulation": "accumulation-order"}


def known_words() -> tuple[str, ...]:
    """Every word that ``MXGEMM_DISABLE`` understands."""
    roundings = (f"operand-rounding-{precision}" for precision in rounding_precisions())
    return (
        "matrix",
        "automatic-float-rewrite",
        "accumulation-order",
        "narrower-accumulator",
        *roundings,
        "contraction",
        "window",
        "epilogue",
        "autotune",
    )


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The words in force, as a value.

    Attributes
    ----------
    words : frozenset of str
        A subset of :func:`known_words`.

    Raises
    ------
    UnsupportedError
        For an unknown word; lists the known ones.
    """

    words: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(self.words.difference(known_words()))
        if unknown:
            raise UnsupportedError(
                f"{VARIABLE} does not know {one_of([repr(word) for word in unknown])}; "
                f"known words are {one_of(known_words())}"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Restrictions:
        """Read ``MXGEMM_DISABLE``; blanks around words and empty words do not count."""
        words = (word.strip() for word in environment.get(VARIABLE, "").split(","))
        return cls(frozenset(word for word in words if word))

    def disables(self, word: str) -> bool:
        """Whether ``word`` was taken away."""
        return word in self.words

    def revoked_by(self, grant: str) -> str:
        """The word in force that revokes the grant of this name; "" where none does."""
        family = grant.partition(":")[0]
        word = _REVOKED_BY.get(family, family)
        return word if word in self.words else ""

    def __str__(self) -> str:
        return f"{VARIABLE}={','.join(word for word in known_words() if word in self.words)}"
