"""The interpreter's statements: a mask says which lanes run, and each statement returns who goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.lang import ir
from mxgemm.lang.faults import DivergentBarrierError, KernelFaultError
from mxgemm.lang.interpret_atomics import update
from mxgemm.lang.interpret_expressions import Evaluator, Frame
from mxgemm.lang.interpret_warps import check_mask, collective
from mxgemm.lang.walk import nodes, operands, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mxgemm.lang.interpret_lanes import Lanes
    from mxgemm.lang.interpret_memory import Memory
    from mxgemm.lang.interpret_races import Epochs
    from mxgemm.lang.types import Scalar

__all__ = ["Frame", "Machine"]

Mask = Any  # None: all lanes; NOBODY: none; else which lanes


class _Nobody:
    """The mask of no lane."""


NOBODY: Final = _Nobody()


class _Loop:
    """Who left a loop's body early."""

    def __init__(self) -> None:
        self.breaks: list[Mask] = []
        self.continues: list[Mask] = []


def _union(masks: Iterable[Mask]) -> Mask:
    result: Mask = NOBODY
    for mask in masks:
        if mask is None:
            return None
        if mask is NOBODY:
            continue
        result = mask if result is NOBODY else result | mask
    return result


class Machine(Evaluator):
    """Runs a kernel's statements for one batch of blocks after another."""

    epochs: Epochs

    def __init__(self, kernel: ir.Kernel) -> None:
        self.kernel = kernel
        self.functions = {f.name: f for f in kernel.functions}
        self.function_arrays: dict[str, dict[str, Memory]] = {}
        self._reads = {f.name: _read_variables(f.body) for f in kernel.functions}
        self._reads[kernel.name] = _read_variables(kernel.body)
        self._current = kernel.name

    def run(
        self, lanes: Lanes, epochs: Epochs, frame: Frame, function_arrays: dict[str, dict[str, Memory]]
    ) -> None:
        """Run the kernel for ``lanes``."""
        self.lanes, self.epochs, self.function_arrays = lanes, epochs, function_arrays
        self.block(self.kernel.body, None, frame)

    def block(self, body: tuple[ir.Statement, ...], mask: Mask, frame: Frame) -> Mask:
        """Run statements while any lane goes on."""
        for statement in body:
            mask = _DISPATCH[type(statement)](self, statement, mask, frame)
            if mask is NOBODY:
                break
        return mask

    def assign(self, target: ir.Local, value: Any, mask: Mask, frame: Frame) -> None:
        """Assign a variable for the lanes in ``mask``."""
        key = (target.name, target.type)
        old = frame.defined.get(key, NOBODY)
        if old is NOBODY and target.name in frame.parameters:
            frame.values[key], old = frame.parameters[target.name], None
        if mask is None or old is NOBODY or old is mask:
            frame.values[key], frame.defined[key] = value, mask
        else:
            frame.values[key] = np.where(mask, value, frame.values[key])
            frame.defined[key] = None if old is None else old | mask

    def _assign(self, s: ir.Assign, mask: Mask, frame: Frame) -> Mask:
        self.assign(s.target, self.evaluate(s.value, mask, frame), mask, frame)
        return mask

    def _store(self, s: ir.Store, mask: Mask, frame: Frame) -> Mask:
        value = self.evaluate(s.value, mask, frame)
        indices = [self.evaluate(i, mask, frame) for i in s.indices]
        frame.arrays[s.array].store(s.place, self.lanes, indices, value, mask)
        return mask

    def _atomic(self, s: ir.Atomic, mask: Mask, frame: Frame) -> Mask:
        memory = frame.arrays[s.array]
        indices = [self.evaluate(i, mask, frame) for i in s.indices]
        values = [np.broadcast_to(self.evaluate(v, mask, frame), (self.lanes.size,)) for v in s.values]
        offset = memory.offset(s.place, self.lanes, indices, mask)
        lane, element = memory.active(self.lanes, offset, mask)
        if memory.written is not None:
            memory.check_written(s.place, self.lanes, lane, element)
        if memory.races is not None:
            memory.races.check("atomic", s.place, lane, element, memory.label)
        wanted = s.target is not None and (s.target.name, s.target.type) in self._reads[self._current]
        old = update(s.operator, memory.flat, element, [v[lane] for v in values], wanted)
        if s.target is not None and wanted:
            whole = np.zeros(self.lanes.size, memory.flat.dtype)
            whole[lane] = old
            self.assign(s.target, whole, mask, frame)
        return mask

    def _collective(self, s: ir.Collective, mask: Mask, frame: Frame) -> Mask:
        arguments = [self.evaluate(a, mask, frame) for a in s.arguments]
        results = collective(s.place, self.lanes, s.operator, arguments, mask)
        for target, result in zip(s.targets, results, strict=True):
            self.assign(target, result, mask, frame)
        return mask

    def _barrier(self, s: ir.Barrier, mask: Mask, frame: Frame) -> Mask:
        if s.scope == "warp":
            return self._warp_barrier(s, mask, frame)
        whole = self._whole_blocks(s, mask)
        if s.predicate is not None and s.target is not None:
            vote = np.broadcast_to(self.evaluate(s.predicate, mask, frame), (self.lanes.size,))
            table = vote.reshape(self.lanes.count, self.lanes.threads)
            counts = {"count": table.sum(axis=1), "and": table.all(axis=1), "or": table.any(axis=1)}[s.scope]
            self.assign(s.target, np.repeat(counts, self.lanes.threads).astype(np.int32), mask, frame)
        self.epochs.pass_blocks(whole)
        return mask

    def _whole_blocks(self, s: ir.Barrier, mask: Mask) -> Any:
        """Which blocks are here; each with all of its threads."""
        if mask is None:
            return np.ones(self.lanes.count, bool)
        table = mask.reshape(self.lanes.count, self.lanes.threads)
        some, every = table.any(axis=1), table.all(axis=1)
        partial = some & ~every
        if partial.any():
            block = int(np.argmax(partial))
            lane = block * self.lanes.threads + int(np.argmin(table[block]))
            message = (
                f"divergent barrier: {int(table[block].sum())} of {self.lanes.threads} threads reach it, "
                "this thread does not; every thread of the block has to"
            )
            raise self.lanes.fault(DivergentBarrierError, message, s.place, lane)
        return every

    def _warp_barrier(self, s: ir.Barrier, mask: Mask, frame: Frame) -> Mask:
        wanted = np.uint32(0xFFFFFFFF) if s.mask is None else self.evaluate(s.mask, mask, frame)
        check_mask(s.place, self.lanes, "syncwarp", wanted, mask)
        warps = self.lanes.warp if mask is None else self.lanes.warp[mask]
        self.epochs.pass_warps(np.unique(warps))
        return mask

    def _fence(self, _s: ir.Fence, mask: Mask, _frame: Frame) -> Mask:
        return mask  # lanes see every write at once

    def _view(self, s: ir.BindView, mask: Mask, frame: Frame) -> Mask:
        base = frame.arrays[s.base]
        indices = [self.evaluate(i, mask, frame) for i in s.indices]
        offset = base.offset(s.place, self.lanes, indices, mask)
        frame.arrays[s.name] = base.view(s.name, s.type, offset, len(indices))
        return mask

    def _call(self, s: ir.Call, mask: Mask, frame: Frame) -> Mask:
        function = self.functions[s.function]
        scalars: dict[str, Any] = {}
        arrays = dict(self.function_arrays[function.name])
        for (name, _), argument in zip(function.parameters, s.arguments, strict=True):
            if isinstance(argument, str):
                arrays[name] = frame.arrays[argument]
            else:
                scalars[name] = self.evaluate(argument, mask, frame)
        inner = Frame(scalars, arrays)
        outer, self._current = self._current, function.name
        self.block(function.body, mask, inner)
        self._current = outer
        for target, value in zip(s.targets, inner.results, strict=True):
            self.assign(target, value, mask, frame)
        return mask

    def _if(self, s: ir.If, mask: Mask, frame: Frame) -> Mask:
        condition = self.evaluate(s.condition, mask, frame)
        if np.ndim(condition) == 0:
            return self.block(s.then if condition else s.otherwise, mask, frame)
        first = condition if mask is None else condition & mask
        second = ~condition if mask is None else mask & ~condition
        if not second.any():
            return self.block(s.then, mask, frame)
        if not first.any():
            return self.block(s.otherwise, mask, frame)
        left = self.block(s.then, first, frame)
        right = self.block(s.otherwise, second, frame)
        return mask if left is first and right is second else _union((left, right))

    def _for(self, s: ir.For, mask: Mask, frame: Frame) -> Mask:
        start, stop, step = (self.evaluate(e, mask, frame) for e in (s.start, s.stop, s.step))
        zero = np.broadcast_to(step == 0, (self.lanes.size,))
        zero = zero if mask is None else zero & mask
        if zero.any():
            raise self.lanes.fault(
                KernelFaultError, "the step of range is zero", s.place, int(np.argmax(zero))
            )
        if np.ndim(start) == np.ndim(stop) == np.ndim(step) == 0:
            return self._uniform_for(s, range(int(start), int(stop), int(step)), mask, frame)
        count = _trip_count(start, stop, step)
        return self._lane_for(s, (start, step, np.broadcast_to(count, (self.lanes.size,))), mask, frame)

    def _uniform_for(self, s: ir.For, values: range, mask: Mask, frame: Frame) -> Mask:
        left: list[Mask] = []
        current, before = mask, frame.returned
        kind = s.target.type.dtype.type
        for value in values:
            self.assign(s.target, kind(value), current, frame)
            current = self._iteration(s.body, current, frame, left)
            if current is NOBODY:
                break
        return mask if frame.returned is before else _union((current, *left))

    def _lane_for(self, s: ir.For, counter: tuple[Any, Any, Any], mask: Mask, frame: Frame) -> Mask:
        start, step, count = counter
        left: list[Mask] = []
        current, before = mask, frame.returned
        value, done = np.broadcast_to(start, (self.lanes.size,)), np.uint64(0)
        while current is not NOBODY:
            going = count > done if current is None else current & (count > done)
            if not going.all():
                left.append(~going if current is None else current & ~going)
                current = going if going.any() else NOBODY
            if current is NOBODY:
                break
            self.assign(s.target, value, current, frame)
            current = self._iteration(s.body, current, frame, left)
            value, done = value + step, done + np.uint64(1)
        return mask if frame.returned is before else _union((current, *left))

    def _iteration(  # the loop's whole state
        self, body: tuple[ir.Statement, ...], current: Mask, frame: Frame, left: list[Mask]
    ) -> Mask:
        """Run a loop's body once; return who goes on to the next iteration."""
        loop = _Loop()
        frame.loops.append(loop)
        out = self.block(body, current, frame)
        frame.loops.pop()
        left.extend(loop.breaks)
        return _union((out, *loop.continues)) if loop.continues else out

    def _while(self, s: ir.While, mask: Mask, frame: Frame) -> Mask:
        left: list[Mask] = []
        current, before = mask, frame.returned
        while current is not NOBODY:
            condition = self.evaluate(s.condition, current, frame)
            if np.ndim(condition) == 0:
                if not condition:
                    break
            else:
                going = condition if current is None else condition & current
                stays = ~condition if current is None else current & ~condition
                if stays.any():
                    left.append(stays)
                    if not going.any():
                        current = NOBODY
                        break
                    current = going
            current = self._iteration(s.body, current, frame, left)
        return mask if frame.returned is before else _union((current, *left))

    def _break(self, _s: ir.Break, mask: Mask, frame: Frame) -> Mask:
        frame.loops[-1].breaks.append(mask)
        return NOBODY

    def _continue(self, _s: ir.Continue, mask: Mask, frame: Frame) -> Mask:
        frame.loops[-1].continues.append(mask)
        return NOBODY

    def _return(self, s: ir.Return, mask: Mask, frame: Frame) -> Mask:
        values = [self.evaluate(v, mask, frame) for v in s.values]
        if not frame.results:
            frame.results = values
        else:
            frame.results = [
                new if mask is None else np.where(mask, new, old)
                for new, old in zip(values, frame.results, strict=True)
            ]
        frame.returned = object()  # a new mark: some lane has left
        return NOBODY


