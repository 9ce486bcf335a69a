"""The error and warning tree: one root, and under it what a caller can act on.

Every error also derives from the builtin exception that fits, so code that
catches ``ValueError`` or ``TypeError`` keeps working.  A message says what was
asked, what is supported and what to do next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AccuracyWarning",
    "CompilationError",
    "DTypeError",
    "KernelSyntaxError",
    "MatrixProductAdvice",
    "MxgemmError",
    "MxgemmWarning",
    "PerformanceAdvice",
    "PolicyError",
    "ShapeError",
    "UnsupportedError",
    "VerificationError",
]


class MxgemmError(Exception):
    """Root of every error that mxgemm raises on purpose."""


class ShapeError(MxgemmError, ValueError):
    """Shapes, strides or batch axes do not fit together."""


class DTypeError(MxgemmError, TypeError):
    """An element type, or a mix of them, that has no meaning here."""


class PolicyError(MxgemmError, PermissionError):
    """A precision that the program has not accepted; the message names the missing call."""


class UnsupportedError(MxgemmError, ValueError):
    """A request that mxgemm understands and does not support; says what is supported."""


class KernelSyntaxError(MxgemmError, SyntaxError):
    """Kernel source outside the dialect, with file, line and caret.

    Parameters
    ----------
    message : str
        What is wrong and what is supported instead.
    filename, lineno, offset, text
        The source place, as ``SyntaxError`` takes it (1-based line and column).
    """

    def __init__(
        self,
        message: str,
        filename: str | None = None,
        lineno: int | None = None,
        offset: int | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(message, (filename, lineno, offset, text))


class CompilationError(MxgemmError, RuntimeError):
    """The device compiler refused a generated source; the log and the source are kept."""

    def __init__(self, message: str, log: str = "", source: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.source = source


class VerificationError(MxgemmError, ArithmeticError):
    """A result left its error bound; the certificate that says where and the result are attached."""

    def __init__(self, message: str, certificate: Any = None, array: Any = None) -> None:
        super().__init__(message)
        self.certificate = certificate
        self.array = array


class MxgemmWarning(UserWarning):
    """Root of every warning; each cause warns once."""


class MatrixProductAdvice(MxgemmWarning):
    """A matrix product that matrix units could compute, and the call that would allow it."""


class AccuracyWarning(MxgemmWarning):
    """A result that is correct by its configuration and may surprise its reader."""


class PerformanceAdvice(MxgemmWarning):
    """Correct, but slower than a small change by the caller would make it."""


def one_of(values: Sequence[str]) -> str:
    """Return ``values`` as a readable list for an error message: ``a, b or c``."""
    names = list(values)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
