"""The host side of launches on a fake backend: what is compiled, copied and passed, and when."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mxgemm import cuda
from mxgemm.errors import DTypeError, KernelSyntaxError, ShapeError, UnsupportedError
from mxgemm.lang.refused import REFUSED_OF_KERNELS
from mxgemm.lang.runtime import use
from tests.lang.fake_backend import FakeBackend
from tests.lang.running import function

AXPY = "def kernel(a, x, y):\n    i = cuda.grid(1)\n    if i < y.size:\n        y[i] = a * x[i] + y[i]\n"


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    with use(FakeBackend()) as backend:
        assert isinstance(backend, FakeBackend)
        yield backend


def launches(fake: FakeBackend) -> list[tuple[Any, ...]]:
    return [entry[1:] for entry in fake.log if entry[0] == "launch"]


def test_a_launch_passes_scalars_pointers_and_the_extents_that_are_read(fake: FakeBackend) -> None:
    x, y = cuda.to_device(np.ones(5)), cuda.device_array(7)
    cuda.jit(function(AXPY))[2, 32](2.5, x, y)
    stream, arguments = launches(fake)[0]
    assert stream == 1
    assert arguments == (2.5, x.memory.pointer, y.memory.pointer, 7)


def test_a_second_launch_of_the_same_types_compiles_nothing(fake: FakeBackend) -> None:
    x, y, z = (cuda.device_array(8) for _ in range(3))
    kernel = cuda.jit(function(AXPY))
    for pair in ((x, y), (y, z), (z, x)):
        kernel[1, 32](1.0, *pair)
    assert (fake.count("program"), fake.count("prepare"), fake.count("launch")) == (1, 1, 3)
    kernel[2, 32](1.0, x, y)
    assert (fake.count("program"), fake.count("prepare")) == (1, 2)


def test_a_warmed_launch_passes_what_the_first_one_did(fake: FakeBackend) -> None:
    kernel, x = cuda.jit(function(AXPY)), cuda.device_array(8)
    for value in (3, 2.5, np.float32(3), np.uint8(3), True):
        for _ in range(3):
            kernel[1, 32](value, x, x)
    passed = [arguments for _, arguments in launches(fake)]
    assert passed[::3] == passed[1::3] == passed[2::3]
    kernel[1, 32](2**63, x, x)  # an int that is uint64 does not take the int64 kernel
    assert np.asarray(launches(fake)[-1][1][0]).dtype == np.uint64


def test_threads_on_two_backends_keep_to_their_own() -> None:
    kernel = cuda.jit(function(AXPY))
    backends = FakeBackend(), FakeBackend()
    for backend in backends * 3:
        with use(backend):
            x = cuda.device_array(8)
            kernel[1, 32](1.0, x, x)
    assert [backend.count("launch") for backend in backends] == [3, 3]
    with use(backends[0]):
        theirs = cuda.device_array(8)
    with use(backends[1]), pytest.raises(UnsupportedError, match="cannot be used on"):
        kernel[1, 32](1.0, theirs, theirs)


def test_other_types_and_layouts_are_other_specialisations(fake: FakeBackend) -> None:
    kernel = cuda.jit(function(AXPY))
    x = cuda.device_array(8)
    kernel[1, 32](1.0, x, x)
    kernel[1, 32](1, x, x)
    kernel[1, 32](1.0, x[::2], x)
    kernel[1, 32](1.0, cuda.device_array(8, np.float32), x)
    assert fake.count("program") == 4


def test_scalars_have_numbas_types_and_their_own_width(fake: FakeBackend) -> None:
    x = cuda.device_array(8)
    kernel = cuda.jit(function(AXPY))
    for value in (3, 3.0, np.float32(3), np.int16(3), True, np.uint64(3), 2**63, np.float16(3)):
        kernel[1, 32](value, x, x)
    passed = [arguments[0] for _, arguments in launches(fake)]
    kinds = [np.asarray(v).dtype.name for v in passed]
    assert kinds == ["int64", "float64", "float32", "int16", "bool", "uint64", "uint64", "uint16"]
    assert passed[-1] == np.float16(3).view(np.uint16)


def test_host_arrays_are_copied_in_and_only_written_ones_back(fake: FakeBackend) -> None:
    x, y = np.arange(8.0), np.zeros(8)
    cuda.jit(function(AXPY))[1, 32](1.0, x, y)
    assert (fake.count("in"), fake.count("out")) == (2, 1)


def test_one_host_array_passed_twice_is_one_device_array(fake: FakeBackend) -> None:
    y = np.zeros(8)
    cuda.jit(function(AXPY))[1, 32](1.0, y, y)
    assert fake.count("in") == 1
    _, arguments = launches(fake)[0]
    assert arguments[1] == arguments[2]


@pytest.mark.usefixtures("fake")
def test_overlapping_host_arrays_are_refused_only_when_one_is_written() -> None:
    y = np.zeros(9)
    with pytest.raises(ShapeError, match="share host memory"):
        cuda.jit(function(AXPY))[1, 32](1.0, y[:-1], y[1:])
    text = "def kernel(x, y, z):\n    z[0] = x[0] + y[0]\n"
    cuda.jit(function(text))[1, 32](y[:-1], y[1:], np.zeros(1))


@pytest.mark.usefixtures("fake")
def test_a_host_array_with_gaps_comes_back_in_place() -> None:
    whole = np.arange(12.0)
    cuda.jit(function(AXPY))[1, 32](1.0, np.zeros(4), whole[::3])
    assert whole.tolist() == list(range(12))


def test_streams_shared_bytes_and_grids_reach_the_launch(fake: FakeBackend) -> None:
    stream = cuda.stream()
    x = cuda.device_array(8)
    kernel = cuda.jit(function(AXPY))
    kernel[(2, 3), (4, 5, 6), stream, 64](1.0, x, x)
    kernel[1, 1, 99](1.0, x, x)
    assert ("prepare", (2, 3, 1), (4, 5, 6), 64) in fake.log
    assert [stream for stream, _ in launches(fake)] == [77, 99]
    with stream.auto_synchronize():
        pass
    assert fake.log[-1] == ("synchronize", 77)


def test_forall_covers_every_task(fake: FakeBackend) -> None:
    x = cuda.device_array(1000)
    kernel = cuda.jit(function(AXPY))
    kernel.forall(1000)(1.0, x, x)
    kernel.forall(1000, tpb=100)(1.0, x, x)
    kernel.forall(0)(1.0, x, x)
    grids = [entry[1][0] * entry[2][0] for entry in fake.log if entry[0] == "prepare"]
    assert grids == [1024, 1000]


@pytest.mark.parametrize("arguments", [(-1,), (3.5,), (3, -2), (3, 2.0)])
def test_forall_takes_whole_numbers(arguments: Any) -> None:
    with pytest.raises(DTypeError, match="0 or more"):
        cuda.jit(function(AXPY)).forall(*arguments)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    "configuration",
    [
        (1,), (1, 2, 3, 4, 5), (0, 1), (1, 0), (1.5, 1), ((1, 2, 3, 4), 1), (1, 1, 0, -1),
        (1, np.array([32])), (1, (1, 1, 65)), (1, (33, 32)), (1, 1025),
        ((1, 65536), 1), ((1, 1, 65536), 1), (2**31, 1),
    ],
)  # fmt: skip
def test_bad_launch_configurations_are_refused(configuration: Any) -> None:
    with pytest.raises((UnsupportedError, DTypeError)):
        cuda.jit(function(AXPY))[configuration]


def test_calls_without_configuration_and_of_device_functions_say_what_to_do() -> None:
    with pytest.raises(UnsupportedError, match=r"kernel\[grid, block\]"):
        cuda.jit(function(AXPY))(1, 2, 3)
    with pytest.raises(UnsupportedError, match="device function"):
        cuda.jit(function(AXPY), device=True)(1, 2, 3)
    with pytest.raises(UnsupportedError, match="device function"):
        cuda.jit(function(AXPY), device=True)[1, 1]


@pytest.mark.parametrize(
    "signature",
    [
        "void(float64, float32[:], float64[:])",
        "(f8, f4[:], f8[:])",
        (cuda.float64, cuda.float32[:], cuda.float64[:]),
    ],
)
def test_signatures_convert_scalars_and_check_arrays(fake: FakeBackend, signature: Any) -> None:
    kernel = cuda.jit(signature)(function(AXPY))
    x, y = cuda.device_array(8, np.float32), cuda.device_array(8)
    kernel[1, 32](3, x, y)
    assert launches(fake)[0][1][0] == np.float64(3)
    with pytest.raises(DTypeError, match="no signature fits"):
        kernel[1, 32](3, y, y)


@pytest.mark.parametrize("value", [2.7, np.float32(2), 2**31, -(2**31) - 1, np.int64(2**40), 2**63])
def test_a_number_that_an_integer_parameter_cannot_hold_is_refused(fake: FakeBackend, value: Any) -> None:
    kernel = cuda.jit("void(int32, int32[:])")(function("def kernel(n, x):\n    x[0] = n\n"))
    x = cuda.device_array(8, np.int32)
    with pytest.raises(DTypeError, match="the signature"):
        kernel[1, 1](value, x)
    for fits in (2**31 - 1, -(2**31), True, np.uint8(3)):
        kernel[1, 1](fits, x)
    assert [int(arguments[0]) for _, arguments in launches(fake)] == [2**31 - 1, -(2**31), 1, 3]


@pytest.mark.parametrize(
    "signature", ["float32(float32[:])", cuda.int32(cuda.float32[:]), ["void(f4[:])", "f4(f8[:])"]]
)
def test_a_kernel_that_is_declared_to_return_something_is_refused(signature: Any) -> None:
    with pytest.raises(TypeError, match="a kernel returns nothing"):
        cuda.jit(signature)


def test_a_read_only_host_array_is_refused_only_when_it_is_written(fake: FakeBackend) -> None:
    kernel, y = cuda.jit(function(AXPY)), np.zeros(8)
    frozen = np.zeros(8)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="argument 2 is a read-only array"):
        kernel[1, 32](1.0, y, frozen)
    kernel[1, 32](1.0, frozen, y)
    assert fake.count("launch") == 1


def test_a_list_of_signatures_picks_the_exact_one(fake: FakeBackend) -> None:
    kernel = cuda.jit(
        ["void(float64, float64[::1], float64[::1])", "void(int64, float64[::1], float64[::1])"]
    )(function(AXPY))
    x = cuda.device_array(8)
    kernel[1, 32](3, x, x)
    assert np.asarray(launches(fake)[0][1][0]).dtype == np.int64


def test_a_signature_finds_refused_source_at_definition() -> None:
    with pytest.raises(KernelSyntaxError):
        cuda.jit("void(float64[:])")(function("def kernel(x):\n    x[0] = [1]\n"))


@pytest.mark.usefixtures("fake")
def test_arguments_that_are_no_numbers_or_arrays_are_refused() -> None:
    kernel = cuda.jit(function("def kernel(x):\n    pass\n"))
    for value in ("text", None, [1, 2], 1j, object()):
        with pytest.raises(TypeError, match="supported"):
            kernel[1, 1](value)
    with pytest.raises(TypeError, match="takes 1 arguments"):
        kernel[1, 1](1, 2)


def test_options_reach_the_compiler_and_unknown_ones_are_refused(fake: FakeBackend) -> None:
    x = cuda.device_array(8)
    cuda.jit(fma=True, fastmath=True, max_registers=40, launch_bounds=(256, 2))(function(AXPY))[1, 32](
        1.0, x, x
    )
    choices = next(entry[2] for entry in fake.log if entry[0] == "program")
    assert (choices.fma, choices.fastmath, choices.max_registers, choices.launch_bounds) == (
        True,
        True,
        40,
        (256, 2),
    )
    for option in ("debug", "lineinfo", "advice", "boundscheck"):
        with pytest.raises(UnsupportedError, match=option):
            cuda.jit(**{option: True})
    with pytest.raises(TypeError, match="no option"):
        cuda.jit(quick=True)
    cuda.jit(cache=True, inline="always", opt=True)


@pytest.mark.parametrize(
    "option",
    [
        {"fastmath": {"nnan"}}, {"fma": 1}, {"device": "yes"}, {"max_registers": "40"}, {"max_registers": 0},
        {"launch_bounds": (0,)},
        {"launch_bounds": "256"}, {"launch_bounds": (1, 2, 3)}, {"launch_bounds": -1},
    ],
    ids=str,
)  # fmt: skip
def test_options_of_another_kind_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(DTypeError, match=next(iter(option))):
        cuda.jit(**option)


@pytest.mark.parametrize("name", sorted(REFUSED_OF_KERNELS))
def test_what_numbas_kernels_have_and_these_have_not_is_refused_by_name(name: str) -> None:
    kernel = cuda.jit(function(AXPY))
    with pytest.raises(UnsupportedError, match=rf"kernel\.{name} is not supported"):
        getattr(kernel, name)
    assert not hasattr(kernel, name)


def test_tools_that_walk_attributes_get_through_a_kernel() -> None:
    import inspect

    assert "py_func" in dict(inspect.getmembers(cuda.jit(function(AXPY))))


def test_outcome_is_refused_by_name_and_plain_launches(fake: FakeBackend) -> None:
    kernel = cuda.jit(function(AXPY))
    with pytest.raises(UnsupportedError, match="outcome"):
        _ = kernel.outcome
    x = cuda.device_array(8)
    kernel.plain[1, 32](1.0, x, x)
    assert fake.count("launch") == 1


@pytest.mark.usefixtures("fake")
def test_ir_and_source_need_types_unless_there_is_one_specialisation() -> None:
    kernel = cuda.jit(function(AXPY))
    with pytest.raises(UnsupportedError, match="0 specialisations"):
        kernel.source()
    assert "float y" not in kernel.source("sm_90", types="(f8, f4[::1], f4[::1])")
    assert kernel.source("sm_90").startswith("// sm_90\n")
    assert "kernel kernel(" in str(kernel.ir())
    kernel.ir("(f4, f4[::1], f4[::1])")
    with pytest.raises(UnsupportedError, match="2 specialisations"):
        kernel.ir()
    with pytest.raises(UnsupportedError, match="no architecture"):
        kernel.source("hopper", types="(f4, f4[::1], f4[::1])")


def test_threads_share_one_specialisation() -> None:
    from concurrent.futures import ThreadPoolExecutor

    backend = FakeBackend()
    kernel = cuda.jit(function(AXPY))

    def launch(_: int) -> None:
        with use(backend):
            x = cuda.device_array(8)
            kernel[1, 32](1.0, x, x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(launch, range(32)))
    assert (backend.count("program"), backend.count("launch")) == (1, 32)
