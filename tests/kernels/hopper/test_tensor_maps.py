"""What the copy engine is told of a matrix, and when maps are encoded anew, against a driver of our own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest

from mxgemm import device
from mxgemm.device import compiler, driver, launcher, tensor_map
from mxgemm.device.tensor_map import EncodedMap, TensorMap
from mxgemm.kernels.hopper.maps import matrix_map, panel_map, store_maps, turned_store_maps
from mxgemm.problem import Matrix
from tests.device.fakes import FakeDriver, Status, handle_of

MAP = TensorMap("a", 2, (4096, 300, 5), (8192, 8192 * 300), (64, 128, 1))


class Encoder:
    """cuTensorMapEncodeTiled and cuTensorMapReplaceAddress, which note what they are given.

    A map that it makes is the address in its first 8 bytes.
    """

    def __init__(self) -> None:
        self.encoded: list[dict[str, Any]] = []
        self.replaced: list[tuple[int, int]] = []
        self.status = 0
        self._memory: list[Any] = []
        word, pointer = ctypes.c_uint, ctypes.c_void_p
        result = ctypes.c_int
        self._encode = ctypes.CFUNCTYPE(
            result, pointer, word, word, pointer, pointer, pointer, pointer, pointer, word, word, word, word
        )(self.encode)
        self._replace = ctypes.CFUNCTYPE(result, pointer, pointer)(self.replace)

    def place(self, spec: TensorMap) -> EncodedMap:
        """A map in memory of its own."""
        self._memory.append((ctypes.c_ubyte * (128 + 64))())
        first = ctypes.addressof(self._memory[-1])
        return EncodedMap(spec, first + -first % 64)

    def procedure(self, name: str, _since: int) -> int:
        function = {"cuTensorMapEncodeTiled": self._encode, "cuTensorMapReplaceAddress": self._replace}[name]
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def encode(self, *arguments: int) -> int:
        target, kind, axes, address, extents, strides, box, steps, *options = arguments
        ctypes.c_uint64.from_address(target).value = address
        self.encoded.append({
            "map": target, "kind": kind, "address": address, "options": options,
            "extents": tuple((ctypes.c_uint64 * axes).from_address(extents)),
            "strides": tuple((ctypes.c_uint64 * (axes - 1)).from_address(strides)),
            "box": tuple((ctypes.c_uint32 * axes).from_address(box)),
            "steps": tuple((ctypes.c_uint32 * axes).from_address(steps)),
        })  # fmt: skip
        return self.status

    def replace(self, target: int, address: int) -> int:
        ctypes.c_uint64.from_address(target).value = address
        self.replaced.append((target, address))
        return self.status


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Encoder]:
    made = Encoder()
    monkeypatch.setattr(driver, "procedure", made.procedure)
    cached = (tensor_map._encode, tensor_map._replace_address)
    for function in cached:
        function.cache_clear()
    yield made
    for function in cached:
        function.cache_clear()


def test_the_driver_is_told_of_every_field(encoder: Encoder) -> None:
    encoder.place(MAP).aim(0x7000)
    (found,) = encoder.encoded
    told = (found["address"], found["kind"], found["extents"], found["strides"], found["box"], found["steps"])
    assert told == (0x7000, 1, MAP.extents, MAP.strides, MAP.box, (1, 1, 1))
    no_interleave, swizzle_128, promote_128, zeros = 0, 3, 2, 0
    assert found["options"] == [no_interleave, swizzle_128, promote_128, zeros]


def test_a_map_that_is_not_swizzled_says_so(encoder: Encoder) -> None:
    encoder.place(TensorMap("d", 4, (8, 8, 1), (32, 256), (8, 8, 1), swizzled=False)).aim(0x7000)
    assert (encoder.encoded[0]["kind"], encoder.encoded[0]["options"][1]) == (2, 0)


def test_a_map_that_rounds_says_so(encoder: Encoder) -> None:
    tfloat32 = 11  # CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
    encoder.place(TensorMap("a", 4, (64, 64, 1), (256, 256), (32, 64, 1), to_tf32=True)).aim(0x7000)
    assert encoder.encoded[0]["kind"] == tfloat32


def test_a_map_is_encoded_once_and_then_follows_its_address(encoder: Encoder) -> None:
    made = encoder.place(MAP)
    for address in (0x7000, 0x7000, 0x8000, 0x8000, 0x7000):
        made.aim(address)
    assert len(encoder.encoded) == 1
    assert encoder.replaced == [(made.address, 0x8000), (made.address, 0x7000)]


def test_a_refused_map_is_an_error_and_is_encoded_anew(encoder: Encoder) -> None:
    made = encoder.place(MAP)
    encoder.status = 1
    with pytest.raises(driver.DriverError, match="error 1"):
        made.aim(0x7000)
    encoder.status = 0
    made.aim(0x7000)
    assert len(encoder.encoded) == 2
    assert made.target == 0x7000


@pytest.fixture
def fake(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver beside the encoder."""
    made = FakeDriver(devices=1)
    monkeypatch.setattr(driver, "_driver", lambda: made)
    of_maps = encoder.procedure
    monkeypatch.setattr(
        driver, "procedure", lambda name, _: made.procedure(name) if "Launch" in name else of_maps(name, 0)
    )
    return made


