"""Which kernel, which copies and which arguments a problem gets."""

import pytest

from mxgemm import kernels
from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.errors import UnsupportedError
from mxgemm.problem import pose
from mxgemm.shapes import Operand

POINTERS = {"a": 1 << 20, "b": 2 << 20, "c": 3 << 20, "d": 4 << 20, "bias": 5 << 20}


def row_major(dtype, *shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return Operand(dtype, shape, tuple(reversed(strides)))


def lower(a, b, precision="native", arch="sm_80", *, alignment=None, copied=(), **posed):
    problem, _ = pose(a, b, **posed)
    return kernels.lower(
        problem, configuration(a.dtype, b.dtype, precision), arch, alignment=alignment or {}, copied=copied
    )


def named(lowering, launch):
    return dict(zip((name for _, name in lowering.instance.parameters), launch.arguments, strict=True))


def test_a_column_major_result_is_computed_as_its_transpose():
    out = Operand("float16", (96, 64), (1, 96))
    found = lower(row_major("float16", 96, 32), row_major("float16", 32, 64), d=out)
    (launch,) = found.launches(POINTERS)
    arguments = named(found, launch)
    assert found.form.transposed
    assert (arguments["a"], arguments["b"]) == (POINTERS["b"], POINTERS["a"])
    assert (arguments["m"], arguments["n"], arguments["d_row"]) == (64, 96, 96)


def test_both_scales_forbid_the_transpose_because_rows_come_first():
    out = Operand("float32", (96, 64), (1, 96))
    found = lower(
        row_major("float16", 96, 32),
        row_major("float16", 32, 64),
        d=out,
        epilogue=EpilogueSpec(has_scale_rows=True, has_scale_cols=True),
        scale_rows=row_major("float32", 96),
        scale_cols=row_major("float32", 64),
    )
    assert not found.form.transposed


@pytest.mark.parametrize(
    ("pointer", "columns", "expected"), [(16, 64, 16), (16, 68, 8), (8, 64, 8), (4, 64, 4)]
)
def test_pointer_and_leading_dimension_decide_the_copy(pointer, columns, expected):
    a = row_major("float16", 64, columns)
    found = lower(a, row_major("float16", columns, 64), alignment={"a": pointer})
    assert found.instance.a.alignment == expected


@pytest.mark.parametrize(
    ("dtype", "pointer", "columns"), [("float16", 16, 65), ("float16", 2, 64), ("int8", 1, 64)]
)
def test_elements_off_a_4_byte_boundary_go_through_registers(dtype, pointer, columns):
    precision = "exact" if dtype == "int8" else "native"
    a = row_major(dtype, 64, columns)
    found = lower(a, row_major(dtype, columns, 64), precision, alignment={"a": pointer})
    assert found.instance.a.alignment == 1
    assert "A_ASYNC = false" in found.instance.generated()


def test_a_pointer_off_its_own_type_is_refused():
    with pytest.raises(UnsupportedError, match="aligned to 4 bytes"):
        lower(row_major("float64", 8, 8), row_major("float64", 8, 8), alignment={"a": 4})


def test_an_operand_without_a_unit_stride_is_packed():
    a = Operand("float16", (64, 32), (128, 2))
    found = lower(a, row_major("float16", 32, 64))
    pack, product = found.launches(POINTERS, workspace=8 << 20)
    assert found.workspace_bytes == 64 * 32 * 2
    assert pack.arguments[:2] == (POINTERS["a"], 8 << 20)
    assert named(found, product)["a"] == 8 << 20
    assert found.notes == ("a is packed into workspace first (4096 bytes)",)


def test_scalar_packs_nothing():
    a = Operand("float16", (64, 32), (128, 2))
    assert lower(a, row_major("float16", 32, 64), "scalar").packings == ()


def test_an_overlapped_input_is_copied_when_asked():
    found = lower(row_major("float16", 64, 64), row_major("float16", 64, 64), copied={"b"})
    assert [p.name for p in found.packings] == ["b"]


def test_batch_axes_that_all_step_alike_become_one():
    found = lower(row_major("float16", 3, 5, 16, 16), row_major("float16", 3, 5, 16, 16))
    assert found.form.problem.batch == (15,)


def test_broadcast_batch_axes_stay_apart():
    found = lower(row_major("float16", 3, 1, 16, 16), row_major("float16", 1, 5, 16, 16))
    assert found.instance.batch_axes == 2


def test_more_batch_axes_than_a_kernel_walks_become_several_launches():
    a = row_major("float16", 2, 1, 2, 1, 2, 1, 16, 16)
    b = row_major("float16", 1, 2, 1, 2, 1, 2, 16, 16)
    found = lower(a, b)
    launches = list(found.launches(POINTERS))
    assert found.instance.batch_axes == 4
    assert len(launches) == 4
    step = 16 * 16 * 2
    addresses = [launch.arguments[:4:3] for launch in launches]
    assert addresses[1] == (POINTERS["a"], POINTERS["d"] + 16 * step)
    assert addresses[2] == (POINTERS["a"] + 4 * step, POINTERS["d"] + 32 * step)


def test_64_bit_results_of_8_bit_products_run_scalar():
    found = lower(row_major("int8", 64, 64), row_major("int8", 64, 64), "exact", out_dtype="int64")
    assert (found.instance.lowering, found.instance.accumulator) == ("scalar", "int64")


def test_a_k_within_one_chain_has_no_master_sum():
    one = lower(row_major("float16", 64, 8192), row_major("float16", 8192, 64))
    two = lower(row_major("float16", 64, 8193), row_major("float16", 8193, 64))
    assert (one.instance.chain, two.instance.chain) == (0, 8192)


def test_an_empty_result_launches_nothing():
    assert list(lower(row_major("float16", 0, 8), row_major("float16", 8, 8)).launches(POINTERS)) == []


def test_beta_0_tells_the_kernel_not_to_read_c():
    a = row_major("float32", 8, 8)
    found = lower(a, a, "scalar", c=a, beta=0)
    (launch,) = found.launches(POINTERS)
    assert named(found, launch)["mode"] & 2 == 0


def test_alpha_0_and_k_0_tell_the_kernel_not_to_read_the_operands():
    a = row_major("float32", 8, 8)
    for found in (
        lower(a, a, "scalar", alpha=0),
        lower(row_major("float32", 8, 0), row_major("float32", 0, 8), "scalar"),
    ):
        (launch,) = found.launches(POINTERS)
        assert named(found, launch)["mode"] & 1 == 0


def test_grids_past_65535_blocks_and_past_2_31_blocks_fit_the_hardware():
    for blocks in (1, 70_000, 2**31 + 5):
        x, y, z = kernels.instance.grid_of(blocks)
        assert x * y >= blocks
        assert x <= 2**31 - 1
        assert y <= 65_535
        assert z == 1


def test_rounded_operands_need_a_word_for_flags():
    a = row_major("float32", 8, 8)
    with pytest.raises(UnsupportedError, match="flags="):
        list(lower(a, a, "tf32").launches(POINTERS))
    (launch,) = lower(a, a, "tf32").launches(POINTERS, flags=256)
    assert 256 in launch.arguments


@pytest.mark.parametrize(
    ("dtype", "precision", "extent", "tile"),
    [
        ("float16", "native", 512, (64, 64)),
        ("float16", "native", 1024, (128, 64)),
        ("float16", "native", 1025, (128, 128)),
        ("float16", "native", 2048, (128, 256)),
        ("float16", "native", 4100, (128, 256)),
        ("float64", "native", 1024, (64, 128)),
        ("float64", "native", 4096, (128, 128)),
        ("float32", "tf32", 1024, (64, 64)),
        ("float32", "scalar", 512, (32, 32)),
        ("float32", "scalar", 1024, (64, 64)),
        ("float32", "scalar", 4096, (128, 128)),
    ],
)
def test_the_tile_that_leaves_the_busiest_multiprocessor_least_to_do(dtype, precision, extent, tile):
    a = row_major(dtype, extent, extent)
    assert lower(a, a, precision).instance.tile_shape == tile


@pytest.mark.parametrize(
    ("dtype", "precision"), [("bfloat16", "native"), ("float64", "native"), ("float32", "tf32")]
)
def test_a_unit_that_turing_lacks_is_refused_by_name(dtype, precision):
    a = row_major(dtype, 64, 64)
    with pytest.raises(UnsupportedError, match="has no kernel on sm_75"):
        lower(a, a, precision, "sm_75")


def test_tiles_that_want_more_shared_memory_than_there_is_are_not_offered():
    a = row_major("float16", 4096, 4096)
    shared = [lower(a, a, arch=arch).instance.shared_bytes for arch in ("sm_80", "sm_86", "sm_120")]
    assert max(shared[1:]) <= 99 * 1024 < shared[0]


@pytest.mark.parametrize("order", [("k_major", (64, 1)), ("mn_major", (1, 64))])
def test_the_axis_of_unit_stride_is_the_layout(order):
    layout, strides = order
    found = lower(Operand("float16", (64, 64), strides), row_major("float16", 64, 64))
    assert (found.instance.a.layout, found.packings) == (layout, ())


@pytest.mark.parametrize(("columns", "vector"), [(64, 4), (66, 1), (65, 1)])
def test_results_are_stored_in_pieces_that_every_row_has(columns, vector):
    found = lower(row_major("float16", 64, 64), row_major("float16", 64, columns))
    assert found.instance.epilogue.vector == vector
