"""One derived error bound for each configuration and architecture.

:func:`leading` and :func:`describe` need the shape alone, :func:`entrywise` the operands.
T is |A||B|; T̂ raises each operand that is subnormal in the unit's format to the least
normal number.  docs/error-bounds.md derives every bound from the arithmetic of the unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxgemm.bounds.describe import describe, leading
from mxgemm.lazy import loader

if TYPE_CHECKING:
    from mxgemm.bounds.absolute import entrywise

__all__ = ["describe", "entrywise", "leading"]

__getattr__ = loader(__name__, {"entrywise": "absolute"})
