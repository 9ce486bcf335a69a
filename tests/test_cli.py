"""The command line: what it prints, what it writes, and the status that it ends with."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mxgemm import cli, units
from mxgemm.cli_gemm import number
from mxgemm.configs import CONFIGURATIONS, UNITS

RELAXED = "--accept=relaxed-accumulation=a test"


def mxgemm(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command in a process of its own, in `folder`; grants are for a process."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MXGEMM_")}
    return subprocess.run(
        [sys.executable, "-m", "mxgemm", *arguments],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@dataclass(frozen=True)
class Ended:
    """How a command ended, in the terms of subprocess.run."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run a command that gives no grant in this process, which spares an interpreter's start."""

    def run(folder: Path, *arguments: str) -> Ended:
        monkeypatch.chdir(folder)
        try:
            status = cli.main(arguments)
        except SystemExit as ending:
            status = ending.code
        printed = capsys.readouterr()
        return Ended(status, printed.out, printed.err)

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with A, B and C of small whole numbers, exact in every float type, and their exact product."""
    random = np.random.default_rng(5)
    a, b, c = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 7), (7, 3), (5, 3)))
    for name, x in (("A", a), ("B", b), ("C", c), ("AB", a @ b)):
        np.save(tmp_path / f"{name}.npy", x)
    return tmp_path


def read(folder: Path, name: str) -> np.ndarray:
    return np.load(folder / f"{name}.npy")


# configs


def test_configs_prints_every_row(here: Callable[..., Ended], tmp_path: Path) -> None:
    run = here(tmp_path, "configs")
    assert run.returncode == 0, run.stderr
    assert all(row.name in run.stdout for row in CONFIGURATIONS)


def test_configs_as_json_has_every_row_and_column(here: Callable[..., Ended], tmp_path: Path) -> None:
    table = json.loads(here(tmp_path, "configs", "--json").stdout)
    assert [row["name"] for row in table["configurations"]] == [row.name for row in CONFIGURATIONS]
    assert len(table["units"]) == len(UNITS)
    by_name = {row["name"]: row for row in table["configurations"]}
    split = by_name["float32/bf16x6"]
    assert split["products"] == [[1, 3], [3, 1], [2, 2], [1, 2], [2, 1], [1, 1]]
    assert (split["chain"], split["section"]) == (64, None)
    assert by_name["float8_e4m3fn|float8_e5m2/native"]["section"] == 8192
    assert split["grants"] == ["relaxed-accumulation", "operand-rounding-bf16x6"]
    assert split["costs"]["sm_90"]["basis"] in {"measured", "derived", "datasheet"}
    assert 2**-24 < split["bounds"]["sm_90"]["times_abs_a_abs_b"] < 2**-10


# gemm: what it computes


def test_gemm_writes_the_product(here: Callable[..., Ended], folder: Path) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", "--precision", "scalar", "-o", "D.npy")
    assert run.returncode == 0, run.stderr
    assert np.array_equal(read(folder, "D"), read(folder, "AB"))
    assert "float32/scalar" in run.stdout


def test_gemm_takes_c_alpha_and_beta(here: Callable[..., Ended], folder: Path) -> None:
    run = here(
        folder,
        *("gemm", "A.npy", "B.npy", "--c", "C.npy", "--alpha", "2", "--beta", "-0.5"),
        *("--precision", "scalar", "-o", "D.npy"),
    )
    assert run.returncode == 0, run.stderr
    assert np.array_equal(read(folder, "D"), 2 * read(folder, "AB") - 0.5 * read(folder, "C"))


def test_accept_gives_the_grants_of_a_precision(folder: Path) -> None:
    run = mxgemm(
        folder,
        *("gemm", "A.npy", "B.npy", "--precision", "bf16x6", RELAXED),
        *("--accept", "operand-rounding:bf16x6=24 bits = enough", "--verify", "full", "-o", "D.npy"),
    )
    assert run.returncode == 0, run.stderr
    assert np.array_equal(read(folder, "D"), read(folder, "AB"))
    assert "24 bits = enough" in run.stdout


def test_max_error_is_a_consent_of_its_own(here: Callable[..., Ended], folder: Path) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", "--max-error", "2**-6", "-o", "D.npy")
    assert run.returncode == 0, run.stderr
    assert "float32/bf16 " in run.stdout
    assert np.array_equal(read(folder, "D"), read(folder, "AB"))


def test_device_names_another_architecture(here: Callable[..., Ended], folder: Path) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", "--precision=scalar", "--device", "cpu:sm_80")
    assert run.returncode == 0, run.stderr
    assert "cpu:sm_80" in run.stdout


def test_dtype_rounds_and_says_so(folder: Path) -> None:
    run = mxgemm(
        folder, "gemm", "A.npy", "B.npy", "--dtype", "bfloat16", RELAXED, "--verify", "full", "-o", "D.npy"
    )
    assert run.returncode == 0, run.stderr
    assert "float32 rounded to bfloat16" in run.stdout
    written = read(folder, "D").view(ml_dtypes.bfloat16)
    assert np.array_equal(written.astype(np.float32), read(folder, "AB"))


def test_explain_lines_come_with_the_environment(folder: Path) -> None:
    run = mxgemm(folder, "gemm", "A.npy", "B.npy", "--precision=scalar", MXGEMM_EXPLAIN="1")
    assert "mxgemm-explain gemm cpu:sm_90 matrix refused" in run.stderr


# gemm: what it refuses, with status 2 and without writing


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A.npy", "missing.npy"], "missing.npy"),
        (["A.npy", "A.npy"], "ShapeError"),
        (["A.npy", "B.npy", "--precision", "fp4"], "bf16x9"),
        (["A.npy", "B.npy", "--precision", "bf16"], "--accept operand-rounding:bf16=REASON"),
        (["A.npy", "B.npy", "--accept", "relaxed-accumulation= "], "non-empty reason"),
        (["A.npy", "B.npy", "--accept", "relaxed-accumulation"], "supported are"),
        (["A.npy", "B.npy", "--accept", "speed=yes"], "supported are"),
        (["A.npy", "B.npy", "--accept", "operand-rounding:bf16x9=r"], "rounds no operand"),
        (["A.npy", "B.npy", "--dtype", "complex64"], "float8_e5m2"),
        (["A.npy", "B.npy", "--dtype", "int32"], "not converted"),
        (["A.npy", "B.npy", "--verify", "some"], "full"),
        (["A.npy", "B.npy", "--device", "tpu"], "cpu:<arch>"),
        (["A.npy", "B.npy", "--device", "cpu:sm_99"], "cpu:sm_80"),
        (["A.npy", "B.npy", "--alpha", "two"], "--alpha"),
        (["A.npy", "B.npy", "--max-error", "2**-60"], "smallest bound"),
        (["notes.npy", "B.npy"], "not a .npy file"),
        (["archive.npz", "B.npy"], "an archive"),
        (["objects.npy", "B.npy"], "objects.npy"),
        (["raw.npy", "B.npy"], "bfloat16"),
        (["A.npy", "B.npy", "-o", "no/such/folder/D.npy", "--precision", "scalar"], "cannot be written"),
        (["A.npy"], "B.npy"),
    ],
)
def test_bad_input_ends_with_status_2_and_names_what_is_wrong(
    here: Callable[..., Ended], folder: Path, arguments: list[str], message: str
) -> None:
    (folder / "notes.npy").write_text("no matrix")
    np.savez(folder / "archive.npz", x=np.ones(3))
    np.save(folder / "objects.npy", np.array([[None]]), allow_pickle=True)
    np.save(folder / "raw.npy", np.ones((5, 7), ml_dtypes.bfloat16).view("V2"))
    output = [] if "-o" in arguments else ["-o", "D.npy"]
    run = here(folder, "gemm", *arguments, *output)
    assert run.returncode == 2, run.stderr
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert not (folder / "D.npy").exists()


def test_a_restriction_wins_over_accept(folder: Path) -> None:
    run = mxgemm(
        folder,
        *("gemm", "A.npy", "B.npy", "--precision", "bf16x9", RELAXED),
        MXGEMM_DISABLE="accumulation-order",
    )
    assert run.returncode == 2
    assert "MXGEMM_DISABLE=accumulation-order" in run.stderr


def test_a_grant_that_is_still_missing_is_named_as_an_option(folder: Path) -> None:
    run = mxgemm(folder, "gemm", "A.npy", "B.npy", "--precision", "bf16", RELAXED)
    assert run.returncode == 2
    assert "needs --accept operand-rounding:bf16=REASON" in run.stderr


def test_an_unknown_command_ends_with_status_2(here: Callable[..., Ended], tmp_path: Path) -> None:
    assert here(tmp_path, "multiply").returncode == 2


# gemm: a failed verification


def test_a_failed_verification_ends_with_status_1_prints_the_certificate_and_writes_nothing(
    here: Callable[..., Ended], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = units.run

    def faulty(*arguments: object, **options: object) -> units.UnitRun:
        found = honest(*arguments, **options)
        found.array[0, 0] += 1
        return found

    monkeypatch.setattr(units, "run", faulty)
    run = here(folder, "gemm", "A.npy", "B.npy", "--precision=scalar", "--verify=full", "-o", "D.npy")
    assert run.returncode == 1, run.stderr
    assert "certificate: FAILED, level full" in run.stdout
    assert "at [0, 0]" in run.stdout
    assert "verification failed" in run.stderr
    assert not (folder / "D.npy").exists()


# demo


@pytest.mark.slow
def test_demo_runs_every_precision_within_its_bound(tmp_path: Path) -> None:
    run = mxgemm(tmp_path, "demo", "--tokens", "3")
    assert run.returncode == 0, run.stderr
    assert "no verification failed" in run.stdout
    ran = {line.split()[0] for line in run.stdout.splitlines() if " no grant " in line or " relaxed-" in line}
    assert ran == {row.precision for row in CONFIGURATIONS}
    assert "needs mxgemm.accept_relaxed_accumulation(reason=...)" in run.stdout


def test_demo_obeys_the_environment(tmp_path: Path) -> None:
    run = mxgemm(tmp_path, "demo", "--tokens", "1", MXGEMM_DISABLE="matrix")
    assert run.returncode == 0, run.stderr
    assert "MXGEMM_DISABLE=matrix leaves only scalar" in run.stdout


@pytest.mark.parametrize("tokens", ["0", "257"])
def test_demo_says_how_many_tokens_there_are(here: Callable[..., Ended], tmp_path: Path, tokens: str) -> None:
    run = here(tmp_path, "demo", "--tokens", tokens)
    assert run.returncode == 2
    assert "1 to 256" in run.stderr


# Numbers and files


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-0.5", -0.5), ("2**-20", 2.0**-20), ("1e-3", 1e-3), ("2**5", 32), ("2**2000", 2**2000),
     ("-inf", -np.inf), ("0e-999", 0.0)],
)  # fmt: skip
def test_numbers_keep_whether_they_are_whole(text: str, value: float) -> None:
    assert number(text) == value
    assert type(number(text)) is type(value)


@pytest.mark.parametrize("text", ["2**-5000", "1e500", "-1e500", "1e-400", "two", "2**", ""])
def test_no_number_becomes_0_or_inf_on_its_way(here: Callable[..., Ended], folder: Path, text: str) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", f"--alpha={text}")
    assert run.returncode == 2
    assert "beyond float64" in run.stderr or "is no number" in run.stderr


@pytest.mark.parametrize("text", ["-1e-3", "-.5", "-2", "-inf"])
def test_a_negative_number_is_no_option(here: Callable[..., Ended], folder: Path, text: str) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", "--alpha", text, "--precision", "scalar")
    assert run.returncode == 0, run.stderr
    assert f"identity({number(text)}*A*B)" in run.stdout


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"PK\x03\x04 no archive", b"\x93NUMPY\x09\x00 of no version", "(10**20, 4)",
     "(10_000_000, 10_000_000)", "(-1, 4)", "(", "(2, 2)"],
)  # fmt: skip
def test_a_damaged_file_ends_with_status_2(
    here: Callable[..., Ended], folder: Path, content: bytes | str
) -> None:
    if isinstance(content, str):
        shape = content.replace("10**20", str(10**20))
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
        content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (folder / "bad.npy").write_bytes(content)
    run = here(folder, "gemm", "bad.npy", "B.npy")
    assert run.returncode == 2
    assert "bad.npy: not a .npy file that can be read" in run.stderr


def test_c_and_beta_go_together(here: Callable[..., Ended], folder: Path) -> None:
    run = here(folder, "gemm", "A.npy", "B.npy", "--beta", "2")
    assert run.returncode == 2
    assert "no --c" in run.stderr
    run = here(folder, "gemm", "A.npy", "B.npy", "--c", "C.npy", "--precision=scalar")
    assert run.returncode == 0, run.stderr
    assert "C: not read, since --beta is 0" in run.stdout


def test_a_disk_that_fills_leaves_the_old_result(folder: Path) -> None:
    before = np.zeros((40, 24), np.float32)
    np.save(folder / "D.npy", before)
    command = f"ulimit -f 1; exec {sys.executable} -m mxgemm gemm A.npy B.npy --precision scalar -o D.npy"
    np.save(folder / "A.npy", np.ones((40, 6), np.float32))
    np.save(folder / "B.npy", np.ones((6, 24), np.float32))
    run = subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stdout + run.stderr
    assert "D.npy: cannot be written" in run.stderr
    assert np.array_equal(np.load(folder / "D.npy"), before)
    assert not list(folder.glob(".*"))


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mxgemm", "configs", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 0
    assert errors == b""


def test_too_little_memory_ends_with_status_2(
    here: Callable[..., Ended], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 364 TiB")

    monkeypatch.setattr(units, "run", exhausted)
    run = here(folder, "gemm", "A.npy", "B.npy", "--precision=scalar")
    assert run.returncode == 2
    assert "364 TiB" in run.stderr
