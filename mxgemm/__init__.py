"""mxgemm: matrix products on matrix units, only in ways that the program has consented to.

>>> import numpy as np
>>> import mxgemm as mx
>>> a = np.arange(6, dtype=np.int8).reshape(2, 3)
>>> mx.gemm(a, a, transpose_b=True)
array([[ 5, 14],
       [14, 50]], dtype=int32)
"""

from mxgemm import epilogue
from mxgemm.array_spec import ArraySpec
from mxgemm.autotune import Autotuned, autotune
from mxgemm.errors import (
    AccuracyWarning,
    CompilationError,
    DTypeError,
    KernelSyntaxError,
    MatrixProductAdvice,
    MxgemmError,
    MxgemmWarning,
    PerformanceAdvice,
    PolicyError,
    ShapeError,
    UnsupportedError,
    VerificationError,
)
from mxgemm.gemm import check, explain, gemm, gemm_grouped, gemm_outcome, prepare
from mxgemm.outcome import GemmResult, Outcome
from mxgemm.plan import Plan
from mxgemm.policy import (
    Decision,
    Grant,
    accept_automatic_float_rewrite,
    accept_contraction,
    accept_narrower_accumulator,
    accept_operand_rounding,
    accept_relaxed_accumulation,
    grants,
    set_reporter,
)
from mxgemm.verify import Certificate, CheckResult

__version__ = "0.1.0"

__all__ = [
    "AccuracyWarning",
    "ArraySpec",
    "Autotuned",
    "Certificate",
    "CheckResult",
    "CompilationError",
    "DTypeError",
    "Decision",
    "GemmResult",
    "Grant",
    "KernelSyntaxError",
    "MatrixProductAdvice",
    "MxgemmError",
    "MxgemmWarning",
    "Outcome",
    "PerformanceAdvice",
    "Plan",
    "PolicyError",
    "ShapeError",
    "UnsupportedError",
    "VerificationError",
    "accept_automatic_float_rewrite",
    "accept_contraction",
    "accept_narrower_accumulator",
    "accept_operand_rounding",
    "accept_relaxed_accumulation",
    "autotune",
    "check",
    "epilogue",
    "explain",
    "gemm",
    "gemm_grouped",
    "gemm_outcome",
    "grants",
    "prepare",
    "set_reporter",
]
