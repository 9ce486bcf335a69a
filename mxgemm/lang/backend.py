"""The one seam between kernels and the machine that runs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang import ir
    from mxgemm.lang.cuda_source import Argument

__all__ = ["Backend", "CompileChoices", "Memory", "Program"]


class Memory(Protocol):
    """Memory that a backend allocated, or that a foreign array owns."""

    @property
    def pointer(self) -> int:
        """The address of the first byte."""


@dataclass(frozen=True)
class CompileChoices:
    """What ``@cuda.jit`` options ask of the compiler."""

    fma: bool = False
    fastmath: bool = False
    max_registers: int | None = None
    launch_bounds: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """A kernel made ready by a backend; ``arguments`` says what a launch passes, in order."""

    kernel: ir.Kernel
    handle: Any
    arguments: tuple[Argument, ...]


class Backend(Protocol):
    """Allocates, copies, compiles, launches and orders.

    Streams are integer handles, ``default_stream`` the one in which work runs by default.
    """

    @property
    def name(self) -> str:
        """``interpreter`` or ``cuda:<ordinal>``."""

    @property
    def default_stream(self) -> int:
        """The stream of launches that name none."""

    def allocate(self, nbytes: int, stream: int) -> Memory:
        """Allocate device memory."""

    def host(self, memory: Memory) -> Any:
        """The memory as a NumPy byte array where the host can address it, else None."""

    def copy_in(self, memory: Memory, offset: int, source: Any, stream: int) -> None:
        """Copy a contiguous host array to ``offset`` bytes into ``memory``."""

    def copy_out(self, memory: Memory, offset: int, nbytes: int, stream: int) -> Any:
        """Copy bytes to the host, after what ``stream`` holds."""

    def program(self, kernel: ir.Kernel, choices: CompileChoices) -> Program:
        """Make a kernel ready."""

    def launcher(
        self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int
    ) -> Callable[..., None]:
        """Return ``launch(stream, *machine_arguments)``."""

    def create_stream(self) -> int:
        """Create a stream."""

    def stream_handle(self, stream: Any) -> int:
        """The handle of another library's stream object."""

    def synchronize(self, stream: int | None) -> None:
        """Wait for a stream, or for everything."""

    def create_event(self) -> Any:
        """Create an event."""

    def record(self, event: Any, stream: int) -> None:
        """Record an event in a stream."""

    def wait(self, event: Any, stream: int | None) -> None:
        """Make a stream, or with None the host, wait for an event."""

    def is_done(self, event: Any) -> bool:
        """Whether an event has happened."""

    def elapsed(self, start: Any, end: Any) -> float:
        """Milliseconds between two events."""

    def pinned(self, nbytes: int) -> Any:
        """Host memory that the device can copy from and to asynchronously, as a byte array."""