def bound_with(maps: int) -> launcher.BoundLaunch:
    """A launch of two pointers and a constant, whose maps start at the second and the first in turn."""
    cubin = compiler.CompiledCubin(b"", "k", "sm_90a", "", compiler.Resources())
    kernel = device.CompiledKernel(cubin, 0, 0, handle_of(3 + maps, maps))
    specs = tuple(((i + 1) % 2, MAP) for i in range(maps))
    return launcher.BoundLaunch(kernel, (1,), (384,), 2, (7,), specs)


def test_a_launch_passes_its_maps_first_and_aims_them_at_its_pointers(
    encoder: Encoder, fake: FakeDriver
) -> None:
    bound = bound_with(2)
    bound(0x10, 0x7000, 0x8000)
    bound(0x10, 0x9000, 0x8000)
    assert [launched[-5:] for launched in fake.launched] == [
        (0x8000, 0x7000, 0x7000, 0x8000, 7), (0x8000, 0x9000, 0x9000, 0x8000, 7),
    ]  # fmt: skip
    assert (len(encoder.encoded), len(encoder.replaced)) == (2, 1)


@pytest.mark.parametrize("tells", [True, False])
def test_the_drivers_memory_of_every_map_is_aligned_to_64_bytes(
    encoder: Encoder, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """In a buffer that begins off 64 bytes, and where the driver does not tell of one."""
    if not tells:
        silent = (Status.CUDA_ERROR_NOT_SUPPORTED, None, None)
        monkeypatch.setattr(fake, "cuKernelGetParamInfo", lambda *_: silent, raising=False)
    launches = [bound_with(maps) for maps in (1, 2, 3, 4) * 4]
    for bound in launches:
        bound(0x10, 0x7000, 0x8000)
    places = [found["map"] for found in encoder.encoded]
    assert len(set(places)) == 40
    assert all(place % 64 == 0 for place in places)
    assert fake.buffers == [tells] * 16


def test_a_map_runs_along_the_contiguous_axis() -> None:
    rows = matrix_map("a", Matrix("float16", 300, 4096, 4104, 1), 1, turned=False, outer=128)
    assert (rows.extents, rows.strides[0], rows.box) == ((4096, 300, 1), 8208, (64, 128, 1))
    columns = matrix_map("a", Matrix("float16", 300, 4096, 1, 304), 1, turned=True, outer=64)
    assert (columns.extents, columns.strides[0]) == ((300, 4096, 1), 608)
    assert panel_map(columns).box == (64, 64, 1)


def test_a_panel_of_float32_is_32_wide() -> None:
    made = matrix_map("a", Matrix("float32", 300, 4096, 1, 304), 1, turned=True, outer=32)
    assert panel_map(made).box == (32, 32, 1)


@pytest.mark.parametrize(
    ("columns", "heights"), [(256, [32]), (208, [32, 16]), (144, [32, 16]), (16, [32, 16])]
)
def test_a_result_that_lies_along_its_rows_is_stored_in_boxes_of_32_rows(
    columns: int, heights: list[int]
) -> None:
    made = turned_store_maps(Matrix("float32", 512, 384, 1, 520), 1, columns)
    assert [(x.box, x.swizzled) for x in made] == [((32, height, 1), True) for height in heights]
    assert {(x.extents, x.strides[0]) for x in made} == {((512, 384, 1), 2080)}


@pytest.mark.parametrize(
    ("columns", "heights"), [(256, [64]), (208, [64, 16]), (96, [64, 32]), (48, [64, 48])]
)
def test_a_16_bit_result_that_lies_along_its_rows_is_stored_in_boxes_of_64_rows(
    columns: int, heights: list[int]
) -> None:
    made = turned_store_maps(Matrix("bfloat16", 512, 384, 1, 520), 1, columns)
    assert [(x.box, x.swizzled) for x in made] == [((64, height, 1), True) for height in heights]
    assert {(x.extents, x.strides[0]) for x in made} == {((512, 384, 1), 1040)}


@pytest.mark.parametrize(("dtype", "elements"), [("int8", 128), ("bfloat16", 64), ("float32", 32)])
def test_a_box_is_128_bytes_wide(dtype: str, elements: int) -> None:
    made = matrix_map("b", Matrix(dtype, 512, 512, 512, 1), 1, turned=False, outer=256)
    assert made.box == (elements, 256, 1)


def test_batches_step_along_the_third_axis_and_shared_operands_do_not() -> None:
    stepped = matrix_map("a", Matrix("float16", 64, 64, 64, 1, (4096,)), 7, turned=False, outer=64)
    shared = matrix_map("a", Matrix("float16", 64, 64, 64, 1, (0,)), 7, turned=False, outer=64)
    assert (stepped.extents[2], stepped.strides[1]) == (7, 8192)
    assert (shared.extents[2], shared.strides[1]) == (1, 16)


def test_an_axis_of_one_entry_gets_a_stride_that_the_driver_takes() -> None:
    made = matrix_map("a", Matrix("float16", 1, 40, 3, 1), 1, turned=False, outer=64)
    assert made.strides == (16, 16)


@pytest.mark.parametrize(("columns", "tail"), [(256, None), (208, 16), (144, 16), (16, 16)])
def test_columns_that_do_not_fill_a_box_are_stored_by_a_map_of_their_own(
    columns: int, tail: int | None
) -> None:
    whole, *rest = store_maps(Matrix("float16", 512, 512, 512, 1), 1, columns)
    assert (whole.box, whole.swizzled) == ((64, 64, 1), True)
    assert [(made.box, made.swizzled) for made in rest] == ([((tail, 64, 1), False)] if tail else [])