def _trip_count(start: Any, stop: Any, step: Any) -> Any:
    """Iterations of a range, as unsigned 64-bit numbers, whatever the signs."""
    wide = [np.asarray(x).astype(np.uint64) for x in (start, stop, step)]
    up = (wide[1] - wide[0] - np.uint64(1)) // np.where(step > 0, wide[2], np.uint64(1)) + np.uint64(1)
    count = np.where((step > 0) & (start < stop), up, np.uint64(0))
    if np.asarray(step).dtype.kind == "u":
        return count
    magnitude = np.where(step < 0, np.uint64(0) - wide[2], np.uint64(1))
    down = (wide[0] - wide[1] - np.uint64(1)) // magnitude + np.uint64(1)
    return np.where((step < 0) & (start > stop), down, count)


def _read_variables(body: tuple[ir.Statement, ...]) -> set[tuple[str, Scalar]]:
    """Variables that some expression reads; targets of assignments are no reads."""
    found: set[tuple[str, Scalar]] = set()
    for statement in statements(body):
        own = {id(t) for t in (getattr(statement, "target", None), *getattr(statement, "targets", ()))}
        for operand in operands(statement):
            if id(operand) not in own:
                found.update((n.name, n.type) for n in nodes(operand) if isinstance(n, ir.Local))
    return found


_DISPATCH: Final[dict[type, Callable[..., Mask]]] = {
    ir.Assign: Machine._assign,
    ir.Store: Machine._store,
    ir.Atomic: Machine._atomic,
    ir.Collective: Machine._collective,
    ir.Barrier: Machine._barrier,
    ir.Fence: Machine._fence,
    ir.BindView: Machine._view,
    ir.Call: Machine._call,
    ir.If: Machine._if,
    ir.For: Machine._for,
    ir.While: Machine._while,
    ir.Break: Machine._break,
    ir.Continue: Machine._continue,
    ir.Return: Machine._return,
}
