"""The interpreter's warp operations: shuffles, votes and matches among 32 lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mxgemm.lang.faults import DivergentBarrierError

if TYPE_CHECKING:
    from mxgemm.lang.interpret_lanes import Lanes
    from mxgemm.lang.place import Place

__all__ = ["check_mask", "collective"]


def _by_warp(lanes: Lanes, values: Any, fill: Any) -> Any:
    """Values as (warp, 32); lanes that a block's last warp lacks get ``fill``."""
    values = np.broadcast_to(values, (lanes.size,))
    padded = np.full((lanes.count, lanes.warps * 32), fill, values.dtype)
    padded[:, : lanes.threads] = values.reshape(lanes.count, lanes.threads)
    return padded.reshape(-1, 32)


def _by_lane(lanes: Lanes, table: Any) -> Any:
    """The inverse of ``_by_warp``."""
    return table.reshape(lanes.count, lanes.warps * 32)[:, : lanes.threads].reshape(-1)


def _everyone(lanes: Lanes) -> Any:
    return np.ones(lanes.size, bool)


def active_bits(lanes: Lanes, mask: Any) -> Any:
    """The active lanes of each warp as (warp, 32) bools."""
    return _by_warp(lanes, _everyone(lanes) if mask is None else mask, False)


def check_mask(place: Place, lanes: Lanes, name: str, wanted: Any, mask: Any) -> Any:
    """Check that the lanes named by each active lane's mask all take part; return them as bools.

    Bits of lanes that the block does not have are ignored, as the hardware does for full masks.
    """
    active = active_bits(lanes, mask)
    exists = _by_warp(lanes, _everyone(lanes), False)
    bits = _by_warp(lanes, np.asarray(wanted, np.uint32), np.uint32(0))
    named = (bits[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
    missing = active[:, :, None] & named & exists[:, None, :] & ~active[:, None, :]
    itself = active & ~named[:, np.arange(32), np.arange(32)]
    wrong = missing.any(axis=2) | itself
    if wrong.any():
        warp, lane = (int(x) for x in np.argwhere(wrong)[0])
        block, in_block = divmod(warp, lanes.warps)
        at = block * lanes.threads + in_block * 32 + lane
        message = f"cuda.{name} names lanes in its mask that do not reach it"
        if itself[warp, lane]:
            message = f"cuda.{name} is reached by a lane that its mask does not name"
        raise lanes.fault(DivergentBarrierError, message, place, at)
    return named & exists[:, None, :]


def collective(place: Place, lanes: Lanes, name: str, arguments: list[Any], mask: Any) -> list[Any]:
    """Evaluate a warp operation for the active lanes."""
    if name == "activemask":
        return [
            _by_lane(lanes, np.broadcast_to(_pack(active_bits(lanes, mask))[:, None], (_rows(lanes), 32)))
        ]
    if name == "lanemask_lt":
        return [(np.uint64(1) << (lanes.thread % 32).astype(np.uint64)).astype(np.uint32) - np.uint32(1)]
    named = check_mask(place, lanes, name, arguments[0], mask)
    if name.startswith("shfl"):
        return [_shuffle(place, lanes, name, arguments[1:], mask)]
    values = _by_warp(lanes, arguments[1], np.asarray(arguments[1]).dtype.type(0))
    if name.startswith("match"):
        return _match(lanes, name, values, named)
    votes = named & values[:, None, :]
    if name == "ballot_sync":
        return [_by_lane(lanes, _pack(votes))]
    everyone = (~named | values[:, None, :]).all(axis=2)
    anyone = votes.any(axis=2)
    result = {"all_sync": everyone, "any_sync": anyone, "eq_sync": everyone | ~anyone}[name]
    return [_by_lane(lanes, result)]


def _rows(lanes: Lanes) -> int:
    return lanes.count * lanes.warps


def _pack(bits: Any) -> Any:
    """The last axis of 32 bools as one uint32."""
    weights = np.uint64(1) << np.arange(32, dtype=np.uint64)
    return (bits.astype(np.uint64) * weights).sum(axis=-1, dtype=np.uint64).astype(np.uint32)


def _match(lanes: Lanes, name: str, values: Any, named: Any) -> list[Any]:
    # Bits are compared, so that NaN matches NaN and −0 does not match +0.
    raw = values.view(f"uint{8 * values.dtype.itemsize}")
    same = (raw[:, :, None] == raw[:, None, :]) & named
    if name == "match_any_sync":
        return [_by_lane(lanes, _pack(same))]
    whole = (same | ~named).all(axis=2)
    return [_by_lane(lanes, np.where(whole, _pack(named), np.uint32(0))), _by_lane(lanes, whole)]


def _shuffle(place: Place, lanes: Lanes, name: str, operands: list[Any], mask: Any) -> Any:
    value, amount = operands
    table = _by_warp(lanes, value, np.asarray(value).dtype.type(0))
    amounts = _by_warp(lanes, np.asarray(amount, np.int32), np.int32(0)).astype(np.int64)
    lane = np.arange(32)
    if name == "shfl_sync":
        source = amounts & 31
    elif name == "shfl_xor_sync":
        source = lane ^ (amounts & 31)
    else:
        # The machine sees the low five bits of the distance; a source outside the warp is the lane itself.
        source = lane - (amounts & 31) if name == "shfl_up_sync" else lane + (amounts & 31)
        source = np.where((source < 0) | (source > 31), lane, source)
    active = active_bits(lanes, mask)
    silent = active & ~np.take_along_axis(active, source, axis=1)
    if silent.any():
        warp, at = (int(x) for x in np.argwhere(silent)[0])
        block, in_block = divmod(warp, lanes.warps)
        raise lanes.fault(
            DivergentBarrierError,
            f"cuda.{name} reads lane {int(source[warp, at])}, which does not take part",
            place,
            block * lanes.threads + in_block * 32 + at,
        )
    return _by_lane(lanes, np.take_along_axis(table, source, axis=1))
