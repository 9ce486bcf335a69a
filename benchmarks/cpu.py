"""Speed, import time and memory of the CPU models, against the limits that the project sets itself.

``python benchmarks/cpu.py`` prints the table; ``--write reports/cpu`` also writes it as JSON and Markdown.
Each line is measured in an interpreter of its own, as the median of a few runs after one to warm up.  Lines
that compare two things run them in turn.  A time limit assumes two cores that do nothing else.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
MIB = 2**20


@dataclass(frozen=True)
class Line:
    """One measured figure and its limit, in the unit that its name states."""

    name: str
    measured: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.measured <= self.limit


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work: Callable[[], object], repeats: int) -> float:
    work()
    return statistics.median(seconds(work) for _ in range(repeats))


# What is measured: its name, the limit and its unit, the measurement and its arguments.
Request = tuple[str, float, str, tuple[str, ...]]


# What the child interpreters do. Each measurement prints one number.


def product(dtype: str, precision: str, n: int) -> Callable[[], object]:
    """A product of random n×n matrices, every grant given; float operands are uniform in [−1, 1)."""
    import numpy as np

    import mxgemm as mx
    from mxgemm.configs import rounding_precisions

    mx.accept_relaxed_accumulation(reason="benchmark")
    for name in rounding_precisions():
        mx.accept_operand_rounding(name, reason="benchmark")
    random = np.random.default_rng(2026)
    if "int" in dtype:
        limits = np.iinfo(dtype)
        a, b = (random.integers(limits.min, limits.max, (n, n), dtype, endpoint=True) for _ in "ab")
    else:
        drawn = np.float64 if dtype == "float64" else np.float32
        a, b = ((2 * random.random((n, n), drawn) - 1).astype(dtype, copy=False) for _ in "ab")
    return lambda: mx.gemm(a, b, precision=precision)


def time_product(dtype: str, precision: str, n: str) -> float:
    """Seconds for one product."""
    return median_seconds(product(dtype, precision, int(n)), 3)


def time_batch(dtype: str, precision: str, products: str) -> float:
    """Seconds for a batch of products of 1×1 matrices."""
    import numpy as np

    import mxgemm as mx

    product(dtype, precision, 8)()
    a = np.ones((int(products), 1, 1), dtype)
    return median_seconds(lambda: mx.gemm(a, a, precision=precision), 3)


def int8_against_blas(n: str) -> float:
    """Time of an exact int8 product over the same product in exact K blocks of float64 BLAS."""
    import numpy as np

    import mxgemm as mx

    size = int(n)
    random = np.random.default_rng(2026)
    a, b = (random.integers(-128, 127, (size, size), np.int8, endpoint=True) for _ in "ab")
    block = 2**16  # products of 2^14 sum exactly in float64 far beyond this, and in int64

    def blas() -> object:
        total = np.zeros((size, size), np.int64)
        for k in range(0, size, block):
            part = a[:, k : k + block].astype(np.float64) @ b[k : k + block].astype(np.float64)
            total += part.astype(np.int64)
        return total.astype(np.int32)

    if not np.array_equal(mx.gemm(a, b), blas()):
        raise SystemExit("the two int8 products differ")
    ours, theirs = zip(*((seconds(lambda: mx.gemm(a, b)), seconds(blas)) for _ in range(7)), strict=True)
    return statistics.median(ours) / statistics.median(theirs)


def memory_of_product(dtype: str, precision: str, n: str) -> float:
    """Peak MiB of one product, operands included, beyond the interpreter with its libraries warm."""
    import numpy as np

    product(dtype, precision, 8)()
    warm = np.ones((64, 64))
    warm @ warm
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    product(dtype, precision, int(n))()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) * 1024 / MIB


def import_beyond_numpy() -> float:
    """Seconds that ``import mxgemm`` takes in an interpreter that has imported NumPy."""
    code = "import time, numpy; t = time.perf_counter(); import mxgemm; print(time.perf_counter() - t)"
    times = []
    for _ in range(7):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(float(run.stdout))
    return statistics.median(times)


MEASUREMENTS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (time_product, time_batch, int8_against_blas, memory_of_product, import_beyond_numpy)
}


def memory_limit(n: int, operand_bytes: int, result_bytes: int) -> float:
    """Twelve times operands and result plus 64 MB, in MiB."""
    return (12 * n * n * (2 * operand_bytes + result_bytes) + 64e6) / MIB


def memory_line(dtype: str, precision: str, n: int, operand_bytes: int, result_bytes: int) -> Request:
    limit = memory_limit(n, operand_bytes, result_bytes)
    call = ("memory_of_product", dtype, precision, str(n))
    return f"peak memory, {dtype} {precision}, {n}^3", limit, "MiB", call


LINES: tuple[Request, ...] = (
    ("float16 native, 512^3", 1.5, "s", ("time_product", "float16", "native", "512")),
    ("float32 bf16x6, 512^3", 8.0, "s", ("time_product", "float32", "bf16x6", "512")),
    ("float32 scalar, 512^3", 3.0, "s", ("time_product", "float32", "scalar", "512")),
    ("float64 scalar, 512^3", 15.0, "s", ("time_product", "float64", "scalar", "512")),
    ("float32 bf16x6, 65,536 products of 1^3", 1.0, "s", ("time_batch", "float32", "bf16x6", "65536")),
    ("int8 exact over float64 BLAS, 1024^3", 2.0, "x", ("int8_against_blas", "1024")),
    ("import beyond NumPy's own", 0.3, "s", ("import_beyond_numpy",)),
    memory_line("float16", "native", 512, 2, 2),
    memory_line("float32", "bf16x6", 512, 4, 4),
    memory_line("float32", "scalar", 512, 4, 4),
    memory_line("float64", "scalar", 512, 8, 8),
    memory_line("float32", "i8crt8", 1024, 4, 4),
    memory_line("int8", "exact", 1024, 1, 4),
    memory_line("int64", "exact", 1024, 8, 8),
)


def measure(call: tuple[str, ...]) -> float:
    """Run one measurement in an interpreter of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", *call]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(run.stdout.splitlines()[-1])


