"""Device arrays of every library: where they are, on which stream, and what is refused."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxgemm import array, array_dlpack, array_torch, device
from mxgemm.array import ArrayView
from mxgemm.errors import DTypeError, MxgemmError, ShapeError, UnsupportedError
from tests.device.fake_cupy import FakeCupy, ndarray


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    """CuPy, as far as mxgemm knows."""
    made = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", made)  # type: ignore[arg-type]  # the face is enough
    return made


def interface(x: np.ndarray[Any, Any], **changes: Any) -> SimpleNamespace:
    """An object with ``__cuda_array_interface__`` that describes ``x`` at a device address."""
    said = {
        "data": (0x20000, False),
        "shape": x.shape,
        "typestr": x.dtype.str,
        "strides": x.strides,
        "version": 3,
    }
    return SimpleNamespace(__cuda_array_interface__={**said, **changes})


def on_cuda(x: np.ndarray[Any, Any], dtype: str, ordinal: int = 1) -> array_dlpack.Exporter:
    """An object with ``__dlpack__`` that describes ``x`` at a device address."""
    strides = tuple(s // x.itemsize for s in x.strides)
    found = ArrayView("other", "cuda", ordinal, 0x30000, x.shape, strides, dtype, None)
    return array_dlpack.Exporter(found, lambda _stream: None)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.float64])
def test_cupy_arrays_are_seen_in_place(dtype: Any) -> None:
    x = ndarray(np.zeros((4, 6), dtype)[::-1, ::2], 0x10000, 1)
    found = array.view(x)
    assert (found.library, found.backend, found.pointer, found.strides) == (
        "cupy",
        "cuda:1",
        0x10000,
        (-6, 2),
    )
    assert found.owner is x
    assert found.host is None


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (ndarray(np.zeros((2, 2), complex)), DTypeError, "complex128"),
        (ndarray(np.zeros((2, 2), np.float32), 0x10002), UnsupportedError, "no multiple of its 4-byte"),
        (ndarray(np.zeros((2, 3), np.dtype([("f", "i1"), ("x", "f4")]))["x"]), UnsupportedError, "strides"),
    ],
)
def test_cupy_arrays_without_a_product_are_refused(x: ndarray, error: type[MxgemmError], words: str) -> None:
    with pytest.raises(error, match=words):
        array.view(x)


def test_cupy_on_rocm_is_refused(cupy: FakeCupy) -> None:
    cupy.cuda.runtime.is_hip = True
    with pytest.raises(UnsupportedError, match="ROCm"):
        array.view(ndarray(np.zeros((2, 2))))


@pytest.mark.usefixtures("cupy")
def test_a_fingerprint_holds_the_facts_and_not_the_pointer() -> None:
    first, second = ndarray(np.zeros((2, 3))), ndarray(np.zeros((2, 3)), 0x50000)
    array.view(first)
    (pointer, facts), (other, same) = array.fingerprint(first), array.fingerprint(second)
    assert (pointer, other) == (0x10000, 0x50000)
    assert facts == same
    different = (np.zeros((3, 2)), np.zeros((2, 3), np.float32), np.zeros((3, 2)).T)
    for like in different:
        assert array.fingerprint(ndarray(like))[1] != facts
    assert array.fingerprint(ndarray(np.zeros((2, 3)), ordinal=1))[1] != facts
    assert array.fingerprint(np.zeros((2, 3)))[1] is None


@pytest.mark.usefixtures("cupy")
def test_three_fingerprints_at_once_are_those_one_by_one() -> None:
    first = ndarray(np.zeros((2, 3)), 0x10000)
    second, third = ndarray(np.zeros((3, 2), np.float32), 0x50000), ndarray(np.zeros((4, 3)).T, 0x60000, 1)
    singles = [array.fingerprint(one) for one in (first, second, third)]
    *pointers, facts = array.LIBRARIES[ndarray].fingerprints(first, second, third)
    assert pointers == [pointer for pointer, _ in singles]
    assert facts == sum((found for _, found in singles if found), ())


def test_a_result_is_allocated_on_the_device_and_for_the_stream(cupy: FakeCupy) -> None:
    like = array.view(ndarray(np.zeros((2, 2)), ordinal=1))
    made = array.empty_like_owner(like, (3, 4), "bfloat16", stream=0x99)
    assert isinstance(array.deliver(made), ndarray)
    assert (made.dtype, made.shape, made.strides) == ("bfloat16", (3, 4), (4, 1))
    assert cupy.entered == [("device", 1), ("stream", 0x99, 1)]


def test_a_result_for_the_current_stream_changes_no_stream(cupy: FakeCupy) -> None:
    like = array.view(ndarray(np.zeros((2, 2)), ordinal=1))
    array.empty_like_owner(like, (3, 4), "float32", stream=0x88)
    assert cupy.entered == [("device", 1)]


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_what_is_no_array_of_its_library_has_no_fingerprint(library: str) -> None:
    cls = type("dtype", (), {"__module__": library})
    assert array.fingerprint(cls()) == (0, None)
    assert array.LIBRARIES[cls].fingerprints(cls(), cls(), cls()) == (0, 0, 0, None)


def test_arrays_of_other_libraries_have_no_fingerprints() -> None:
    x = np.zeros((2, 2))
    assert array.LIBRARIES[np.ndarray].fingerprints(x, x, x) == (0, 0, 0, None)


def test_results_of_repeated_calls_are_made_without_changing_the_device(cupy: FakeCupy) -> None:
    like = array.view(ndarray(np.zeros((2, 2)), ordinal=1))
    allocate = array.allocator(like, (3, 4), "bfloat16")
    cupy.current_device = 1
    result, pointer = allocate(None)
    made = array.view(result)
    assert (made.dtype, made.shape, made.strides, cupy.entered) == ("bfloat16", (3, 4), (4, 1), [])
    assert pointer == made.pointer
    cupy.current_device = 0
    assert array.view(allocate(None)[0]).shape == (3, 4)
    assert cupy.entered == [("device", 1)]


def test_a_current_stream_is_read_anew_each_time(cupy: FakeCupy) -> None:
    read = array.stream_reader(array.view(ndarray(np.zeros((2, 2)), ordinal=1)))
    assert read is not None
    assert read() == 0x88
    cupy.current[1] = 0
    assert read() == device.LEGACY
    assert array.stream_reader(array.view(np.zeros((2, 2)))) is None


@pytest.mark.usefixtures("cupy")
def test_an_element_type_that_cupy_lacks_is_named() -> None:
    like = array.view(ndarray(np.zeros((2, 2))))
    with pytest.raises(DTypeError, match=r"CuPy 0\.fake.*float8_e5m2"):
        array.empty_like_owner(like, (3, 4), "float8_e5m2")


@pytest.mark.usefixtures("fake")
def test_the_interface_is_read_with_its_device_and_stream() -> None:
    found = array.view(interface(np.zeros((4, 6), np.int8).T, stream=0x44))
    assert (found.backend, found.pointer, found.dtype, found.strides) == ("cuda:1", 0x20000, "int8", (1, 6))
    assert found.stream == 0x44
    rows = array.view(interface(np.zeros((4, 6)), strides=None))
    assert (rows.strides, rows.stream) == ((6, 1), None)


@pytest.mark.usefixtures("fake")
def test_an_empty_array_needs_no_address() -> None:
    found = array.view(interface(np.zeros((0, 6)), data=(0, False)))
    assert (found.shape, found.pointer, found.ordinal) == ((0, 6), 0, 0)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (interface(np.zeros((2, 2)), mask=object()), UnsupportedError, "mask"),
        (interface(np.zeros((2, 2), ">f4")), UnsupportedError, "byte-swapped"),
        (interface(np.zeros((2, 2)), typestr="<V2"), DTypeError, "V2"),
        (interface(np.zeros((2, 2)), data=(0x20000, True)), UnsupportedError, "read-only"),
        (interface(np.zeros((2, 2)), data=(0, False)), UnsupportedError, "no memory"),
    ],
)
def test_what_the_interface_says_is_refused(x: object, error: type[MxgemmError], words: str) -> None:
    with pytest.raises(error, match=words):
        array.view(x, "out", writable=True)


@pytest.mark.parametrize("dtype", array.DTYPES)
def test_dlpack_on_cuda_is_seen_in_place(dtype: str) -> None:
    x = np.zeros((4, 6), array.numpy_dtype(dtype)).T
    found = array.view(on_cuda(x, dtype))
    assert (found.backend, found.pointer, found.dtype) == ("cuda:1", 0x30000, dtype)
    assert (found.shape, found.strides, found.stream) == ((6, 4), (1, 6), device.LEGACY)


def test_dlpack_is_asked_to_be_ready_on_the_stream_that_the_view_names() -> None:
    asked: list[int | None] = []
    exporter = on_cuda(np.zeros((2, 2)), "float64")
    exporter.order = asked.append
    assert array.view(exporter).stream == asked[0] == device.LEGACY


def test_an_exported_view_lives_until_its_consumer_lets_go() -> None:
    before = set(array_dlpack._exported)
    capsule = on_cuda(np.zeros((2, 2)), "float64").__dlpack__()
    assert array_dlpack.read(capsule, "A").pointer == 0x30000
    (address,) = set(array_dlpack._exported) - before
    array_dlpack._release(address)
    assert set(array_dlpack._exported) == before


def test_a_numpy_array_is_exported_and_imported_by_numpy() -> None:
    x = np.arange(6.0).reshape(2, 3).T
    exporter = array_dlpack.Exporter(array.view(x), lambda _stream: None)
    assert np.shares_memory(np.from_dlpack(exporter), x)


def test_the_stream_is_the_callers_then_outs_then_as(cupy: FakeCupy) -> None:
    cupy.current = {0: 0x70, 1: 0}
    a = array.view(ndarray(np.zeros((2, 2))))
    out = array.view(ndarray(np.zeros((2, 2)), ordinal=1))
    assert array.launch_stream(SimpleNamespace(cuda_stream=0x99), out, a) == 0x99
    assert array.launch_stream(None, out, a) == device.LEGACY
    assert array.launch_stream(None, None, a) == 0x70


@pytest.mark.usefixtures("fake")
def test_a_library_without_a_current_stream_counts_with_the_named_one() -> None:
    named, silent = (array.view(interface(np.zeros((2, 2)), stream=s)) for s in (0x44, None))
    assert array.launch_stream(None, None, named) == 0x44
    assert array.launch_stream(None, None, silent) == device.LEGACY
    assert array.launch_stream(None, None, array.view(np.zeros((2, 2)))) == device.LEGACY


def test_named_streams_are_waited_for_before_and_wait_after(fake: SimpleNamespace) -> None:
    a, b, silent = (array.view(interface(np.zeros((2, 2)), stream=s)) for s in (0x44, 0x10, None))
    fake.driver.calls.clear()
    array.acquire(0x10, [a, b, silent])
    array.release(0x10, a)
    order = [call for call in fake.driver.calls if call[0] in ("cuEventRecord", "cuStreamWaitEvent")]
    assert order == [
        ("cuEventRecord", 77, 0x44),
        ("cuStreamWaitEvent", 0x10, 77, 0),
        ("cuEventRecord", 77, 0x10),
        ("cuStreamWaitEvent", 0x44, 77, 0),
    ]


def test_device_data_reach_the_host_with_their_strides(
    fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = np.arange(24.0).reshape(4, 6)
    seen: list[tuple[int, ...]] = []

    def copy_to_host(pointer: int, nbytes: int, ordinal: int, stream: int) -> np.ndarray[Any, Any]:
        seen.append((pointer, nbytes, ordinal, stream))
        first = (pointer - 0x20000) // 8
        return whole.reshape(-1)[first : first + nbytes // 8].view(np.uint8)

    monkeypatch.setattr(device, "copy_to_host", copy_to_host)
    x = whole[::-1, 1::2]
    offset = x.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    found = array.view(interface(x, data=(0x20000 + offset, False)))
    assert np.array_equal(array.to_host(found, 0x10), x)
    assert seen == [(0x20000 + 8, 8 * 23, 1, 0x10)]
    assert fake.driver.launched == []


def test_host_data_are_uploaded_row_major(fake: SimpleNamespace) -> None:
    x = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    found = array.upload(array.view(x), 1, 0x10)
    assert (found.backend, found.pointer, found.strides) == ("cuda:1", 0x7000, (3, 1))
    assert [c[1] for c in fake.driver.calls if c[0] == "cuMemcpyHtoDAsync"] == [0x7000]


@pytest.mark.parametrize(
    ("cut", "copies"),
    [
        (lambda whole: whole, 1),
        (lambda whole: whole.T, 1),
        (lambda whole: whole[:, 1:4], 4),
        (lambda whole: whole[1:3], 1),
        (lambda whole: whole[::-1], 4),
        (lambda whole: whole[:, ::2], 12),
        (lambda whole: whole[:, 2:3], 4),
        (lambda whole: whole[:0], 0),
    ],
)
def test_host_data_are_written_to_the_elements_of_a_device_array_alone(
    monkeypatch: pytest.MonkeyPatch, fake: SimpleNamespace, cut: Any, copies: int
) -> None:
    whole = np.zeros((4, 6), np.int32)
    memory, made = whole.reshape(-1), []

    def copy_to_device(pointer: int, source: np.ndarray[Any, Any], ordinal: int, stream: int) -> None:
        assert source.flags.c_contiguous
        first = (pointer - 0x20000) // 4
        memory[first : first + source.size] = source.reshape(-1)
        made.extend([(ordinal, stream)] if source.size else [])

    monkeypatch.setattr(device, "copy_to_device", copy_to_device)
    part = cut(whole)
    offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    target = array.view(interface(part, data=(0x20000 + offset, False)), "out", writable=True)
    values = np.arange(1, part.size + 1, dtype=np.int32).reshape(part.shape)
    assert array.write_from_host(values, target, stream=0x10) is target
    assert np.array_equal(part, values)
    assert np.count_nonzero(whole) == part.size
    assert made == [(1, 0x10)] * copies
    assert fake.driver.launched == []


def workspace_view(**changes: Any) -> ArrayView:
    given = {"shape": (1024,), "strides": (1,), "dtype": "uint8", "pointer": 0x8000, "ordinal": 0, **changes}
    return ArrayView(library="cupy", device="cuda", owner=None, **given)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"dtype": "int8"}, DTypeError, "must be uint8"),
        ({"shape": (1023,)}, ShapeError, "holds 1023 bytes; this product needs 1024"),
        ({"pointer": 0x8008}, UnsupportedError, "16-byte boundary"),
        ({"strides": (2,)}, UnsupportedError, "contiguous"),
        ({"ordinal": 1}, UnsupportedError, "cuda:1"),
    ],
)
@pytest.mark.usefixtures("fake")
def test_a_workspace_that_does_not_fit_is_refused(
    changes: dict[str, Any], error: type[MxgemmError], words: str
) -> None:
    with pytest.raises(error, match=words):
        array.workspace(workspace_view(**changes), 1024, 0, 0x10)


def test_a_workspace_that_fits_is_used_even_under_capture(fake: SimpleNamespace) -> None:
    fake.driver.capturing.add(0x10)
    found = array.workspace(workspace_view(), 1024, 0, 0x10)
    found.done(0x10)
    assert found.pointer == 0x8000
    assert fake.driver.calls == []


def test_without_a_workspace_memory_is_taken_until_it_is_done_with(fake: SimpleNamespace) -> None:
    found = array.workspace(None, 1024, 0, 0x10)
    assert found.pointer == 0x7000
    found.done(0x10)
    del found
    gc.collect()
    counted = ("cuMemAllocAsync", "cuEventRecord", "cuMemFreeAsync")
    assert [call for call in fake.driver.calls if call[0] in counted] == [
        ("cuMemAllocAsync", 1024, 0x10),
        ("cuEventRecord", 77, 0x10),
        ("cuMemFreeAsync", 0x7000, 55),
    ]


def test_without_a_workspace_a_capture_is_refused(fake: SimpleNamespace) -> None:
    fake.driver.capturing.add(0x10)
    with pytest.raises(UnsupportedError, match="pass workspace= of 1024"):
        array.workspace(None, 1024, 0, 0x10)


def test_a_tensor_of_a_programs_own_class_gets_a_plain_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the ordinary road makes it: new_empty would give the program's class."""

    def made(*told: Any) -> SimpleNamespace:
        return SimpleNamespace(told=told, data_ptr=lambda: 0x70000)

    class Tensor:
        device = "cuda:0"

        def new_empty(self, *options: Any, **more: Any) -> SimpleNamespace:
            return made("new_empty", type(self), *options, *more.values())

    class Parameter(Tensor):
        pass

    class Own(Tensor):
        pass

    torch = SimpleNamespace(
        Tensor=Tensor, nn=SimpleNamespace(Parameter=Parameter), float16="half",
        empty=lambda shape, dtype, device: made("empty", device, shape, dtype),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]  # the face is enough
    allocate = array_torch.allocator(0, (2, 3), "float16")
    for kind in (Tensor, Parameter):
        result, pointer = allocate(kind())
        assert (result.told, pointer) == (("new_empty", kind, (2, 3), "half"), 0x70000)
    assert allocate(Own())[0].told == ("empty", "cuda:0", (2, 3), "half")
