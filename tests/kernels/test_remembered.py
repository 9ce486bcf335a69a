"""Measured choices: what tells products apart, and what files survive or refuse."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mxgemm.configs import configuration
from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels import Choice, remembered, signature
from mxgemm.kernels.remembered import Key
from mxgemm.kernels.tuned import kernels_sha256
from mxgemm.problem import GemmProblem, pose
from mxgemm.shapes import Operand

F16 = configuration("float16", "float16", "native")
KEY = Key("NVIDIA H200", 132, "a product")
CHOICE = Choice(
    "mxgemm_wgmma_1", "128x256", 1.5, "mxgemm_wgmma_2", "128x128", 2.5, 9, "2026-05-04T03:02:01+00:00"
)


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(tmp_path))
    remembered.forget()
    yield tmp_path
    remembered.forget()


def kept(key: Key = KEY, choice: Choice = CHOICE) -> Path:
    """The file of a choice; the process has forgotten it."""
    path = Path(remembered.keep(key, choice, {choice.entry: choice.microseconds}))
    remembered.forget()
    return path


# Words


def test_a_choice_says_when_and_by_how_much() -> None:
    assert CHOICE.why == (
        "measured by autotune on 2026-05-04: 1.5 us, least of 9 candidates; model's choice 2.5 us (128x128)"
    )
    same = CHOICE._replace(model_entry=CHOICE.entry)
    assert same.why.endswith("1.5 us, least of 9 candidates and the model's choice too")


# Keys


def words(problem: GemmProblem, *, alignment: Any = None, copied: Any = (), arch: str = "sm_90") -> str:
    return signature(problem, F16, arch, alignment or {}, copied)


def product(**more: Any) -> GemmProblem:
    a, b = Operand("float16", (64, 32), (32, 1)), Operand("float16", (32, 48), (48, 1))
    return pose(more.pop("a", a), more.pop("b", b), more.pop("c", None), **more)[0]


C = Operand("float16", (64, 48), (48, 1))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"alpha": 2.5}),
        ({"c": C, "beta": 1}, {"c": C, "beta": -0.5}),
        ({"epilogue": EpilogueSpec("clamp", 0, 1)}, {"epilogue": EpilogueSpec("clamp", -3, 4)}),
        ({}, {"overlaps": ("a",)}),
    ],
)
def test_values_do_not_tell_products_apart(one: Any, other: Any) -> None:
    assert words(product(**one)) == words(product(**other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"alpha": 0}),
        ({}, {"c": C}),
        ({"c": C, "beta": 1}, {"c": C, "beta": 0}),
        ({}, {"epilogue": EpilogueSpec("relu")}),
        ({}, {"b": Operand("float16", (32, 48), (1, 32))}),
        ({}, {"b": Operand("float16", (32, 48), (56, 1))}),
        ({}, {"b": Operand("float16", (32, 40), (40, 1))}),
        ({}, {"d": Operand("float16", (64, 48), (64, 1))}),
        ({}, {"out_dtype": "float32"}),
    ],
)
def test_whatever_moves_the_times_tells_products_apart(one: Any, other: Any) -> None:
    assert words(product(**one)) != words(product(**other))


def test_alignment_copies_architecture_and_configuration_tell_apart() -> None:
    p = product()
    found = {
        words(p), words(p, alignment={"a": 4}), words(p, copied={"a"}), words(p, arch="sm_80"),
        signature(p, configuration("float16", "float16", "scalar"), "sm_90", {}, ()),
    }  # fmt: skip
    assert len(found) == 5
    assert words(p) == words(p, alignment={"a": 16, "d": 16, "c": 2})  # there is no C


def test_devices_tell_apart() -> None:
    others = (KEY._replace(device="NVIDIA H100"), KEY._replace(multiprocessors=114))
    assert len({KEY.digest, *(one.digest for one in others)}) == 3


# Files


@pytest.mark.usefixtures("cache")
def test_a_choice_is_found_again_in_this_process_and_in_the_next() -> None:
    remembered.keep(KEY, CHOICE, {})
    assert remembered.find(KEY) == CHOICE
    remembered.forget()
    assert remembered.find(KEY) == CHOICE
    assert remembered.find(KEY._replace(signature="another product")) is None


def test_the_later_choice_replaces_the_earlier(cache: Path) -> None:
    kept()
    later = CHOICE._replace(entry="mxgemm_mma_sync_3")
    kept(choice=later)
    assert remembered.find(KEY) == later
    assert [path.suffix for path in (cache / "autotune").iterdir()] == [".json"]


def test_changed_kernels_void_what_was_measured(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept()
    monkeypatch.setattr(remembered, "kernels_sha256", lambda: "0" * 64)
    with caplog.at_level(logging.WARNING, "mxgemm.autotune"):
        assert remembered.find(KEY) is None
        assert remembered.find(KEY) is None
    (line,) = caplog.messages  # said once
    assert "was measured with other kernels; mxgemm.autotune replaces it" in line
    assert str(cache) in line


def test_every_file_that_decides_kernels_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mxgemm.kernels import tuned

    (tmp_path / "hopper").mkdir()
    for name in ("tuned.py", "hopper/stage.cuh", "hopper/tiles.py"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(tuned, "__file__", str(tmp_path / "tuned.py"))
    found = set()
    for name in ("", "hopper/stage.cuh", "hopper/tiles.py"):
        if name:
            (tmp_path / name).write_text("two")
        kernels_sha256.cache_clear()
        found.add(kernels_sha256())
    (tmp_path / "notes.txt").write_text("three")
    kernels_sha256.cache_clear()
    found.add(kernels_sha256())
    kernels_sha256.cache_clear()
    assert len(found) == 3


def edited(path: Path, **changes: Any) -> str:
    return json.dumps({**json.loads(path.read_text()), **changes})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (lambda _: "", "is no JSON"),
        (lambda path: path.read_text()[:-40], "is no JSON"),
        (lambda _: "[]", "is no mxgemm autotune file"),
        (lambda _: "null", "is no mxgemm autotune file"),
        (lambda _: "[" * 100_000, "is"),
        (lambda _: '{"kind": "performance", "schema": 1}', "is no mxgemm autotune file of schema 1"),
        (lambda path: edited(path, schema=2), "of schema 1"),
        (lambda path: edited(path, device="NVIDIA H100"), "belongs to another device or product"),
        (lambda path: edited(path, signature=["a"]), "belongs to another device or product"),
        (lambda path: edited(path, multiprocessors="132"), "belongs to another device or product"),
        (lambda path: edited(path, choice=None), "holds no choice"),
        (lambda path: edited(path, choice={}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "more": 1}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "entry": 7}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "microseconds": "1"}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "candidates": True}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "candidates": 2.0}), "holds no choice"),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "microseconds": 10**400}), "holds no choice"),
        (
            lambda path: edited(path, choice={**CHOICE._asdict(), "microseconds": float("nan")}),
            "holds no choice",
        ),
        (lambda path: edited(path, choice={**CHOICE._asdict(), "model_microseconds": -1}), "holds no choice"),
    ],
)
@pytest.mark.usefixtures("cache")
def test_a_damaged_or_foreign_file_costs_a_log_line(
    text: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = kept()
    path.write_text(text(path))
    with caplog.at_level(logging.WARNING, "mxgemm.autotune"):
        assert remembered.find(KEY) is None
    (line,) = caplog.messages
    assert reason in line
    assert remembered.keep(KEY, CHOICE, {}) == str(path)
    remembered.forget()
    assert remembered.find(KEY) == CHOICE


@pytest.mark.usefixtures("cache")
def test_bytes_that_are_no_text_cost_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    kept().write_bytes(b"\xff\xfe\x00")
    with caplog.at_level(logging.WARNING, "mxgemm.autotune"):
        assert remembered.find(KEY) is None
    assert len(caplog.messages) == 1


@pytest.mark.usefixtures("cache")
def test_a_folder_in_the_files_place_costs_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    path = kept()
    path.unlink()
    path.mkdir()
    with caplog.at_level(logging.WARNING, "mxgemm.autotune"):
        assert remembered.find(KEY) is None
        assert remembered.keep(KEY, CHOICE, {}).startswith("in this process only (")
    assert remembered.find(KEY) == CHOICE
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_made_costs_a_log_line(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (cache / "file").write_text("")
    monkeypatch.setenv("MXGEMM_CACHE_DIR", str(cache / "file"))
    with caplog.at_level(logging.WARNING, "mxgemm.autotune"):
        assert remembered.find(KEY) is None
        assert remembered.keep(KEY, CHOICE, {}).startswith("in this process only (")
    assert len(caplog.messages) == 1
    assert remembered.find(KEY) == CHOICE


def test_whoever_shares_the_folder_may_read_a_choice(cache: Path) -> None:
    before = os.umask(0o022)
    try:
        path = kept()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.parent.parent == cache


def test_without_a_disk_the_process_remembers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXGEMM_CACHE_DIR", "0")
    assert remembered.keep(KEY, CHOICE, {}) == "in this process only (MXGEMM_CACHE_DIR=0)"
    assert remembered.find(KEY) == CHOICE
    assert list(cache.iterdir()) == []


@pytest.mark.usefixtures("cache")
def test_a_change_is_seen_by_its_number() -> None:
    numbers = {remembered.version()}
    remembered.keep(KEY, CHOICE, {})
    numbers.add(remembered.version())
    remembered.forget()
    numbers.add(remembered.version())
    remembered.find(KEY)
    assert len(numbers) == 3
    assert remembered.version() in numbers


# At once


@pytest.mark.usefixtures("cache")
def test_threads_may_keep_and_find_at_once() -> None:
    stop, broken = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            remembered.forget()
            found = remembered.find(KEY)
            if found is None or found.variant != "128x256":
                broken.append(found)

    kept()
    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        writers = [
            threads.submit(remembered.keep, KEY, CHOICE._replace(entry=f"mxgemm_{i}"), {}) for i in range(60)
        ]
        for writer in writers:
            writer.result()
        stop.set()
        for reader in readers:
            reader.result()
    assert broken == []


PROCESS = """
import sys
from tests.kernels.test_remembered import CHOICE, KEY, remembered
for i in range(40):
    remembered.keep(KEY, CHOICE._replace(entry=sys.argv[1]), {str(j): 1.0 for j in range(int(sys.argv[2]))})
    remembered.forget()
    assert remembered.find(KEY).entry in ("one", "other"), i
"""


def test_two_processes_may_write_at_once(cache: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", PROCESS, *more], stderr=subprocess.PIPE)
        for more in (("one", "1"), ("other", "400"))
    ]
    errors = [one.communicate(timeout=60)[1].decode() for one in running]
    assert errors == ["", ""]
    found = remembered.find(KEY)
    assert found is not None
    assert found.entry in ("one", "other")
    assert len(list((cache / "autotune").iterdir())) == 1
