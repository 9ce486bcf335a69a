"""Bit-exact models of matrix units, operand splits and `scalar` arithmetic, in NumPy.

:func:`multiply` gives the product of one configuration, :func:`run` all that a problem
asks for; the models load with the first that is asked for.  The model, its sources and
its traps: docs/units.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxgemm.lazy import loader

if TYPE_CHECKING:
    from mxgemm.units.problems import UnitRun, run
    from mxgemm.units.products import multiply

__all__ = ["UnitRun", "multiply", "run"]

__getattr__ = loader(__name__, {"UnitRun": "problems", "multiply": "products", "run": "problems"})