def source_hash() -> str:
    """SHA-256 over the package's sources: each path and text, in order of path."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "mxgemm").rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def processor() -> str:
    """The processor's name, where the system tells it."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def context() -> dict[str, str]:
    """What the figures belong to."""
    versions = {name: metadata.version(name) for name in ("mxgemm", "numpy", "mpmath", "ml_dtypes")}
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "device": f"{processor()}, {len(os.sched_getaffinity(0))} cores",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions,
        "source_sha256": source_hash(),
    }


def markdown(lines: list[Line], about: dict[str, str]) -> str:
    head = "# CPU models: speed, import and memory\n\nWritten by `benchmarks/cpu.py --write reports/cpu`.\n\n"
    facts = "".join(f"- {name}: {value}\n" for name, value in about.items())
    rows = "".join(
        f"| {line.name} | {line.measured:.3g} {line.unit} | {line.limit:.3g} {line.unit} "
        f"| {'yes' if line.holds else '**no**'} |\n"
        for line in lines
    )
    return f"{head}{facts}\n| what | measured | limit | holds |\n|---|---|---|---|\n{rows}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(MEASUREMENTS[options.measure[0]](*options.measure[1:]))
        return 0
    lines = []
    for name, limit, unit, call in LINES:
        line = Line(name, measure(call), limit, unit)
        print(
            f"{name:40} {line.measured:10.3g} of {limit:.3g} {unit}{'' if line.holds else '  OVER'}",
            flush=True,
        )
        lines.append(line)
    about = context()
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        rows = [{**asdict(line), "holds": line.holds} for line in lines]
        (options.write / "cpu.json").write_text(json.dumps({**about, "lines": rows}, indent=2) + "\n")
        (options.write / "cpu.md").write_text(markdown(lines, about))
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
