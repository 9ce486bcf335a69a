"""Device arrays: NumPy's views, copies, protocols; every way out passes one hook."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm import cuda
from mxgemm.errors import DTypeError, ShapeError, UnsupportedError
from mxgemm.lang.device_array import set_observation_hook
from mxgemm.lang.interpreter_backend import InterpreterBackend
from mxgemm.lang.runtime import use
from tests.lang.fake_backend import FakeBackend
from tests.lang.running import function


@pytest.fixture(params=[InterpreterBackend, FakeBackend], ids=["interpreter", "fake"], autouse=True)
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    with use(request.param()) as chosen:
        yield chosen


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_copy_there_and_back_is_the_same(dtype: Any, order: Any) -> None:
    source = np.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype), order=order)
    there = cuda.to_device(source)
    back = there.copy_to_host()
    assert np.array_equal(back, source)
    assert (back.dtype, there.shape, there.strides) == (source.dtype, source.shape, source.strides)
    assert (there.ndim, there.size, there.nbytes, len(there)) == (3, 24, source.nbytes, 2)


INDICES = st.lists(
    st.one_of(
        st.integers(-3, 2),
        st.slices(3),
        st.sampled_from([None, Ellipsis]),
    ),
    max_size=4,
).map(tuple)


@given(index=INDICES)
def test_views_are_numpys(index: Any) -> None:
    source = np.arange(27.0).reshape(3, 3, 3)
    try:
        expected = source[index]
    except (IndexError, ValueError):
        with use(InterpreterBackend()), pytest.raises((IndexError, ValueError)):
            cuda.to_device(source)[index]
        return
    with use(InterpreterBackend()):
        view = cuda.to_device(source)[index]
        found = view if isinstance(view, (float, np.floating)) else view.copy_to_host()
        assert np.array_equal(found, expected)
        assert np.shape(found) == np.shape(expected)


def test_assignment_through_views_reaches_the_base_and_nothing_else() -> None:
    source = np.zeros((4, 5))
    there = cuda.to_device(source)
    there[1:3, ::2] = 7
    there[-1] = np.arange(5)
    there[0, 0] = there[3, 4]
    source[1:3, ::2], source[-1], source[0, 0] = 7, np.arange(5), 4
    assert np.array_equal(there.copy_to_host(), source)


def test_transposes_reshapes_and_reinterpretations_are_views() -> None:
    source = np.arange(12.0).reshape(3, 4)
    there = cuda.to_device(source)
    assert np.array_equal(there.T.copy_to_host(), source.T)
    assert np.array_equal(there.reshape(2, -1).copy_to_host(), source.reshape(2, -1))
    assert np.array_equal(there.ravel().copy_to_host(), source.ravel())
    assert np.array_equal(there.view(np.int64).copy_to_host(), source.view(np.int64))
    assert there.T.memory is there.memory
    assert there.T.is_f_contiguous()
    assert not there.T.is_c_contiguous()
    with pytest.raises(ShapeError, match="not contiguous"):
        there.T.reshape(12)
    with pytest.raises(ShapeError, match="permutation"):
        there.transpose((0, 0))


def test_copies_into_given_arrays_check_shape_and_type() -> None:
    there = cuda.to_device(np.arange(3.0))
    out = np.zeros(3)
    assert there.copy_to_host(out) is out
    assert out.tolist() == [0, 1, 2]
    for wrong in (np.zeros(4), np.zeros(3, np.float32)):
        with pytest.raises(ShapeError, match="shape and type"):
            there.copy_to_host(wrong)
        with pytest.raises(ShapeError, match="shape and type"):
            there.copy_to_device(wrong)
    cuda.to_device(np.full(3, 9.0), to=there)
    assert there.copy_to_host().tolist() == [9, 9, 9]


def test_every_way_out_passes_the_hook(backend: Any) -> None:
    seen: list[str] = []
    there = cuda.to_device(np.arange(3.0))
    set_observation_hook(lambda _array, way: seen.append(way))
    try:
        there.copy_to_host()
        there.get()
        np.asarray(there)
        there[1]
        there[0] = 1
        if isinstance(backend, FakeBackend):
            _ = there.__cuda_array_interface__
        there.__dlpack__()
    finally:
        set_observation_hook(None)
    ways = ["copy_to_host", "copy_to_host", "__array__", "copy_to_host", "copy_to_device"]
    if isinstance(backend, FakeBackend):
        ways.append("__cuda_array_interface__")
    assert seen == [*ways, "__dlpack__"]


def test_numpy_sees_the_elements() -> None:
    there = cuda.to_device(np.arange(4.0))
    assert np.asarray(there).tolist() == [0, 1, 2, 3]
    assert np.asarray(there, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.asarray(there, copy=False)


def test_the_interpreters_arrays_are_host_memory(backend: Any) -> None:
    there = cuda.to_device(np.arange(6.0).reshape(2, 3))
    if isinstance(backend, InterpreterBackend):
        assert there.__dlpack_device__() == (1, 0)
        shared = np.from_dlpack(there[:, 1:])
        there[0, 1] = 50
        assert shared[0, 0] == 50
        assert not hasattr(there, "__cuda_array_interface__")
    else:
        interface = there[:, ::2].__cuda_array_interface__
        assert interface["data"] == (there.memory.pointer, False)
        assert (interface["shape"], interface["strides"], interface["typestr"]) == ((2, 2), (24, 16), "<f8")
        assert there.__cuda_array_interface__["strides"] is None
        assert there.__dlpack_device__() == (2, 0)


def test_arrays_are_allocated_like_others() -> None:
    like = cuda.device_array_like(np.zeros((3, 4), np.float32, order="F"))
    assert (like.shape, like.dtype, like.strides) == ((3, 4), np.float32, (4, 12))
    assert cuda.device_array((2, 3)).dtype == np.float64
    assert cuda.device_array(5, cuda.int8).shape == (5,)
    assert cuda.pinned_array((2, 3), np.int32).shape == (2, 3)
    assert cuda.pinned_array_like(np.zeros(4)).dtype == np.float64
    assert cuda.device_array((0, 3)).copy_to_host().shape == (0, 3)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int64", 2.5), ("int64", np.nan), ("bool", 1.0), ("float64", 1j), ("int8", np.float32(1))],
)
def test_assignment_that_would_discard_a_part_is_refused(dtype: str, value: Any) -> None:
    array = cuda.to_device(np.ones(3, dtype))
    with pytest.raises(DTypeError, match="convert them first"):
        array[0] = value
    with pytest.raises(OverflowError):
        cuda.to_device(np.ones(3, np.int8))[0] = 300
    array[1:] = np.zeros(2, np.int8)
    assert array.copy_to_host().tolist() == [1, 0, 0]


def test_copies_fill_numpy_arrays() -> None:
    with pytest.raises(TypeError, match="fills a NumPy array, not list"):
        cuda.to_device(np.ones(3)).copy_to_host([0, 0, 0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_like_arrays_have_the_order_of_their_model(order: Any) -> None:
    model = np.zeros((2, 3), np.float32, order)
    assert cuda.pinned_array_like(model).strides == model.strides
    assert cuda.device_array_like(model).strides == model.strides
    assert cuda.device_array_like(cuda.to_device(model)).strides == model.strides
    assert cuda.pinned_array((2, 3), np.float32, order=order).strides == model.strides


@pytest.mark.parametrize(
    "arguments",
    [
        {"shape": 2.5}, {"shape": (2, -1)}, {"shape": 2, "order": "K"}, {"shape": (2, 3), "strides": (24,)},
        {"shape": (2, 3), "strides": (20, 8)}, {"shape": 2, "strides": (-8,)},
    ],
    ids=str,
)  # fmt: skip
def test_shapes_orders_and_strides_that_make_no_array_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises((DTypeError, ShapeError), match="device_array takes"):
        cuda.device_array(**arguments)
    if "strides" not in arguments:
        with pytest.raises(DTypeError, match="pinned_array takes"):
            cuda.pinned_array(**arguments)


def test_what_is_no_array_is_refused() -> None:
    for value in (np.zeros(2, complex), np.array(["a"]), np.array([None])):
        with pytest.raises(DTypeError, match="not an element type"):
            cuda.to_device(value)
    with pytest.raises(UnsupportedError, match="indices"):
        cuda.to_device(np.zeros(3))[[0, 1]]
    with pytest.raises(UnsupportedError, match="copy=False"):
        cuda.to_device(np.zeros(3), copy=False)
    with pytest.raises(TypeError):
        len(cuda.to_device(np.float64(1)))


class Foreign:
    """Another library's device array."""

    def __init__(self, typestr: str, stream: int | None = None, *, read_only: bool = False) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2, 3), "typestr": typestr, "data": (4096, read_only), "version": 3,
            "strides": None, "stream": stream,
        }  # fmt: skip


def test_read_only_arrays_of_other_libraries_are_refused_when_they_are_written() -> None:
    writes = cuda.jit(function("def kernel(x, y):\n    y[0, 0] = x[0, 0]\n"))
    frozen = Foreign("|b1", read_only=True)
    with use(FakeBackend()) as fake:
        with pytest.raises(TypeError, match="argument 1 is a read-only array"):
            writes[1, 1](Foreign("|b1"), frozen)
        writes[1, 1](frozen, Foreign("|b1"))
        assert fake.count("launch") == 1


def test_bool_arrays_of_other_libraries_keep_their_pointer_and_stream() -> None:
    seen = cuda.as_cuda_array(Foreign("|b1", stream=9), sync=False)
    assert (seen.words[1:], seen.dtype, seen.stream) == ((4096, 2, 3, 3, 1), np.bool_, 9)
    assert cuda.is_cuda_array(Foreign("|b1"))
