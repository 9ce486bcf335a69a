"""Races on shared memory: conflicting accesses of two threads with no barrier between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang.faults import RaceError

if TYPE_CHECKING:
    from mxgemm.lang.interpret_lanes import Lanes
    from mxgemm.lang.place import Place

__all__ = ["Epochs", "Races"]

#: Reads kept back before they are recorded: a barrier usually comes first, and forgets them.
_PENDING: Final = 64

_CONFLICTS: Final = {
    "read": ("write", "atomic"),
    "write": ("read", "write", "atomic"),
    "atomic": ("read", "write"),
}
_WORDS: Final = {"read": "reads", "write": "writes", "atomic": "updates"}


class Epochs:
    """How many barriers each block, and each warp, has passed."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes
        self.block = np.zeros(lanes.count, np.int64)
        self.warp = np.zeros(lanes.count * lanes.warps, np.int64)
        self.races: list[Races] = []

    def pass_blocks(self, whole: Any) -> None:
        """The blocks in ``whole`` pass a barrier."""
        for races in self.races:
            if whole.all():
                races.forget()
            else:
                races.settle()
        self.block[whole] += 1

    def pass_warps(self, warps: Any) -> None:
        """Warps pass ``syncwarp``."""
        for races in self.races:
            races.settle()
        self.warp[warps] += 1


class _Record:
    """The last accesses of one kind to each element: by whom, and in which epochs; −2 is several."""

    def __init__(self, size: int) -> None:
        self.thread = np.full(size, -1, np.int64)
        self.warp = np.full(size, -1, np.int64)
        self.block_epoch = np.full(size, -1, np.int64)
        self.warp_epoch = np.zeros(size, np.int64)
        self.touched = False


class Races:
    """Conflicting accesses to one shared array."""

    def __init__(self, size: int, epochs: Epochs) -> None:
        self.epochs = epochs
        self.records = {kind: _Record(size) for kind in ("read", "write", "atomic")}
        self.pending: list[tuple[Any, Any]] = []
        epochs.races.append(self)

    def forget(self) -> None:
        """Every block passes a barrier: nothing before it conflicts with what follows."""
        self.pending.clear()
        for record in self.records.values():
            record.touched = False

    def settle(self) -> None:
        """Record the reads that were kept back."""
        for lane, element in self.pending:
            self._record(self.records["read"], lane, element)
        self.pending.clear()

    def check(self, kind: str, place: Place, lane: Any, element: Any, describe: str) -> None:
        """Check an access by ``lane`` to ``element`` (arrays of one length), then record it."""
        if kind != "read":
            self.settle()
        for other in _CONFLICTS[kind]:
            if self.records[other].touched:
                self._compare(kind, other, place, lane, element, describe=describe)
        if kind != "read":
            self._record(self.records[kind], lane, element)
            return
        self.pending.append((lane, element))
        if len(self.pending) >= _PENDING:
            self.settle()

    def _compare(
        self, kind: str, other: str, place: Place, lane: Any, element: Any, *, describe: str
    ) -> None:
        lanes, record = self.epochs.lanes, self.records[other]
        current = record.block_epoch[element] == self.epochs.block[lanes.block_in_batch[lane]]
        conflict = current & (record.thread[element] != lane)
        if not conflict.any():
            return
        warp = lanes.warp[lane]
        conflict &= ~((record.warp[element] == warp) & (record.warp_epoch[element] < self.epochs.warp[warp]))
        if conflict.any():
            at = int(np.argmax(conflict))
            message = self._message(kind, other, int(record.thread[element[at]]), describe)
            raise lanes.fault(RaceError, message, place, int(lane[at]))

    def _message(self, kind: str, other: str, earlier: int, describe: str) -> str:
        did = _WORDS[other]
        who = f"linear thread {earlier % self.epochs.lanes.threads} {did}"
        if earlier < 0:
            who = f"several threads {did.removesuffix('s')}"
        return (
            f"race on {describe}: this thread {_WORDS[kind]} an element that {who} "
            "without a barrier between; put cuda.syncthreads() between the two"
        )

    def _record(self, record: _Record, lane: Any, element: Any) -> None:
        lanes = self.epochs.lanes
        block_epoch, warp = self.epochs.block[lanes.block_in_batch[lane]], lanes.warp[lane]
        fresh = np.True_ if not record.touched else record.block_epoch[element] != block_epoch
        thread = np.where(fresh | (record.thread[element] == lane), lane, -2)
        several = np.where(fresh | (record.warp[element] == warp), warp, -2)
        record.touched = True
        for table, values in ((record.thread, thread), (record.warp, several)):
            table[element] = values
            # Two lanes of this very access may meet in an element: what the other left shows it.
            met = table[element] != values
            if met.any():
                table[element[met]] = -2
        record.block_epoch[element] = block_epoch
        record.warp_epoch[element] = self.epochs.warp[warp]
