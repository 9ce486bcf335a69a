"""Launches: prepared once, then queued in a few microseconds.

:class:`BoundLaunch` is for parameters of 8 bytes of which only the leading pointers change; a call with the
pointers and the stream of an earlier one writes nothing at all before it asks the driver.  Tensor maps may
lead the parameters, which follow the pointers.  :class:`Launcher` takes any arguments.  Both go to
cuLaunchKernelEx through ctypes, with memory that is laid out once for each launch that is under way: one
buffer of all parameters for a bound launch whose driver tells where its kernel reads them (CUDA 12.4), else
an address of each.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from mxgemm.device import driver
from mxgemm.device.launch_frame import Buffer, Configuration, Frame, Scattered
from mxgemm.device.parameter_layout import first_offset
from mxgemm.device.tensor_map import MAP_BYTES, EncodedMap, TensorMap

if TYPE_CHECKING:
    from mxgemm.device.kernel import CompiledKernel

__all__ = ["BoundLaunch", "Launcher", "launch"]

process = driver.Process  # read at every launch, which a call of check_process would cost a twentieth
_WORD = 8  # bytes of a pointer, a long long and a double
_LAUNCHERS = 1024  # launch configurations kept for one-off launches


class _Prepared:
    """What launches of both kinds share: the kernel, its device, and what a refusal means."""

    __slots__ = ("_configuration", "_several", "kernel")

    def __init__(self, kernel: CompiledKernel, configuration: Configuration) -> None:
        self.kernel, self._configuration = kernel, configuration
        self._several = driver.count() > 1

    def frame(self, parameters: Scattered | Buffer) -> Frame:
        """A frame for parameters that lie there."""
        return Frame(int(self.kernel.handle), self._configuration, parameters)

    def _is_elsewhere(self) -> bool:
        """Whether another device than the kernel's is current in this thread; raise after a fork."""
        driver.check_process()
        return not driver.is_current(self.kernel.ordinal)

    def _must_retry(self, status: int) -> bool:
        """Whether a refused launch is to be repeated with the kernel's device current; raise otherwise."""
        name = driver.status_name(status)
        # With one device, only a thread that never used CUDA lacks a context; nothing was queued.
        if name == "CUDA_ERROR_INVALID_CONTEXT" and not driver.is_current(self.kernel.ordinal):
            return True
        told = (*self._configuration.dimensions, self._configuration.shared_bytes)
        raise driver.DriverError(f"to launch {self.kernel.entry} as {told}", name)


class _Arguments:
    """A layout, and its frames with their memory that no thread is using; list.pop and append are atomic."""

    __slots__ = ("layout", "unused")

    def __init__(self, kinds: tuple[type, ...]) -> None:
        from mxgemm.device.scalar_layout import ScalarLayout  # bound launches need none

        self.layout = ScalarLayout(kinds)
        self.unused: list[tuple[Frame, Any]] = []


class Launcher(_Prepared):
    """A kernel with its launch configuration; calling it queues one launch and does nothing else.

    Parameters
    ----------
    kernel : CompiledKernel
    grid, block : tuple of 1 to 3 ints
        Blocks (with ``cluster``: clusters) and threads.
    cluster : tuple of 1 to 3 ints, optional
        Blocks of a thread-block cluster.
    programmatic : bool
        Let the launch begin while its predecessor in the stream ends (the kernel waits for what it reads).
    """

    __slots__ = ("_layouts",)

    def __init__(
        self,
        kernel: CompiledKernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        *,
        cluster: tuple[int, ...] | None = None,
        programmatic: bool = False,
    ) -> None:
        super().__init__(kernel, Configuration(grid, block, kernel.shared_bytes, cluster, programmatic))
        self._layouts: dict[tuple[type, ...], _Arguments] = {}

    def __call__(self, stream: int, *arguments: Any) -> None:
        """Queue one launch; allocates nothing on the device, compiles nothing and waits for nothing.

        Parameters
        ----------
        stream : int
            A handle.
        *arguments
            Python ints are 8 bytes wide (pointers, ``long long``), floats are ``double``, bools ``bool``;
            other widths are NumPy or ctypes scalars.

        Raises
        ------
        DTypeError
            For an argument of another type.
        DriverError
            When the driver refuses the launch.
        UnsupportedError
            After a fork.
        """
        if (self._several or process.forked) and self._is_elsewhere():
            with driver.on_device(self.kernel.ordinal):
                self(stream, *arguments)
            return
        kinds = tuple(map(type, arguments))
        made = self._layouts.get(kinds)
        if made is None:
            made = self._layouts.setdefault(kinds, _Arguments(kinds))
        try:
            frame, memory = made.unused.pop()
        except IndexError:
            memory = (ctypes.c_byte * made.layout.nbytes)()
            first = ctypes.addressof(memory)
            frame = self.frame(Scattered(made.layout.places(first)))
        made.layout.write(memory, arguments)
        if frame.stream != stream:
            frame.send_to(stream)
        status = frame.launch(*frame.arguments)
        made.unused.append((frame, memory))
        if status and self._must_retry(status):
            with driver.on_device(self.kernel.ordinal):
                self(stream, *arguments)


