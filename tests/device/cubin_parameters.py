"""Where a compiled kernel reads its parameters, as its machine code records it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ONE, _MANY = 3, 4  # formats of a record of .nv.info: a value in its head, or so many bytes behind it
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO


def parameters(code: bytes, entry: str) -> list[tuple[int, int]]:
    """Offset and bytes of each parameter in order, from a cubin's .nv.info section."""
    found = {}
    for attribute, data in _records(_section(code, f".nv.info.{entry}")):
        if attribute == _PARAMETER:
            _index, ordinal, offset, packed = struct.unpack("<IHHI", data)
            found[ordinal] = (offset, packed >> 18)
    return [found[i] for i in range(len(found))]


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        assert form in (1, 2, _ONE, _MANY)
        length = value if form == _MANY else 0
        yield attribute, data[at : at + length]
        at += length


def _section(code: bytes, name: str) -> bytes:
    """Contents of a section of a 64-bit ELF file."""
    (headers,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    at = [struct.unpack_from("<II16xQQ", code, headers + size * i) for i in range(count)]
    begin = at[names][2]
    for word, _kind, offset, length in at:
        if code[begin + word :].partition(b"\0")[0].decode() == name:
            return code[offset : offset + length]
    raise AssertionError(f"no section {name}")
