"""Tensor maps: what Hopper's copy engine is told of a matrix, encoded on the host and passed by value.

A map holds an address, so a launch encodes its maps once and gives them new addresses after that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from mxgemm.device import driver

__all__ = ["MAP_BYTES", "EncodedMap", "TensorMap"]

MAP_BYTES = 128  # of a CUtensorMap
_SINCE = 12000  # the driver API's version that has them
_AXES = 3
# CUtensorMapDataType: by bytes of an element where copies only move bytes and fill with zeros.
_UNSIGNED, _TFLOAT32 = {1: 0, 2: 1, 4: 2}, 11
_NO_INTERLEAVE, _ZEROS_OUTSIDE = 0, 0
_NO_SWIZZLE, _SWIZZLE_128_BYTES = 0, 3
_PROMOTE_TO_128_BYTES = 2  # of L2


class TensorMap(NamedTuple):
    """A stack of matrices as the copy engine sees it, as a value without an address.

    Three axes, contiguous axis first: inner, outer, product of the batch.

    Attributes
    ----------
    array : str
        Whose pointer it starts at, by the launch's name: "a", "b" or "d".
    itemsize : int
        Bytes of an element.
    extents : tuple of int
        Of the stack, in elements.
    strides : tuple of int
        Of the outer and the product axis, in bytes; multiples of 16.
    box : tuple of int
        Extents of what one copy moves, in elements.
    swizzled : bool
        Whether 16-byte pieces of rows of 128 bytes are swizzled in shared memory.
    to_tf32 : bool
        Whether float32 is rounded to tf32 on the way into shared memory: to nearest, ties to even; Inf stays,
        what is too large becomes Inf (measured on an NVIDIA H200).
    """

    array: str
    itemsize: int
    extents: tuple[int, int, int]
    strides: tuple[int, int]
    box: tuple[int, int, int]
    swizzled: bool = True
    to_tf32: bool = False


@lru_cache(maxsize=1)
def _encode() -> Callable[..., int]:
    pointer, word = ctypes.c_void_p, ctypes.c_uint
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int, pointer, word, word, pointer, pointer, pointer, pointer, pointer, word, word, word, word
    )
    return kind(driver.procedure("cuTensorMapEncodeTiled", _SINCE))


@lru_cache(maxsize=1)
def _replace_address() -> Callable[..., int]:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    return kind(driver.procedure("cuTensorMapReplaceAddress", _SINCE))


class EncodedMap:
    """One encoded map, for one launch at a time.

    Parameters
    ----------
    spec : TensorMap
    address : int
        Where the caller keeps 128 bytes on the host, aligned to 64, for as long as the map is used.

    Attributes
    ----------
    address : int
    target : int
        The device address that it starts at; 0 before the first.
    """

    __slots__ = ("_replace", "_spec", "address", "target")

    def __init__(self, spec: TensorMap, address: int) -> None:
        self._spec, self.address = spec, address
        self._replace = _replace_address()
        self.target = 0

    def aim(self, target: int) -> None:
        """Let the map start at a device address.

        Raises
        ------
        DriverError
            When the driver refuses the map.
        """
        if target == self.target:
            return
        status = self._replace(self.address, target) if self.target else self._encode_at(target)
        if status != 0:
            raise driver.DriverError(f"the tensor map {self._spec} at {target:#x}", f"error {status}")
        self.target = target

    def _encode_at(self, target: int) -> int:
        spec = self._spec
        extents = (ctypes.c_uint64 * _AXES)(*spec.extents)
        strides = (ctypes.c_uint64 * (_AXES - 1))(*spec.strides)
        box = (ctypes.c_uint32 * _AXES)(*spec.box)
        steps = (ctypes.c_uint32 * _AXES)(*(1,) * _AXES)
        arrays = [ctypes.addressof(x) for x in (extents, strides, box, steps)]
        swizzle = _SWIZZLE_128_BYTES if spec.swizzled else _NO_SWIZZLE
        return _encode()(
            self.address, _TFLOAT32 if spec.to_tf32 else _UNSIGNED[spec.itemsize], _AXES, target, *arrays,
            _NO_INTERLEAVE, swizzle, _PROMOTE_TO_128_BYTES, _ZEROS_OUTSIDE,
        )  # fmt: skip
