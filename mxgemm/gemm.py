"""gemm(): the public face of the road from a question to a checked array.

Each function reads its arguments into a :class:`~mxgemm.call.Call`, plans it under the
process's policy, runs the plan and reports what ran.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import numpy as np

from mxgemm import array
from mxgemm import verify as verification
from mxgemm.array_spec import as_view
from mxgemm.call import host_operands, read_call
from mxgemm.device.driver import Process as process  # noqa: N813  # read at every call
from mxgemm.epilogue import Epilogue
from mxgemm.errors import DTypeError, ShapeError
from mxgemm.gpu import compile_ahead
from mxgemm.options import Options
from mxgemm.outcome import GemmResult
from mxgemm.plan import Plan, named
from mxgemm.plan import plan as make_plan
from mxgemm.policy import default_policy
from mxgemm.problem import check_dtypes, without_vanishing_terms
from mxgemm.road import begin, finish, run_and_verify
from mxgemm.verify import CheckResult
from mxgemm.warm import WarmCalls

__all__ = ["check", "explain", "forget_warmed", "gemm", "gemm_grouped", "gemm_outcome", "prepare"]

_WARM = WarmCalls()
_Terms = tuple[tuple[str, ...] | None, Any, tuple[Any, Any] | None]
_NO_TERMS: _Terms = ((), None, None)
# Scalars that equal one another within their class only where they mean the same.
_PLAIN = frozenset({int, float, *(np.dtype(code).type for code in "bhilqBHILQefd")})


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    precision: str | None = None,
    max_error: float | None = None,
    out: Any = None,
    out_dtype: Any = None,
    epilogue: Epilogue | None = None,
    verify: str | None = None,
    device: str | None = None,
    stream: Any = None,
    workspace: Any = None,
) -> Any:
    """D = epilogue(alpha·op(A)·op(B) + beta·C), within the accuracy that the program accepted.

    Parameters
    ----------
    a, b : array
        (…, M, K) and (…, K, N) after op(); 1-d operands and batches as in ``numpy.matmul``.
        NumPy, CuPy, torch, JAX or any array with DLPack or ``__cuda_array_interface__``.
    c : array, optional
        D's shape (its batch may broadcast), of the result's or the accumulator's type.
    alpha, beta : scalar
        Rounded to the accumulator's type; beta = 0 never reads C, alpha = 0 never A and B, and
        without C there is no term for beta to scale.
    transpose_a, transpose_b : bool
        Op(X) swaps the last two axes.
    precision : str, optional
        A row of the configuration table by name; None is the fastest that the grants admit.
    max_error : float, optional
        Budget for A·B in units of |A||B|, a consent for this call alone.
    out : array, optional
        Where D goes; untouched when the call fails.
    out_dtype : element type, optional
        See :func:`mxgemm.problem.out_dtypes`; None is int32 for 8-bit integers, float32 for
        fp8, else the operands' type.
    epilogue : Epilogue, optional
        From ``mxgemm.epilogue``.
    verify : {"full"}, optional
        Check every entry against its bound before D is handed out.
    device : str, optional
        "cpu" models Hopper, "cpu:sm_80" another architecture, "cuda" runs NumPy arrays on the GPU.
    stream : stream or int, optional
        Of the device; None is the current stream of the library of ``out``, else of A.  On the CPU only None.
    workspace : array, optional
        uint8 on the device, at least ``Plan.workspace_bytes``, 16-byte aligned, apart from the operands;
        None allocates what is needed, which a CUDA graph cannot capture.  On the CPU only None.

    Returns
    -------
    array
        Of A's library, or ``out``.

    Raises
    ------
    ShapeError, DTypeError, UnsupportedError
        For arguments that do not fit; each says what is supported.
    PolicyError
        For a precision that the program has not accepted; names the missing call.
    VerificationError
        When ``verify`` finds an entry outside its bound; the certificate and the array are attached.
    """
    policy = default_policy()
    # A call that repeats one exactly (mxgemm.warm_repeats), in line: another function would cost it a tenth.
    if (
        c is None and epilogue is None and stream is None and workspace is None and verify is None
        and out_dtype is None and device is None
    ):  # fmt: skip
        look = _WARM.repeats.get(out.__class__)
        repeat = None if look is None else look[0](look[1], a, b, out)
        if repeat is not None:
            alpha_, beta_, turn_a, turn_b, name, budget, of, grants, current, at, launch, given, _ = repeat
            if (
                alpha is alpha_ and beta is beta_ and transpose_a is turn_a and transpose_b is turn_b
                and precision is name and max_error is budget
                and policy is of and policy.unheard == grants
                and current() == at and not process.forked and launch(*given) == 0
            ):  # fmt: skip
                return out
    key = None
    of_alpha, of_beta = alpha.__class__, beta.__class__
    plain = of_alpha in _PLAIN and of_beta in _PLAIN
    # 1 hashes like True, and only the slow road says that op() takes a bool.
    plain = plain and transpose_a.__class__ is transpose_b.__class__ is bool
    terms, bias, scales = _NO_TERMS if epilogue is None else _terms(epilogue)
    if plain and verify is None and terms is not None:
        keywords: tuple[Any, ...] = (
            of_alpha, of_beta, precision.__class__, max_error.__class__,
            alpha, beta, transpose_a, transpose_b, precision, max_error, *terms,
        )  # fmt: skip
        if out_dtype is not None or device is not None:
            keywords += (out_dtype.__class__, device.__class__, out_dtype, device)
        result, key = _WARM.attempt(policy, a, b, c, out, bias, scales, workspace, stream, keywords)
        if result is not None:
            return result
    options: Options = {
        "alpha": alpha, "beta": beta, "transpose_a": transpose_a, "transpose_b": transpose_b,
        "precision": precision, "max_error": max_error, "out": out, "out_dtype": out_dtype,
        "epilogue": epilogue, "verify": verify, "device": device, "stream": stream, "workspace": workspace,
    }  # fmt: skip
    version = _WARM.version
    begun = begin((a, b, c), options, policy)
    result = finish(begun, policy, observed=False).array
    if key is not None:
        _WARM.remember(key, begun, version)
    return result


def _terms(epilogue: Any) -> _Terms:
    """What stands for an epilogue among the keywords (None: the call is not warmed), its bias and scales."""
    if epilogue.__class__ is not Epilogue:
        return None, None, None
    fields: tuple[Any, ...] = epilogue
    activation, low, high, bias, rows, cols = fields
    scales = None if rows is None and cols is None else (rows, cols)
    if activation.__class__ is not str or low.__class__ not in _PLAIN or high.__class__ not in _PLAIN:
        return None, None, None
    # Limits by their text, since -0.0 is not 0.0 and 1.0 no integer.
    return (activation, repr(low), repr(high)) if activation == "clamp" else (activation,), bias, scales


def forget_warmed() -> None:
    """Let every later call choose its kernel anew."""
    _WARM.forget()


def gemm_outcome(a: Any, b: Any, c: Any = None, **options: Unpack[Options]) -> GemmResult:
    """As :func:`gemm`, and also what ran: ``r.array``, ``r.outcome``, ``r.certificate``."""
    policy = default_policy()
    return finish(begin((a, b, c), options, policy), policy)


def gemm_grouped(products: Iterable[Sequence[Any]], **options: Unpack[Options]) -> list[Any]:
    """Several independent products, ``(a, b)`` or ``(a, b, c)`` each, of any shapes.

    Parameters
    ----------
    products : iterable of tuples of arrays
    **options
        As :func:`gemm`; ``out`` is a list with one array (or None) a product.

    Returns
    -------
    list of array
        In the order given.

    Raises
    ------
    ShapeError
        For a tuple of another length, or an ``out`` of another length.
    MxgemmError
        As :func:`gemm`, with a note that names the product.  All products are planned before
        the first one runs, so that a bad one costs nothing, and verified before the first
        ``out`` is written.
    """
    policy = default_policy()
    listed = list(products)
    each = _options_of_each(len(listed), options)
    begun = []
    for i, (product, own) in enumerate(zip(listed, each, strict=True)):
        try:
            begun.append(begin(_operands(product), own, policy))
        except Exception as error:
            error.add_note(f"in product {i} of gemm_grouped")
            raise
    ready = [run_and_verify(one, policy, observed=False) for one in begun]
    return [hand_out().array for hand_out in ready]


def _operands(product: Sequence[Any]) -> tuple[Any, Any, Any]:
    # An array is a sequence too, of its rows: it must not pass as a product of them.
    if not isinstance(product, tuple | list) or len(product) not in (2, 3):
        what = f"{len(product)} arrays" if isinstance(product, tuple | list) else type(product).__name__
        raise ShapeError(f"a product is a tuple (a, b) or (a, b, c); got {what}")
    return (*product, None) if len(product) == 2 else (product[0], product[1], product[2])


def _options_of_each(count: int, options: Options) -> list[Options]:
    outs = options.get("out")
    if outs is None:
        outs = [None] * count
    if not isinstance(outs, list | tuple) or len(outs) != count:
        raise ShapeError(f"out= must be a list with one array for each of the {count} products")
    return [{**options, "out": out} for out in outs]


def explain(a: Any, b: Any, c: Any = None, **options: Unpack[Options]) -> Plan:
    """The Plan that :func:`gemm` would run with these arguments; nothing runs, nothing is reported."""
    return begin((a, b, c), options, default_policy()).plan


def prepare(a: Any, b: Any, c: Any = None, **options: Unpack[Options]) -> Plan:
    """Compile everything that :func:`gemm` would launch with these arguments; nothing runs.

    Parameters
    ----------
    a, b, c, and ``out`` among the options : array or ArraySpec
        Arrays, or what they will look like: shape, strides and element type.
    **options
        As :func:`gemm`.

    Returns
    -------
    Plan
        With ``workspace_bytes`` for a later call under CUDA graph capture.

    Raises
    ------
    MxgemmError
        As :func:`gemm`.
    """
    own: Options = {**options, "out": as_view(options.get("out"))}
    begun = begin((as_view(a), as_view(b), as_view(c)), own, default_policy())
    if begun.lowering is not None:
        compile_ahead(begun.lowering, int(begun.plan.capabilities.backend.removeprefix("cuda:")))
    return begun.plan


def check(
    result: Any,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: Any = 1,
    beta: Any = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    precision: str | None = None,
    epilogue: Epilogue | None = None,
    out_dtype: Any = None,
    device: str | None = None,
) -> CheckResult:
    """Check every entry of ``result`` against the bound of its configuration.

    Parameters
    ----------
    result : array
        D, from anywhere: mxgemm, another library, another machine.
    a, b, c, alpha, beta, transpose_a, transpose_b, epilogue, out_dtype, device
        As in :func:`gemm`; ``out_dtype=None`` is the result's own type.
    precision : str, optional
        The configuration whose bound must hold; no grant is needed to name one.  None is
        what :func:`gemm` would run now.

    Returns
    -------
    CheckResult
        True when every entry passed; carries the largest ratio to the bound and where.

    Raises
    ------
    ShapeError, DTypeError, UnsupportedError
        As :func:`gemm`.
    """
    found = array.view(result, "result")
    call = read_call(
        a, b, c, alpha=alpha, beta=beta, transpose_a=transpose_a, transpose_b=transpose_b, epilogue=epilogue,
        out_dtype=found.dtype if out_dtype is None else out_dtype, device=device,
    )  # fmt: skip
    if found.dtype != call.problem.d.dtype:
        raise DTypeError(f"result has type {found.dtype}; out_dtype asks for {call.problem.d.dtype}")
    if found.shape != call.result_shape:
        raise ShapeError(f"result has shape {found.shape}; this product gives {call.result_shape}")
    if precision is None:
        config = make_plan(call.problem, default_policy(), call.capabilities).configuration
    else:
        config = named(call.problem, call.capabilities, precision)
        check_dtypes(call.problem, config)
    problem = without_vanishing_terms(call.problem, config.accumulator)
    full = array.to_host(found).reshape((*problem.batch, problem.m, problem.n))
    return verification.check_result(full, problem, config, call.capabilities.arch, host_operands(call))