class _Pointers:
    """The frame of a bound launch with its parameters in one block of memory: maps, pointers, constants.

    Attributes
    ----------
    given : tuple of int or None
        What :meth:`write` was given last.
    """

    __slots__ = ("_buffer", "_maps", "_pack", "_pick", "_values", "frame", "given")

    def __init__(self, launch: BoundLaunch) -> None:
        self._buffer = Buffer(launch.before or 0, sum(launch.sizes))
        *places, _end = accumulate(launch.sizes, initial=self._buffer.first)
        self._maps = [
            (position, EncodedMap(spec, place))
            for (position, spec), place in zip(launch.maps, places, strict=False)
        ]
        words = self._buffer.first + MAP_BYTES * len(launch.maps)
        ctypes.memmove(words, launch.parameters, len(launch.parameters))
        self._values = (ctypes.c_int64 * (len(launch.parameters) // _WORD)).from_address(words)
        self._pack, self._pick = launch.pack, launch.pick
        self.frame = launch.frame(Scattered(places) if launch.before is None else self._buffer)
        self.given: tuple[int, ...] | None = None

    def write(self, given: tuple[int, ...]) -> None:
        """Let the next launches have these pointers, and aim the maps at them; what fails ends this frame."""
        pointers = given if self._pick is None else self._pick(given)
        self._pack(self._values, 0, *pointers)
        for position, made in self._maps:
            made.aim(pointers[position])
        self.given = given


class BoundLaunch(_Prepared):
    """A kernel, its launch configuration and its constant arguments; a call gives the pointers.

    Parameters
    ----------
    kernel : CompiledKernel
        Its parameters: the tensor maps, then values of 8 bytes, first ``pointers`` addresses.
    grid, block : tuple of 1 to 3 ints
    pointers : int
        Number of leading addresses.
    constants : tuple of int or float
        ``long long`` and ``double`` parameters.
    maps : tuple of (int, TensorMap)
        Each with the position among the pointers of the address that it starts at.
    programmatic : bool
        As for :class:`Launcher`.
    pick : callable, optional
        Takes the pointers from what :meth:`queue` is given, where that is something else; it is not asked
        again while that repeats.
    """

    __slots__ = ("_unused", "before", "maps", "pack", "parameters", "pick", "sizes")

    def __init__(  # noqa: PLR0917  # in the driver's order
        self,
        kernel: CompiledKernel,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        pointers: int,
        constants: tuple[int | float, ...],
        maps: tuple[tuple[int, TensorMap], ...] = (),
        *,
        programmatic: bool = False,
        pick: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(kernel, Configuration(grid, block, kernel.shared_bytes, None, programmatic))
        self.maps, self.pick = maps, pick
        self.pack = struct.Struct(f"={pointers}Q").pack_into
        codes = "".join("d" if isinstance(value, float) else "q" for value in constants)
        self.parameters = struct.pack(f"={pointers}Q{codes}", *(0,) * pointers, *constants)
        self.sizes = [MAP_BYTES] * len(maps) + [_WORD] * (pointers + len(constants))
        self.before = first_offset(kernel, self.sizes)
        self._unused: list[_Pointers] = []  # no thread is using these; list.pop and append are atomic

    def fixed(
        self, stream: int, given: tuple[int, ...]
    ) -> tuple[Callable[..., int], tuple[Any, ...], Any] | None:
        """What queues the launch with these pointers on this stream, and nothing else.

        Returns
        -------
        launch : callable
            Returns the driver's status; where that is not 0, nothing was queued, and :meth:`queue` says why.
        arguments : tuple
            Of ``launch``.  What they point to is not written again, so that any number of threads may launch.
        memory : object
            What they point to.

        None where the device must be asked for at each launch, and where the driver refuses a tensor map.
        """
        if self._several:
            return None
        made = _Pointers(self)
        try:
            made.write(given)
        except driver.DriverError:
            return None
        made.frame.send_to(stream)
        return made.frame.launch, made.frame.arguments, made

    def __call__(self, stream: int, *pointers: int) -> None:
        """As :meth:`queue`."""
        self.queue(stream, pointers)

    def queue(self, stream: int, given: tuple[int, ...]) -> None:
        """Queue one launch; allocates nothing on the device, compiles nothing and waits for nothing.

        Parameters
        ----------
        stream : int
            A handle.
        given : tuple of int
            The pointers, or what ``pick`` takes them from.

        Raises
        ------
        DriverError
            When the driver refuses the launch.
        UnsupportedError
            After a fork.
        """
        if (self._several or process.forked) and self._is_elsewhere():
            with driver.on_device(self.kernel.ordinal):
                self.queue(stream, given)
            return
        try:
            one = self._unused.pop()
        except IndexError:
            one = _Pointers(self)
        if one.given is not given and one.given != given:
            try:
                one.write(given)
            except driver.DriverError:
                if driver.is_current(self.kernel.ordinal):
                    raise
                # A thread that never used CUDA lacks the context that encoding a map needs.
                with driver.on_device(self.kernel.ordinal):
                    self.queue(stream, given)
                return
        frame = one.frame
        if frame.stream != stream:
            frame.send_to(stream)
        status = frame.launch(*frame.arguments)
        self._unused.append(one)
        if status and self._must_retry(status):
            with driver.on_device(self.kernel.ordinal):
                self.queue(stream, given)


def launch(
    kernel: CompiledKernel,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    stream: int,
    arguments: tuple[Any, ...],
    *,
    cluster: tuple[int, ...] | None = None,
    maps: tuple[tuple[int, TensorMap], ...] = (),
    pointers: int = 0,
    programmatic: bool = False,
) -> None:
    """Queue one launch; the configuration is kept for the next one like it.

    As :class:`Launcher`, or, with ``maps``, as :class:`BoundLaunch` with ``pointers`` leading addresses.
    """
    if maps:
        constants = _Exactly(arguments[pointers:])
        bound = _bound_launch(_Identity(kernel), grid, block, pointers, constants, maps, programmatic)
        bound(stream, *arguments[:pointers])
    else:
        _launcher(_Identity(kernel), grid, block, cluster, programmatic)(stream, *arguments)


class _Identity:
    """A kernel as a cache key by identity, which costs no hashing of its source."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: CompiledKernel) -> None:
        self.kernel = kernel

    def __hash__(self) -> int:
        return id(self.kernel)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.kernel is self.kernel


class _Exactly:
    """Constants as a cache key by class and bits (NaNs are one): 0.0 equals -0.0, and 1 equals 1.0."""

    __slots__ = ("_words", "values")

    def __init__(self, values: tuple[int | float, ...]) -> None:
        self.values, self._words = values, repr(values)

    def __hash__(self) -> int:
        return hash(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exactly) and other._words == self._words


@lru_cache(maxsize=_LAUNCHERS)
def _launcher(
    kernel: _Identity,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    cluster: tuple[int, ...] | None,
    programmatic: bool,
) -> Launcher:
    return Launcher(kernel.kernel, grid, block, cluster=cluster, programmatic=programmatic)


@lru_cache(maxsize=_LAUNCHERS)
def _bound_launch(  # noqa: PLR0917  # a key of the cache, in BoundLaunch's order
    kernel: _Identity,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    pointers: int,
    constants: _Exactly,
    maps: tuple[tuple[int, TensorMap], ...],
    programmatic: bool,
) -> BoundLaunch:
    return BoundLaunch(
        kernel.kernel, grid, block, pointers, constants.values, maps, programmatic=programmatic
    )
