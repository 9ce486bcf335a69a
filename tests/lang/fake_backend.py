"""A backend that records what it is asked for; kernels are not run."""

# ruff: noqa: ARG002  # the protocol says the parameters

from __future__ import annotations

from typing import Any

import numpy as np

from mxgemm.lang.backend import CompileChoices, Program
from mxgemm.lang.cuda_source import cuda_source


class FakeMemory:
    """Host bytes behind a made-up address."""

    def __init__(self, pointer: int, nbytes: int) -> None:
        self.pointer = pointer
        self.data = np.zeros(nbytes, np.uint8)


class FakeBackend:
    """Device memory that the host cannot see, programs that are generated and not compiled."""

    name = "cuda:0"
    default_stream = 1

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.next = 1 << 20

    def count(self, what: str) -> int:
        return sum(1 for entry in self.log if entry[0] == what)

    def allocate(self, nbytes: int, stream: int) -> Any:
        self.log.append(("allocate", nbytes, stream))
        self.next += 1 << 20
        return FakeMemory(self.next, max(nbytes, 1))

    def host(self, memory: Any) -> Any:
        return None

    def copy_in(self, memory: Any, offset: int, source: Any, stream: int) -> None:
        self.log.append(("in", offset, source.nbytes, stream))
        raw = np.ascontiguousarray(source).reshape(-1).view(np.uint8)
        memory.data[offset : offset + raw.size] = raw

    def copy_out(self, memory: Any, offset: int, nbytes: int, stream: int) -> Any:
        self.log.append(("out", offset, nbytes, stream))
        return memory.data[offset : offset + nbytes].copy()

    def program(self, kernel: Any, choices: CompileChoices) -> Program:
        self.log.append(("program", kernel.name, choices))
        source = cuda_source(kernel)
        return Program(kernel, source, source.arguments)

    def launcher(self, program: Program, grid: Any, block: Any, shared_bytes: int) -> Any:
        self.log.append(("prepare", grid, block, shared_bytes))

        def launch(stream: int, *arguments: Any) -> None:
            self.log.append(("launch", stream, arguments))

        return launch

    def create_stream(self) -> int:
        self.log.append(("stream",))
        return 77

    def stream_handle(self, stream: Any) -> int:
        return int(stream)

    def synchronize(self, stream: int | None) -> None:
        self.log.append(("synchronize", stream))

    def create_event(self) -> Any:
        return {}

    def record(self, event: Any, stream: int) -> None:
        self.log.append(("record", stream))

    def wait(self, event: Any, stream: int | None) -> None:
        self.log.append(("wait", stream))

    def is_done(self, event: Any) -> bool:
        return True

    def elapsed(self, start: Any, end: Any) -> float:
        return 1.0

    def pinned(self, nbytes: int) -> Any:
        return np.zeros(nbytes, np.uint8)
