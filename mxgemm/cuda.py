"""The kernel dialect: ``from mxgemm import cuda`` in place of ``from numba import cuda``.

With a GPU kernels run on it; without one, or with ``MXGEMM_INTERPRETER=1``, on the reference
interpreter, which gives the same bits.  ``docs/dialect.md`` lists what is supported and what is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxgemm.lang.device_array import DeviceArray
from mxgemm.lang.faults import (
    DivergentBarrierError,
    DivisionByZeroError,
    KernelFaultError,
    OutOfBoundsError,
    RaceError,
    UninitialisedReadError,
)
from mxgemm.lang.host import (
    as_cuda_array,
    default_stream,
    device_array,
    device_array_like,
    event,
    event_elapsed_time,
    is_available,
    is_cuda_array,
    pinned_array,
    pinned_array_like,
    select_device,
    stream,
    synchronize,
    to_device,
)
from mxgemm.lang.jit import jit
from mxgemm.lang.refused import REFUSED as _REFUSED
from mxgemm.lang.refused import RefusedNameError as _RefusedNameError
from mxgemm.lang.signatures import void
from mxgemm.lang.stubs import ROOT as _WORDS
from mxgemm.lang.types import NUMBA_NAMES as _NUMBA_NAMES
from mxgemm.lang.types import SCALARS as _SCALARS

if TYPE_CHECKING:
    from mxgemm.lang.stubs import Stub
    from mxgemm.lang.types import Scalar

__all__ = [
    "DeviceArray",
    "DivergentBarrierError",
    "DivisionByZeroError",
    "KernelFaultError",
    "OutOfBoundsError",
    "RaceError",
    "UninitialisedReadError",
    "as_cuda_array",
    "default_stream",
    "device_array",
    "device_array_like",
    "event",
    "event_elapsed_time",
    "is_available",
    "is_cuda_array",
    "jit",
    "pinned_array",
    "pinned_array_like",
    "select_device",
    "stream",
    "synchronize",
    "to_device",
    "void",
]

# The words of the dialect and the element types are public too; they come from tables. ``bool`` would
# hide Python's own after ``from mxgemm.cuda import *``, so it is there by name only.
__all__ += [*sorted(_WORDS), *sorted(_SCALARS.keys() - {"bool"})]  # noqa: PLE0604  # strings, all of them

_NAMES: dict[str, Stub | Scalar] = {
    **_WORDS,
    **_SCALARS,
    **{name: _SCALARS[scalar] for name, scalar in _NUMBA_NAMES.items()},
}


def __getattr__(name: str) -> Any:
    """Words of the dialect, element types, and the refusal by name of what Numba has and this has not."""
    if name in _NAMES:
        return _NAMES[name]
    if name not in _REFUSED:
        raise AttributeError(f"mxgemm.cuda has no attribute {name!r}")
    raise _RefusedNameError(f"cuda.{name} is not supported: {_REFUSED[name]}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_NAMES})
