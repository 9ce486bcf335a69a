"""Where a kernel reads the parameters of a launch, as the driver tells it.

Parameters follow one another without gaps; where the first lies is the kernel's own.  The device's bank of
parameters begins 16 bytes past a multiple of 64 on sm_90, so that a tensor map, which is aligned to 64 bytes
there, comes first at 48.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from mxgemm.device import driver
from mxgemm.errors import UnsupportedError

if TYPE_CHECKING:
    from mxgemm.device.kernel import CompiledKernel

__all__ = ["first_offset"]


def first_offset(kernel: CompiledKernel, sizes: Sequence[int]) -> int | None:
    """Bytes before the first parameter in the device's layout; None where the driver cannot tell.

    Parameters
    ----------
    kernel : CompiledKernel
    sizes : sequence of int
        Bytes of each parameter, as a launch gives them.

    Raises
    ------
    DriverError
        When the kernel has fewer parameters.
    UnsupportedError
        When those that are given have other sizes there, or gaps between them.  Parameters after them are
        not asked for.
    """
    told = []
    with driver.on_device(kernel.ordinal):
        for index in range(len(sizes)):
            one = driver.call_if_known("cuKernelGetParamInfo", kernel.handle, index)
            if one is None:
                return None
            told.append((int(one[0]), int(one[1])))
    first = told[0][0] if told else 0
    if told != list(zip(accumulate(sizes, initial=first), sizes, strict=False)):
        raise UnsupportedError(
            f"{kernel.entry} reads its parameters at (offset, bytes) {told}; a bound launch gives them "
            f"without gaps in {list(sizes)} bytes; use a Launcher, which takes parameters of any width"
        )
    return first
