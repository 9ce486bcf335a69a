"""Functions under ``@cuda.jit``: specialisations by argument types, configured launches."""

from __future__ import annotations

import functools
import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from mxgemm.errors import DTypeError, UnsupportedError
from mxgemm.lang import arguments as args
from mxgemm.lang.backend import Backend, CompileChoices, Program
from mxgemm.lang.cuda_source import cuda_source
from mxgemm.lang.device_array import DeviceArray
from mxgemm.lang.passes import build
from mxgemm.lang.refused import REFUSED_OF_KERNELS, RefusedNameError
from mxgemm.lang.runtime import current
from mxgemm.lang.signatures import Signature
from mxgemm.lang.source import KernelSource
from mxgemm.lang.streams import handle_of
from mxgemm.lang.types import Scalar, Type, int64

if TYPE_CHECKING:
    from collections.abc import Callable

    from mxgemm.lang import ir

__all__ = ["CudaFunction", "Launch"]

#: Where an argument is found: −1 is the value itself, else an index into ``DeviceArray.words``.
_WORD: Final = {"value": -1, "array": 0, "pointer": 1}
#: Threads a block that ``forall`` uses: whole warps, and a divisor of every multiprocessor's threads.
_FORALL_THREADS: Final = 256
#: CUDA's limits along x, y, z (Programming Guide, "Compute Capabilities"), the same for every architecture.
_LARGEST: Final = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64)}


@dataclass
class _Ready:
    """A specialisation for one launch configuration: what to call and how to gather its words."""

    launch: Callable[..., None]
    gather: tuple[tuple[int, int], ...]
    integers: tuple[int, ...]
    converts: bool
    written: frozenset[int]
    declared: tuple[Type, ...]


@dataclass(frozen=True)
class _OnBackend:
    """What a launch keeps for one backend: ``quick`` by numbers and classes, ``ready`` by types."""

    stream: int
    quick: dict[Any, _Ready] = field(default_factory=dict)
    ready: dict[tuple[Type, ...], _Ready] = field(default_factory=dict)


