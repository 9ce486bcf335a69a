"""Blocks that keep pace along K give the same bits, leave their counts at 0, and never wait for ever."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mxgemm import device
from mxgemm.device import driver
from mxgemm.kernels import Lowering, candidates
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.report.cases import Case, Layout, Product
from tests.kernels.gpu_trials import Edit, OnDevice, Trial
from tests.kernels.hopper.mutants import edited

pytestmark = pytest.mark.gpu

ARCH = "sm_90"
TILES = ((128, 256, 2), (192, 192, 2), (128, 208, 1), (128, 128, 1))
K = 2056  # 33 stages
PAYS = "return u32(stages) >= LEAST_STAGES && tiles.most() >= LEAST_TILES;"
RESET = "atomicExch(&paces.steps, 0u);"


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    """Where these kernels run."""
    if device.capabilities(0).arch != ARCH:
        pytest.skip(f"these kernels are for {ARCH}")


def trial(m: int, n: int) -> Trial:
    return Trial(Case(Product("float16", "float16", "native", m, n, K), Layout(b="column")), "normal")


def lowering(of: Trial, tile: tuple[int, int, int]) -> Lowering:
    """The one to a tile, as the operands lie."""
    found = candidates(
        of.problem, of.case.product.configuration, ARCH, alignment=of.case.alignment, multiprocessors=132
    )
    for one in (candidate.lowering for candidate in found):
        instance = one.instance
        if isinstance(instance, HopperInstance) and not one.form.transposed:
            t = instance.tile
            if (t.rows, t.columns, t.cluster) == tile:
                return one
    raise LookupError(f"{tile} is not on offer")


def unpaced(source: str) -> str:
    return edited(source, ((PAYS, "return false;"),))


def left_alone(source: str) -> str:
    return edited(source, ((RESET, ""),))


def counts(found: Lowering, edit: Edit = str) -> list[int]:
    """Steps and finished clusters, as a kernel that has ended leaves them."""
    one = found.instance
    kernel = device.compiled(edit(one.source()), one.entry, shared_bytes=one.shared_bytes)
    with driver.on_device(0):
        library = driver.call("cuKernelGetLibrary", driver.handle("CUkernel", int(kernel.handle)))
        pointer, size = driver.call("cuLibraryGetGlobal", library, b"paces")
    assert int(size) == 8
    words: list[int] = device.copy_to_host(int(pointer), 8, 0, device.LEGACY).view(np.uint32).tolist()
    return words


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_two_clusters_that_share_nine_tiles(tile: tuple[int, int, int]) -> None:
    """Nine are one more than both have: the last is nobody else's, so nobody is waited for."""
    rows, columns, cluster = tile
    one = trial(3 * rows * cluster - 56, 3 * columns - 8)
    found, expected = lowering(one, tile), one.predicted(ARCH)
    for _ in range(3):
        assert one.faults(*one.run(found, blocks=2 * cluster), expected) == []
        assert counts(found) == [0, 0]


def test_blocks_that_are_not_all_on_the_device_at_once() -> None:
    """Those that are there wait for the others a while, and then no more."""
    one = trial(4400, 4400)
    found = lowering(one, (128, 128, 1))
    expected, _ = one.run(found, unpaced, blocks=300)
    for _ in range(2):
        back, _ = one.run(found, blocks=300)
        assert back.tobytes() == expected.tobytes()
        assert counts(found) == [0, 0]


def test_launches_side_by_side() -> None:
    """They count in one place, which costs them the pace and a wait, but no bit; the counts end at 0."""
    first, second = trial(712, 760), replace(trial(712, 760), generator="uniform")
    found = lowering(first, TILES[0])
    expected = [one.predicted(ARCH) for one in (first, second)]
    with driver.on_device(0):
        streams = [int(driver.call("cuStreamCreate", 1)) for _ in range(2)]
    for _ in range(3):
        placed = [OnDevice(one, found, stream) for one, stream in zip((first, second), streams, strict=True)]
        for _ in range(4):
            for one in placed:
                one.launch(blocks=4)
        for one, want in zip(placed, expected, strict=True):
            assert one.trial.faults(*one.result(), want) == []
        assert counts(found) == [0, 0]


def test_counts_that_are_left_are_seen() -> None:
    one = trial(712, 760)
    found = lowering(one, TILES[0])
    one.run(found, left_alone, blocks=4)
    assert counts(found, left_alone) != [0, 0]
