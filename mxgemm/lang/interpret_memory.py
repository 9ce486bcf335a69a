"""The interpreter's arrays: bounds, and elements that were never written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.lang.faults import OutOfBoundsError, RaceError, UninitialisedReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mxgemm.lang.interpret_lanes import Lanes
    from mxgemm.lang.interpret_races import Races
    from mxgemm.lang.place import Place
    from mxgemm.lang.types import ArrayType

__all__ = ["Memory"]

Mask = Any  # None for all lanes, else a bool array


class Memory:
    """An array as the lanes see it.

    Parameters
    ----------
    flat
        All elements, one-dimensional.
    base
        Element offset of the lanes' arrays: a scalar, or one a lane.
    extents, strides
        In elements.
    written
        Which elements were initialised; None when all are.
    """

    def __init__(  # noqa: PLR0917  # what an array is to a lane
        self,
        name: str,
        array: ArrayType,
        flat: Any,
        base: Any,
        extents: Sequence[int],
        strides: Sequence[int],
        written: Any = None,
        races: Races | None = None,
    ) -> None:
        self.name, self.type, self.flat, self.base = name, array, flat, base
        self.extents, self.strides = tuple(extents), tuple(strides)
        self.written, self.races = written, races

    def view(self, name: str, array: ArrayType, offset: Any, fixed: int) -> Memory:
        """The array with its first ``fixed`` indices fixed."""
        return Memory(
            name,
            array,
            self.flat,
            offset,
            self.extents[fixed:],
            self.strides[fixed:],
            self.written,
            self.races,
        )

    def offset(self, place: Place, lanes: Lanes, indices: Sequence[Any], mask: Mask) -> Any:
        """Element offsets of (leading) indices, negative ones counted from the end; bounds are checked."""
        offset: Any = self.base
        for axis, index in enumerate(indices):
            inside = self._inside(place, lanes, axis, index, mask)
            stride = self.strides[axis]
            offset = offset + (inside if stride == 1 else inside * np.int64(stride))
        return offset

    def _inside(self, place: Place, lanes: Lanes, axis: int, index: Any, mask: Mask) -> Any:
        extent = self.extents[axis]
        if np.ndim(index) == 0:
            value = int(index)
            value = value + extent if value < 0 else value
            if not 0 <= value < extent:
                self._outside(place, lanes, axis, np.full(lanes.size, value), mask)
            return np.int64(value)
        if index.dtype == np.uint64:
            index = np.where(index > np.uint64(2**62), np.uint64(2**62), index)
        index = index.astype(np.int64, copy=False)
        if mask is not None:
            index = np.where(mask, index, 0)
        if index.min() < 0:
            index = np.where(index < 0, index + extent, index)
            if index.min() < 0:
                self._outside(place, lanes, axis, index, mask)
        if index.max() >= extent:
            if extent == 0 and mask is not None and not mask.any():
                return index
            self._outside(place, lanes, axis, index, mask)
        return index

    def _outside(self, place: Place, lanes: Lanes, axis: int, index: Any, mask: Mask) -> None:
        wrong = (index < 0) | (index >= self.extents[axis])
        wrong = wrong if mask is None else wrong & mask
        if not wrong.any():
            return
        lane = int(np.argmax(wrong))
        value = int(index[lane])
        raise lanes.fault(
            OutOfBoundsError,
            f"index {value - self.extents[axis] * (value < 0)} of axis {axis} is outside {self.label}, "
            f"whose extent there is {self.extents[axis]}",
            place,
            lane,
        )

    @property
    def label(self) -> str:
        """The array's name for messages."""
        return f"{self.type} {self.name.partition('.')[0] if self.name[0] != '.' else 'view'}"

    def load(self, place: Place, lanes: Lanes, indices: Sequence[Any], mask: Mask) -> Any:
        """Read elements; lanes outside ``mask`` get any value."""
        offset = self.offset(place, lanes, indices, mask)
        if self.flat.size == 0:
            return np.zeros((), self.flat.dtype)[()]
        if mask is not None and np.ndim(offset):
            offset = np.where(mask, offset, 0)
        if self.written is not None or self.races is not None:
            self._check_read(place, lanes, offset, mask)
        return self.flat[offset] if np.ndim(offset) == 0 else self.flat.take(offset)

    def _check_read(self, place: Place, lanes: Lanes, offset: Any, mask: Mask) -> None:
        lane, element = self.active(lanes, offset, mask)
        self.check_written(place, lanes, lane, element)
        if self.races is not None:
            self.races.check("read", place, lane, element, self.label)

    def check_written(self, place: Place, lanes: Lanes, lane: Any, element: Any) -> None:
        """Raise when an element that ``lane`` is about to read was never written."""
        if self.written is None:
            return
        unset = ~self.written[element]
        if unset.any():
            at = int(lane[int(np.argmax(unset))])
            raise lanes.fault(UninitialisedReadError, f"{self.label} is read before it is written", place, at)

    def active(self, lanes: Lanes, offset: Any, mask: Mask) -> tuple[Any, Any]:
        """Lane numbers and offsets of the active lanes."""
        lane = np.arange(lanes.size) if mask is None else np.flatnonzero(mask)
        element = np.broadcast_to(offset, (lanes.size,))
        return lane, element if mask is None else element[lane]

    def store(self, place: Place, lanes: Lanes, indices: Sequence[Any], value: Any, mask: Mask) -> None:
        """Write elements; of several lanes that write one element the last one wins."""
        offset = self.offset(place, lanes, indices, mask)
        lane, element = self.active(lanes, offset, mask)
        values = np.broadcast_to(value, (lanes.size,))
        values = values if mask is None else values[lane]
        if self.races is not None:
            self.races.check("write", place, lane, element, self.label)
            self.flat[element] = values
            self._check_clash(place, lanes, lane, element, values)
        else:
            self.flat[element] = values
        if self.written is not None:
            self.written[element] = True

    def _check_clash(self, place: Place, lanes: Lanes, lane: Any, element: Any, values: Any) -> None:
        """Several threads may write one element in one statement only when they write the same value."""
        kept = self.flat[element]
        differs = kept.view(f"u{kept.itemsize}") != np.ascontiguousarray(values).view(f"u{kept.itemsize}")
        if differs.any():
            at = int(lane[int(np.argmax(differs))])
            message = f"race on {self.label}: several threads write different values to one element"
            raise lanes.fault(RaceError, message, place, at)