@dataclass
class _Cache:
    """What a function has made so far, by argument types and backend."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    kernels: dict[tuple[Type, ...], ir.Kernel] = field(default_factory=dict)
    programs: dict[tuple[str, tuple[Type, ...]], Program] = field(default_factory=dict)
    launches: dict[Any, Launch] = field(default_factory=dict)


class CudaFunction:
    """A kernel, or a device function that kernels call.

    ``kernel[grid, block](*args)``, ``kernel[grid, block, stream, shared_bytes](*args)`` and
    ``kernel.forall(n)(*args)`` launch; ``kernel.plain[…]`` launches it exactly as written.
    """

    is_mxgemm_function = True

    def __init__(
        self,
        function: Callable[..., Any],
        signatures: tuple[Signature, ...],
        choices: CompileChoices,
        *,
        device: bool,
    ) -> None:
        self.__name__ = function.__name__
        functools.update_wrapper(self, function)
        self.py_func = function
        self.source_view = KernelSource(function)
        self.signatures = signatures
        self.choices = choices
        self.device = device
        self._cache = _Cache()
        if not device:
            for signature in signatures:
                self._kernel(signature.arguments)

    def __repr__(self) -> str:
        return f"<{'device function' if self.device else 'kernel'} {self.__name__}>"

    def __call__(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        """Refused: a kernel needs a launch configuration, and device functions are called by kernels."""
        if self.device:
            raise UnsupportedError(
                f"{self.__name__} is a device function; kernels call it, host code does not"
            )
        raise UnsupportedError(f"a kernel needs a launch configuration: {self.__name__}[grid, block](…)")

    def __getitem__(self, configuration: Any) -> Launch:
        """``kernel[grid, block(, stream(, shared bytes))]``."""
        try:
            return self._cache.launches[configuration]
        except (KeyError, TypeError):
            return self._configure(configuration)

    def _configure(self, configuration: Any) -> Launch:
        if self.device:
            raise UnsupportedError(f"{self.__name__} is a device function and cannot be launched")
        parts = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(parts) <= 4:
            raise UnsupportedError(
                f"{self.__name__}[{', '.join(map(repr, parts))}]: a launch is kernel[grid, block], with a "
                "stream and the shared bytes after them where they are wanted"
            )
        stream = parts[2] if len(parts) > 2 else 0
        shared = parts[3] if len(parts) > 3 else 0
        if isinstance(shared, bool) or not hasattr(shared, "__index__") or shared < 0:
            raise DTypeError(f"shared bytes are a non-negative integer, not {shared!r}")
        grid, block = _triple(parts[0], "grid"), _triple(parts[1], "block")
        if block[0] * block[1] * block[2] > _LARGEST["block"][0]:
            raise UnsupportedError(f"a block of {parts[1]!r} threads; CUDA allows {_LARGEST['block'][0]}")
        launch = Launch(self, grid, block, stream, int(shared))
        try:
            if len(self._cache.launches) < 1024:
                self._cache.launches[configuration] = launch
        except TypeError:  # lists as grid or block are allowed and cannot be keys
            pass
        return launch

    @property
    def plain(self) -> CudaFunction:
        """The kernel as written; its launches are never rewritten."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """What Numba's kernels have and these have not is refused by name."""
        if name not in REFUSED_OF_KERNELS:
            raise AttributeError(f"a function under @cuda.jit has no attribute {name!r}")
        raise RefusedNameError(f"{self.__name__}.{name} is not supported: {REFUSED_OF_KERNELS[name]}")

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> Callable[..., None]:
        """A launch over ``ntasks`` threads in blocks of ``tpb`` (0: chosen here)."""
        for word, count in (("tasks", ntasks), ("threads a block", tpb)):
            if not hasattr(count, "__index__") or count < 0:
                raise DTypeError(f"forall takes a number of {word} that is 0 or more, not {count!r}")
        if ntasks == 0:
            return lambda *_arguments: None
        threads = tpb or _FORALL_THREADS
        return self[(ntasks + threads - 1) // threads, threads, stream, sharedmem]

    def specialize(self, *arguments: Any) -> CudaFunction:
        """Return this kernel for the types of ``arguments`` alone."""
        types = tuple(args.prepare(current(), arguments, current().default_stream).types)
        return CudaFunction(self.py_func, (Signature(types),), self.choices, device=False)

    def _kernel(self, types: tuple[Type, ...]) -> ir.Kernel:
        with self._cache.lock:
            if types not in self._cache.kernels:
                self._cache.kernels[types] = build(self.source_view, types)
            return self._cache.kernels[types]

    def program(self, backend: Backend, types: tuple[Type, ...]) -> Program:
        """The specialisation for ``types`` on ``backend``, made once."""
        with self._cache.lock:
            key = (backend.name, types)
            if key not in self._cache.programs:
                self._cache.programs[key] = backend.program(self._kernel(types), self.choices)
            return self._cache.programs[key]

    def resolve(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types to specialise for: the arguments' own, or those of the signature that fits."""
        if not self.signatures:
            return types
        refused: list[str] = []
        exact = [s for s in self.signatures if s.arguments == types]
        for signature in exact or self.signatures:
            if len(signature.arguments) != len(types):
                refused.append(f"it takes {len(signature.arguments)} arguments")
                continue
            try:
                return tuple(
                    args.coerce(t, d, i)
                    for i, (t, d) in enumerate(zip(types, signature.arguments, strict=True))
                )
            except DTypeError as error:
                refused.append(str(error))
        raise DTypeError(f"{self.__name__}: no signature fits: {'; '.join(refused)}")

    def ir(self, types: Any = None) -> ir.Kernel:
        """The checked IR of a specialisation; ``str()`` prints it.

        Parameters
        ----------
        types
            Argument types as a signature states them; may be left out when there is one specialisation.
        """
        return self._kernel(self._only(types))

    def source(self, arch: str | None = None, types: Any = None) -> str:
        """The CUDA C of a specialisation, the same for every architecture.

        Parameters
        ----------
        arch
            As NVRTC takes it; a comment names it.
        types
            As for ``ir``.

        Raises
        ------
        UnsupportedError
            For text that names no architecture.
        """
        if arch is not None and re.fullmatch(r"(sm|compute)_\d{2,3}[af]?", arch) is None:
            raise UnsupportedError(f"{arch!r} is no architecture; they are written sm_80, sm_90a")
        text = cuda_source(self._kernel(self._only(types)), self.choices.launch_bounds).text
        return text if arch is None else f"// {arch}\n{text}"

    def _only(self, types: Any) -> tuple[Type, ...]:
        from mxgemm.lang.signatures import parse

        if types is not None:
            return parse(types)[0].arguments
        known = list(self._cache.kernels)
        if len(known) != 1:
            listed = "; ".join(f"({', '.join(map(str, k))})" for k in known) or "none yet"
            raise UnsupportedError(
                f"{self.__name__} has {len(known)} specialisations ({listed}); say which with types="
            )
        return known[0]


class Launch:
    """A kernel with its launch configuration; calling it launches at once."""

    __slots__ = ("_states", "block", "function", "grid", "shared_bytes", "stream")

    def __init__(
        self,
        function: CudaFunction,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        stream: Any,
        shared_bytes: int,
    ) -> None:
        self.function, self.grid, self.block = function, grid, block
        self.stream, self.shared_bytes = stream, shared_bytes
        self._states: dict[Backend, _OnBackend] = {}

    def __call__(self, *arguments: Any) -> None:
        """Launch; device arrays are used in place, host arrays are copied in, and back when written."""
        backend = current()
        state = self._states.get(backend) or self._enter(backend)
        # Type numbers tell array types and backends apart, classes tell scalars apart.
        key = tuple([a.type_number if a.__class__ is DeviceArray else a.__class__ for a in arguments])
        ready = state.quick.get(key)
        if ready is None:
            self._general(backend, state, arguments, key)
            return
        for position in ready.integers:
            if not -9223372036854775808 <= arguments[position] < 9223372036854775808:
                self._general(backend, state, arguments, None)
                return
        ready.launch(
            state.stream, *[arguments[p] if i < 0 else arguments[p].words[i] for p, i in ready.gather]
        )

    def _enter(self, backend: Backend) -> _OnBackend:
        """Start with nothing prepared on ``backend``."""
        return self._states.setdefault(backend, _OnBackend(handle_of(backend, self.stream)))

    def _general(self, backend: Backend, state: _OnBackend, arguments: tuple[Any, ...], key: Any) -> None:
        """Launch with any arguments; when they are plain, the next launch like this is quick."""
        prepared = args.prepare(backend, arguments, state.stream)
        types = tuple(prepared.types)
        ready = state.ready.get(types)
        if ready is None:
            ready = state.ready[types] = self._prepare(backend, types)
        plain = all(type(a) is DeviceArray or type(a) in args.SCALAR_CLASSES for a in arguments)
        if plain and key is not None and not ready.converts:
            state.quick[key] = ready
        args.check_written(prepared, ready.written)
        words = list(prepared.words)
        for position, declared in enumerate(ready.declared):
            if isinstance(declared, Scalar):
                words[position] = (args.scalar_word(words[position][0], declared, position),)
        ready.launch(state.stream, *[words[p][max(i, 0)] for p, i in ready.gather])
        for position, host, copy in prepared.copies:
            if position in ready.written:
                copy.copy_to_host(host)

    def _prepare(self, backend: Backend, types: tuple[Type, ...]) -> _Ready:
        function = self.function
        declared = function.resolve(types)
        program = function.program(backend, declared)
        launch = backend.launcher(program, self.grid, self.block, self.shared_bytes)
        ndims = [getattr(t, "ndim", 0) for t in declared]
        gather = tuple((a.position, _word(a.what, a.axis, ndims[a.position])) for a in program.arguments)
        scalars = [
            (i, t, d) for i, (t, d) in enumerate(zip(types, declared, strict=True)) if isinstance(d, Scalar)
        ]
        integers = tuple(i for i, t, _ in scalars if t == int64)
        # Python's numbers travel 8 bytes wide and NumPy's as they are; other types are converted each time.
        converts = any(t != d or (d.is_float and d.bits == 16) for _, t, d in scalars)
        names = [name for name, _ in program.kernel.parameters]
        written = frozenset(names.index(name) for name in program.kernel.written)
        return _Ready(launch, gather, integers, converts, written, declared)


def _word(what: str, axis: int, ndim: int) -> int:
    if what in _WORD:
        return _WORD[what]
    return 2 + axis + (ndim if what == "stride" else 0)


def _triple(value: Any, word: str) -> tuple[int, int, int]:
    """A grid or block as three extents."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(parts) <= 3 or any(np.ndim(p) or not hasattr(p, "__index__") for p in parts):
        raise DTypeError(f"a {word} is one to three integers, not {value!r}")
    extents = [int(p) for p in parts] + [1] * (3 - len(parts))
    if min(extents) < 1:
        raise UnsupportedError(f"the extents of a {word} are at least 1, not {value!r}")
    if any(extent > limit for extent, limit in zip(extents, _LARGEST[word], strict=True)):
        raise UnsupportedError(f"a {word} of {value!r}; CUDA allows {_LARGEST[word]} along x, y, z")
    return extents[0], extents[1], extents[2]
