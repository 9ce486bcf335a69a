"""Any library's array becomes a view without a copy, and what cannot be computed with is refused by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxgemm import array
from mxgemm.array import ArrayView
from mxgemm.array_spec import ArraySpec
from mxgemm.errors import DTypeError, MxgemmError, ShapeError, UnsupportedError


class OnlyDlpack:
    """A NumPy array of which only the DLPack protocol shows."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self.data = data

    def __dlpack__(self, **keywords: Any) -> object:
        return self.data.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()


@pytest.mark.parametrize("name", array.DTYPES)
def test_every_element_type_is_seen_by_name(name: str) -> None:
    found = array.view(np.zeros((2, 3), array.numpy_dtype(name)))
    assert (found.dtype, found.shape, found.strides, found.backend) == (name, (2, 3), (3, 1), "cpu")
    assert found.itemsize == array.numpy_dtype(name).itemsize


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    steps=st.lists(st.sampled_from([-2, -1, 1, 2]), min_size=4, max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_strides_and_pointer_address_every_element(
    shape: tuple[int, ...], steps: list[int], order: Any
) -> None:
    axes = list(range(len(shape)))
    order.shuffle(axes)
    whole = np.arange(np.prod([2 * n for n in shape]), dtype=np.int16).reshape([2 * n for n in shape])
    x = whole[tuple(slice(None, None, step) for step in steps[: len(shape)])].transpose(axes)
    found = array.view(x)
    first = whole.__array_interface__["data"][0]
    for index in np.ndindex(x.shape):
        offset = found.pointer - first + 2 * sum(i * s for i, s in zip(index, found.strides, strict=True))
        assert whole.reshape(-1)[offset // 2] == x[index]
    low, high = found.byte_range
    assert (low, high) == np.lib.array_utils.byte_bounds(x)


def test_a_view_is_no_copy_and_keeps_its_owner_alive() -> None:
    x = np.ones((2, 2))
    found = array.view(x)
    assert found.owner is x
    assert array.numpy(found) is x
    assert not found.converted


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (np.ones((2, 2), bool), DTypeError, "bool"),
        (np.ones((2, 2), complex), DTypeError, "complex128"),
        (np.array([["a"]]), DTypeError, "<U1"),
        (np.array([[None]]), DTypeError, "object"),
        (np.zeros((1, 1), "datetime64[s]"), DTypeError, "datetime64"),
        (np.zeros((1, 1), [("a", "i4")]), DTypeError, "'a'"),
        (np.ones((2, 2), ml_dtypes.float8_e4m3b11fnuz), DTypeError, "float8_e4m3b11fnuz"),
        (np.ma.ones((2, 2)), UnsupportedError, "masked array"),
        (np.ones((2, 2)).view(np.matrix), UnsupportedError, r"numpy\.matrix"),
        (3, ShapeError, "scalar"),
        ([[1.0]], UnsupportedError, "builtins.list"),
        (None, UnsupportedError, "NoneType"),
    ],
)
def test_what_has_no_product_is_refused_by_name(x: object, error: type[MxgemmError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        array.view(x, "operand B")
    assert str(caught.value).startswith("operand B")


def test_an_ordinary_subclass_is_seen_as_its_array() -> None:
    class Tagged(np.ndarray):
        pass

    found = array.view(np.ones((2, 2)).view(Tagged))
    assert type(array.numpy(found)) is np.ndarray


def byte_swapped() -> np.ndarray[Any, Any]:
    return np.arange(6, dtype=">f4").reshape(2, 3)


def misaligned() -> np.ndarray[Any, Any]:
    return np.frombuffer(bytearray(25), np.float32, 6, offset=1).reshape(2, 3)


def packed_field() -> np.ndarray[Any, Any]:
    return np.zeros((2, 3), np.dtype([("flag", "i1"), ("x", "f4")]))["x"]


@pytest.mark.parametrize("make", [byte_swapped, misaligned, packed_field])
def test_data_that_needs_conversion_is_copied_as_input_and_refused_as_out(make: Any) -> None:
    x = make()
    x[...] = np.arange(6).reshape(2, 3)
    found = array.view(x)
    assert found.converted
    assert found.dtype == "float32"
    assert array.numpy(found).dtype.isnative
    assert np.array_equal(array.numpy(found), np.arange(6).reshape(2, 3))
    with pytest.raises(UnsupportedError, match="out is byte-swapped or misaligned"):
        array.view(x, "out", writable=True)


def test_conversion_keeps_the_bits_of_a_nan() -> None:
    bits = np.array([[0x7F800001, 0xFFC12345]], ">u4")
    assert array.numpy(array.view(bits.view(">f4"))).view(np.uint32).tolist() == bits.tolist()


def test_read_only_input_is_fine_and_read_only_out_is_refused() -> None:
    x = np.ones((2, 2))
    x.flags.writeable = False
    assert array.view(x).readonly
    with pytest.raises(UnsupportedError, match="out is read-only"):
        array.view(x, "out", writable=True)


def test_out_with_shared_elements_is_refused_and_slices_are_not() -> None:
    whole = np.zeros((4, 6))
    for good in (whole, whole.T, whole[::-2, 1::2], whole[:, None], np.zeros((0, 3)), whole[:1]):
        array.view(good, "out", writable=True)
    repeated = np.lib.stride_tricks.as_strided(whole, (3, 4), (0, 8))
    windows = np.lib.stride_tricks.as_strided(whole, (3, 4), (8, 8))
    for bad in (repeated, windows):
        with pytest.raises(UnsupportedError, match="share memory"):
            array.view(bad, "out", writable=True)


def test_overlap_goes_by_bytes() -> None:
    whole = np.zeros((4, 4))
    upper, lower, column = whole[:2], whole[2:], whole[:, 1]
    views = {name: array.view(x) for name, x in {"upper": upper, "lower": lower, "column": column}.items()}
    assert not array.overlap(views["upper"], views["lower"])
    assert array.overlap(views["upper"], views["column"])
    assert array.overlap(views["lower"], views["column"])
    assert not array.overlap(array.view(whole[:0]), array.view(whole))


def test_the_same_address_on_another_device_does_not_overlap() -> None:
    first = ArrayView("other", "cuda", 0, 0x7000, (4,), (1,), "float32", None)
    second = ArrayView("other", "cuda", 1, 0x7000, (4,), (1,), "float32", None)
    assert array.overlap(first, first)
    assert not array.overlap(first, second)


def test_a_result_is_a_numpy_array_for_numpy() -> None:
    made = array.empty_like_owner(array.view(np.zeros((2, 2), np.float32)), (3, 5), "bfloat16")
    result = array.deliver(made)
    assert type(result) is np.ndarray
    assert (result.shape, result.dtype) == ((3, 5), ml_dtypes.bfloat16)


def test_a_host_array_needs_no_copy_to_the_host() -> None:
    x = np.ones((2, 2))
    assert array.to_host(array.view(x)) is x


def test_from_host_copies() -> None:
    x = np.arange(6.0).reshape(2, 3).T
    made = array.from_host(x, array.view(x))
    assert np.array_equal(array.numpy(made), x)
    assert not np.shares_memory(array.numpy(made), x)


def test_device_memory_is_no_numpy_array() -> None:
    with pytest.raises(UnsupportedError, match="device memory"):
        array.numpy(ArrayView("other", "cuda", 0, 0x7000, (4,), (1,), "float32", None))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float16", "float32", "float64"])
def test_dlpack_is_seen_in_place(dtype: str) -> None:
    x = np.arange(24).astype(dtype).reshape(4, 6)[::-1, ::2]
    found = array.view(OnlyDlpack(x))
    assert (found.library, found.dtype, found.shape) == ("other", dtype, (4, 3))
    assert np.shares_memory(array.numpy(found), x)
    assert np.array_equal(array.numpy(found), x)


def test_dlpack_memory_outlives_its_producer() -> None:
    memory = array.numpy(array.view(OnlyDlpack(np.full((3, 3), 7.0))))
    np.full((3, 3), 1.0)
    assert np.array_equal(memory, np.full((3, 3), 7.0))


def test_a_read_only_dlpack_producer_is_no_out() -> None:
    x = np.ones((2, 2))
    x.flags.writeable = False
    assert array.view(OnlyDlpack(x)).readonly
    with pytest.raises(UnsupportedError, match="out is read-only"):
        array.view(OnlyDlpack(x), "out", writable=True)


def test_a_dlpack_out_is_written_in_place() -> None:
    x = np.zeros((2, 2))
    array.numpy(array.view(OnlyDlpack(x), "out", writable=True))[...] = 5
    assert x.tolist() == [[5, 5], [5, 5]]


def test_a_producer_older_than_dlpack_1_is_understood() -> None:
    class Old(OnlyDlpack):
        def __dlpack__(self, stream: object = None) -> object:
            return self.data.__dlpack__(stream=stream)

    assert np.array_equal(array.numpy(array.view(Old(np.eye(3)))), np.eye(3))


def test_dlpack_of_another_device_is_refused_by_number() -> None:
    class OnMetal(OnlyDlpack):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 8, 0

    with pytest.raises(UnsupportedError, match="DLPack device type 8"):
        array.view(OnMetal(np.eye(2)))


def test_dlpack_element_types_without_a_configuration_are_refused() -> None:
    with pytest.raises(DTypeError, match="DLPack code 6"):
        array.view(OnlyDlpack(np.ones((2, 2), bool)))


def test_a_consumed_capsule_is_refused() -> None:
    class Consumed(OnlyDlpack):
        def __dlpack__(self, **_: Any) -> object:
            return "used_dltensor"

    with pytest.raises(UnsupportedError, match="unused dltensor"):
        array.view(Consumed(np.eye(2)))


def test_importing_and_using_numpy_brings_no_other_library() -> None:
    code = """
import sys, numpy
from mxgemm import array
array.view(numpy.zeros((2, 2)))
print({"cuda", "cupy", "torch", "jax"} & {m.partition(".")[0] for m in sys.modules})
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize("shape", [(-1, 8), [8, 8]])
def test_a_spec_of_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(ShapeError, match="extents"):
        ArraySpec(shape, "float16")
