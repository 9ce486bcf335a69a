"""Evidence: what was measured of which kernel, on what, and whether it describes the kernel of today."""

from mxgemm.report.cases import Case, Layout, Product
from mxgemm.report.compilation import Compiled, compile_all
from mxgemm.report.environment import Environment, read_environment
from mxgemm.report.evidence import (
    CopyTime,
    CorrectnessRecord,
    KernelCount,
    Measurement,
    PerformanceRecord,
    Status,
)
from mxgemm.report.kernels import ListedKernel, covering_cases, listed, source_sha256, without_kernel
from mxgemm.report.listing import Row, rows

__all__ = [
    "Case",
    "Compiled",
    "CopyTime",
    "CorrectnessRecord",
    "Environment",
    "KernelCount",
    "Layout",
    "ListedKernel",
    "Measurement",
    "PerformanceRecord",
    "Product",
    "Row",
    "Status",
    "compile_all",
    "covering_cases",
    "listed",
    "read_environment",
    "rows",
    "source_sha256",
    "without_kernel",
]
