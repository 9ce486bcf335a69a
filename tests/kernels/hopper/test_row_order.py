"""The order of rows with A from registers (row_order.cuh): every row once, and no bank met twice."""

from __future__ import annotations

import itertools

import pytest

LANES, WARPS, ROW_BYTES, BANK_BYTES, BANKS = 32, 4, 128, 4, 32
PANEL_BYTES = 32 * ROW_BYTES  # rows of A along M, or rows of D, by 32


def row(warp: int, g: int) -> int:
    """The first of a thread's two neighbouring rows, as the kernel numbers them."""
    return warp // 2 * 32 + (g & 2) * 8 + warp % 2 * 8 + ((g >> 1 ^ g >> 2) & 1) * 4 + (g & 1) * 2


def nth(warp: int, i: int) -> int:
    """The warp's rows in ascending order, as the kernel numbers them."""
    return warp // 2 * 32 + i // 8 * 16 + warp % 2 * 8 + i % 8


def swizzled(line: int, row_of_d: int) -> int:
    """Where the copy engine puts element ``row_of_d`` of a line along M."""
    return (
        row_of_d // 32 * PANEL_BYTES
        + line * ROW_BYTES
        + (row_of_d % 32 // 4 ^ line % 8) * 16
        + row_of_d % 4 * 4
    )


def conflicts(addresses: list[int]) -> bool:
    """Whether 8-byte accesses of a warp, which go by half warps, meet a bank twice."""
    halves = (addresses[:16], addresses[16:])
    return any(len({x // (2 * BANK_BYTES) % (BANKS // 2) for x in half}) < 16 for half in halves)


def test_every_row_is_some_threads() -> None:
    found = [row(warp, g) + below for warp, g, below in itertools.product(range(WARPS), range(8), (0, 1))]
    assert sorted(found) == list(range(64))


def test_a_warps_rows_in_ascending_order() -> None:
    for warp in range(WARPS):
        assert sorted(row(warp, g) + below for g in range(8) for below in (0, 1)) == [
            nth(warp, i) for i in range(16)
        ]


def test_fragments_are_loaded_two_rows_at_a_time_without_conflicts() -> None:
    for warp, step, right in itertools.product(range(WARPS), range(4), (0, 1)):
        addresses = []
        for lane in range(LANES):
            first, k = row(warp, lane // 4), 8 * step + 4 * right + lane % 4
            own = (swizzled(lane % 4, first) ^ right << 6) + (8 * step + 4 * right) * ROW_BYTES
            assert (own, own + 4) == (swizzled(k, first), swizzled(k, first + 1))
            addresses.append(own)
        assert not conflicts(addresses)


def test_results_that_lie_along_rows_are_staged_without_conflicts() -> None:
    for warp, block, second in itertools.product(range(WARPS), range(4), (0, 1)):
        lines = [8 * block + 2 * (lane % 4) + second for lane in range(LANES)]
        assert not conflicts([swizzled(line, row(warp, lane // 4)) for lane, line in enumerate(lines)])


HALF_BYTES, STEP, CHUNK = PANEL_BYTES, 16, 32  # a chunk of D along its rows: two halves of 32 rows


def staged(*, from_registers: bool, flip: int = 16) -> dict[tuple[int, int], int]:
    """Where store.cuh puts each (row, column) of a chunk of D along its rows, thread by thread."""
    found: dict[tuple[int, int], int] = {}
    for warp, lane in itertools.product(range(WARPS), range(LANES)):
        first, col = (row(warp, lane // 4) if from_registers else 16 * warp + lane // 4), 2 * (lane % 4)
        spot = swizzled(col, first)
        for step, block, second in itertools.product((0, 1), (0, 1), (0, 1)):
            at = (spot ^ second * flip) + (STEP * step + 8 * block + second) * ROW_BYTES
            column = STEP * step + 8 * block + col + second
            found[first, column] = at
            lower = (1, at + BANK_BYTES) if from_registers else (8, at ^ 32)
            found[first + lower[0], column] = lower[1]
    return found


@pytest.mark.parametrize("from_registers", [False, True])
def test_results_along_rows_are_staged_where_the_copy_engine_reads_them(from_registers: bool) -> None:
    assert HALF_BYTES == CHUNK * ROW_BYTES
    want = {(r, c): swizzled(c, r) for r, c in itertools.product(range(64), range(CHUNK))}
    assert staged(from_registers=from_registers) == want


def matrix_lines(*, group: int = 16) -> dict[tuple[int, int, int, int], tuple[int, int, int]]:
    """(warp, step, matrix, line) to the address that a lane gives, and the row and column of what lies there.

    The lines of a matrix of 16-bit results along their rows are its columns, 8 rows long.
    """
    found = {}
    for warp, step, lane in itertools.product(range(WARPS), range(4), range(LANES)):
        piece = (16 * warp + lane % 8 + lane // 8 % 2 * 8) // 8
        line, i = lane // group * 8 + lane % 8, lane // 8
        at = line * ROW_BYTES + (piece ^ line % 8) * 16 + STEP * step * ROW_BYTES
        found[warp, step, i, lane % 8] = at, 16 * warp + 8 * (i % 2), 16 * step + 8 * (i // 2) + lane % 8
    return found


def misplaced(lines: dict[tuple[int, int, int, int], tuple[int, int, int]]) -> int:
    """How many of the lines lie elsewhere than where the copy engine reads a row of 128 bytes a column."""
    return sum(at != col * ROW_BYTES + (row_of_d // 8 ^ col % 8) * 16 for at, row_of_d, col in lines.values())


def test_16_bit_results_along_rows_are_staged_where_the_copy_engine_reads_them() -> None:
    lines = matrix_lines()
    assert misplaced(lines) == 0
    assert len({at for at, _, _ in lines.values()}) == 64 * 8  # all of 64 x 64 entries


def test_the_lines_of_a_matrix_meet_no_bank_twice() -> None:
    lines = matrix_lines()
    for warp, step, i in itertools.product(range(WARPS), range(4), range(4)):
        assert len({lines[warp, step, i, line][0] % ROW_BYTES for line in range(8)}) == 8


def test_matrices_side_by_side_that_change_places_are_noticed() -> None:
    assert misplaced(matrix_lines(group=32)) > 0


def test_a_line_swizzled_as_its_neighbour_is_noticed() -> None:
    assert staged(from_registers=True, flip=0) != staged(from_registers=True)


def test_rows_in_their_natural_order_would_conflict() -> None:
    assert conflicts([swizzled(lane % 4, 2 * (lane // 4)) for lane in range(LANES)])
