"""Bit-exact models of matrix units, operand splits and `scalar` arithmetic, in NumPy.

:func:`multiply` gives the product of one configuration, :func:`run` all that a problem
asks for.  The model, its sources and its traps: docs/units.md.
"""

from mxgemm.units.multiply import multiply
from mxgemm.units.run import UnitRun, run

__all__ = ["UnitRun", "multiply", "run"]
