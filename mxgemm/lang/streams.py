"""Streams and events of the dialect."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mxgemm.lang.runtime import current

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mxgemm.lang.backend import Backend

__all__ = ["Event", "Stream", "handle_of"]


class Stream:
    """A queue of work on a device."""

    def __init__(self, backend: Backend, handle: int) -> None:
        self.backend = backend
        self.handle = handle

    def __repr__(self) -> str:
        return f"<stream {self.handle:#x} on {self.backend.name}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which other libraries take this stream."""
        return 0, self.handle

    def synchronize(self) -> None:
        """Wait for everything queued."""
        self.backend.synchronize(self.handle)

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Wait when the block ends."""
        yield self
        self.synchronize()


class Event:
    """A mark in a stream."""

    def __init__(self) -> None:
        self.backend = current()
        self.handle = self.backend.create_event()

    def record(self, stream: Any = 0) -> None:
        """Mark what is queued in ``stream`` so far."""
        self.backend.record(self.handle, handle_of(self.backend, stream))

    def synchronize(self) -> None:
        """Wait on the host."""
        self.backend.wait(self.handle, None)

    def wait(self, stream: Any = 0) -> None:
        """Make ``stream`` wait."""
        self.backend.wait(self.handle, handle_of(self.backend, stream))

    def query(self) -> bool:
        """Whether it has happened."""
        return self.backend.is_done(self.handle)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``."""
        return self.backend.elapsed(self.handle, end.handle)


def handle_of(backend: Backend, stream: Any) -> int:
    """The handle of a stream argument; 0 and None are the default stream."""
    if isinstance(stream, Stream):
        return stream.handle
    if stream is None or (isinstance(stream, int) and stream == 0):
        return backend.default_stream
    return backend.stream_handle(stream)
