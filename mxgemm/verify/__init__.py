"""Run-time verification: results against the bounds of their configurations.

The reference shares no code with the arithmetic models: it is a float64 product with its
own rounding radius, and Python integers and mpmath for the entries that it cannot decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxgemm.lazy import loader

if TYPE_CHECKING:
    from mxgemm.verify.check import check_result, full
    from mxgemm.verify.outcome import Certificate, CheckResult

__all__ = [
    "Certificate",
    "CheckResult",
    "check_result",
    "full",
]

__getattr__ = loader(
    __name__,
    {
        "Certificate": "outcome",
        "CheckResult": "outcome",
        "check_result": "check",
        "full": "check",
    },
)
