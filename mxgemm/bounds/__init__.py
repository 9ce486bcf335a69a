"""One derived error bound for each configuration and architecture.

:func:`leading` and :func:`describe` need the shape alone, :func:`entrywise` the operands.
T is |A||B|; T̂ raises each operand that is subnormal in the unit's format to the least
normal number.  docs/error-bounds.md derives every bound from the arithmetic of the unit.
"""

from mxgemm.bounds.describe import describe, leading
from mxgemm.bounds.entrywise import entrywise

__all__ = ["describe", "entrywise", "leading"]
