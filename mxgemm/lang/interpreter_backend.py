"""The backend without a GPU: host memory and the reference interpreter; everything happens at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mxgemm.errors import UnsupportedError
from mxgemm.lang.backend import CompileChoices, Memory, Program
from mxgemm.lang.cuda_source import Argument
from mxgemm.lang.interpret import ArrayArgument, interpret
from mxgemm.lang.types import ArrayType, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang import ir

__all__ = ["HostMemory", "InterpreterBackend"]

#: Shared memory that a block can have on the best-equipped architecture (227 KiB; Programming Guide).
_LARGEST_SHARED: Final = 232448


class HostMemory:
    """Bytes of host memory."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def pointer(self) -> int:
        """The address of the first byte."""
        return int(self.data.ctypes.data)


class InterpreterBackend:
    """Runs kernels on the reference interpreter; ``fma`` and ``fastmath`` change nothing here."""

    name = "interpreter"
    default_stream = 0

    def __init__(self) -> None:
        self._streams = 0

    def allocate(self, nbytes: int, stream: int) -> Memory:  # noqa: ARG002  # the protocol's
        """Allocate host memory."""
        return HostMemory(np.zeros(max(nbytes, 1), np.uint8))

    def host(self, memory: Memory) -> Any:
        """The memory itself."""
        return memory.data if isinstance(memory, HostMemory) else None

    def copy_in(self, memory: Memory, offset: int, source: Any, stream: int) -> None:  # noqa: ARG002  # the protocol's
        """Copy at once."""
        raw = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        self.host(memory)[offset : offset + raw.size] = raw

    def copy_out(self, memory: Memory, offset: int, nbytes: int, stream: int) -> Any:  # noqa: ARG002  # the protocol's
        """Copy at once."""
        return self.host(memory)[offset : offset + nbytes].copy()

    def program(self, kernel: ir.Kernel, choices: CompileChoices) -> Program:  # noqa: ARG002  # the protocol's
        """Nothing to compile; a launch passes whole arrays."""
        arguments = []
        for position, (_, t) in enumerate(kernel.parameters):
            if isinstance(t, ArrayType):
                arguments.append(Argument(position, "array"))
            elif isinstance(t, Scalar):
                arguments.append(Argument(position, "value"))
        return Program(kernel, None, tuple(arguments))

    def launcher(
        self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> Callable[..., None]:
        """A function that interprets the launch."""
        kernel = program.kernel
        needed = shared_bytes + kernel.shared_bytes
        if needed > _LARGEST_SHARED:
            raise UnsupportedError(
                f"{kernel.name} needs {needed} bytes of shared memory a block; no GPU has more than "
                f"{_LARGEST_SHARED}"
            )
        names = [(name, t) for name, t in kernel.parameters if isinstance(t, (ArrayType, Scalar))]

        def launch(_stream: int, *arguments: Any) -> None:
            values = {
                name: self._argument(t, value) for (name, t), value in zip(names, arguments, strict=True)
            }
            interpret(kernel, grid, block, shared_bytes, values)

        return launch

    def _argument(self, t: ArrayType | Scalar, value: Any) -> Any:
        if isinstance(t, Scalar):
            return t.dtype.type(value)
        return array_argument(self.host(value.memory), value.offset, t, value.shape, value.strides)

    def create_stream(self) -> int:
        """A number; launches run at once in any stream."""
        self._streams += 1
        return self._streams

    def stream_handle(self, stream: Any) -> int:
        """No foreign stream exists without a GPU."""
        raise UnsupportedError(f"stream {stream!r}: the interpreter takes streams made by cuda.stream()")

    def synchronize(self, stream: int | None) -> None:
        """Everything has happened."""

    def create_event(self) -> Any:
        """A place for a time."""
        return {"time": None}

    def record(self, event: Any, stream: int) -> None:  # noqa: ARG002  # the protocol's
        """Keep the time."""
        event["time"] = time.perf_counter()

    def wait(self, event: Any, stream: int | None) -> None:
        """Everything has happened."""

    def is_done(self, event: Any) -> bool:  # noqa: ARG002  # the protocol's
        """Everything has happened."""
        return True

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds of the host's clock."""
        if start["time"] is None or end["time"] is None:
            raise UnsupportedError("elapsed time needs two recorded events; call event.record() first")
        return float(1e3 * (end["time"] - start["time"]))

    def pinned(self, nbytes: int) -> Any:
        """Plain memory."""
        return np.zeros(nbytes, np.uint8)


def array_argument(
    raw: Any, offset: int, t: ArrayType, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Any:
    """An array over ``raw`` bytes as the interpreter takes it; ``offset`` and ``strides`` are bytes."""
    itemsize = t.element.itemsize
    start = offset % itemsize
    usable = (raw.size - start) // itemsize * itemsize
    flat = raw[start : start + usable].view(t.element.dtype)
    return ArrayArgument(flat, offset // itemsize, shape, tuple(s // itemsize for s in strides))
