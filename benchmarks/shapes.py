"""What the choice of tiles is checked on."""

from __future__ import annotations

from collections.abc import Iterator

from mxgemm.report.cases import Case
from mxgemm.report.timed import FURTHER, TABLE, case_of, further, kinds


def selection(arch: str) -> Iterator[Case]:
    """float16's table, all further shapes, 8-bit types."""
    known = {kind.name: kind for kind in kinds(arch)}
    yield from (case_of(known["f16"], shape) for shape in TABLE)
    yield from (case for _, case in further(arch))
    whole = [shape for shape in FURTHER if all(extent % 16 == 0 for extent in shape)]
    for name, first in (("int8", 0), ("fp8", 1)):
        yield from (case_of(known[name], shape) for shape in whole[first::3])
