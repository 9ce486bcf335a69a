"""``python -m mxgemm gemm``: one product of matrices in files."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from mxgemm import policy
from mxgemm.cli_files import MatrixFile, read_matrix, write_matrix
from mxgemm.configs import rounding_precisions
from mxgemm.decisions import missing_call
from mxgemm.errors import PolicyError, UnsupportedError
from mxgemm.gemm import gemm_outcome

__all__ = ["add_parser", "number"]

ACCEPT_RELAXED = "relaxed-accumulation"
ACCEPT_ROUNDING = "operand-rounding"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``gemm`` and its options."""
    parser = commands.add_parser(
        "gemm",
        help="multiply matrices in .npy files",
        description="D = alpha*A*B + beta*C, in a configuration that was accepted, and checked where asked.",
        epilog="Exit status: 0; 1 verification failed (the certificate is printed, D is not written); "
        "2 bad input, or refused.",
    )
    parser.add_argument("a", type=Path, metavar="A.npy", help="matrix, vector or batch of matrices")
    parser.add_argument("b", type=Path, metavar="B.npy")
    parser.add_argument("--c", type=Path, metavar="C.npy", help="D's shape; needs --beta to count")
    parser.add_argument("--alpha", type=number, default=1, metavar="X")
    parser.add_argument("--beta", type=number, default=0, metavar="X")
    parser.add_argument(
        "--precision", metavar="NAME", help="a row of `configs`; default: the fastest accepted"
    )
    parser.add_argument(
        "--max-error",
        type=number,
        metavar="X",
        help="budget in units of |A||B|, a consent; 2**-20 is understood",
    )
    parser.add_argument(
        "--dtype", metavar="TYPE", help="element type to multiply in (raw elements are taken as it)"
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="GRANT=REASON",
        help=f"{ACCEPT_RELAXED}=REASON or {ACCEPT_ROUNDING}:PRECISION=REASON; may be repeated",
    )
    parser.add_argument("--verify", metavar="LEVEL", help="full: check every entry against its bound")
    parser.add_argument("--device", metavar="DEVICE", help="cpu (models Hopper), cpu:sm_80, …")
    parser.add_argument("-o", "--output", type=Path, metavar="D.npy", help="where D goes")
    parser.set_defaults(run=run)


def number(text: str) -> int | float:
    """Read ``3``, ``0.5`` or ``2**-20``; whole numbers stay integers, as integer products need."""
    power = re.fullmatch(r"2\*\*(-?\d{1,4})", text.strip())
    if power:
        return 2.0 ** int(power[1])
    try:
        return int(text)
    except ValueError:
        return float(text)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status 0."""
    for consent in options.accept:
        _accept(consent)
    files = {
        name: read_matrix(path, options.dtype)
        for name, path in (("A", options.a), ("B", options.b), ("C", options.c))
        if path is not None
    }
    try:
        result = gemm_outcome(
            files["A"].array,
            files["B"].array,
            files["C"].array if "C" in files else None,
            alpha=options.alpha,
            beta=options.beta,
            precision=options.precision,
            max_error=options.max_error,
            verify=options.verify,
            device=options.device,
        )
    except PolicyError as error:
        raise PolicyError(_in_terms_of_options(str(error))) from error
    _print_conversions(files)
    print(result.outcome.plan)
    for flag in result.outcome.flags:
        print(f"  flag     {flag}")
    if result.certificate is not None:
        print(result.certificate)
    if options.output is not None:
        write_matrix(options.output, result.array)
        print(f"D {result.array.shape} {result.array.dtype} written to {options.output}")
    return 0


def _print_conversions(files: dict[str, MatrixFile]) -> None:
    for name, file in files.items():
        if file.conversion:
            print(f"{name}: {file.conversion}")


def _accept(consent: str) -> None:
    """Give the grant that one ``--accept`` names."""
    grant, equals, reason = consent.partition("=")
    family, _, precision = grant.partition(":")
    if equals and family == ACCEPT_RELAXED and not precision:
        policy.accept_relaxed_accumulation(reason=reason)
    elif equals and family == ACCEPT_ROUNDING:
        policy.accept_operand_rounding(precision, reason=reason)
    else:
        raise UnsupportedError(
            f"--accept {consent}: supported are {ACCEPT_RELAXED}=REASON "
            f"and {ACCEPT_ROUNDING}:PRECISION=REASON"
        )


def _in_terms_of_options(message: str) -> str:
    """``message`` with each missing call written as the option that makes it."""
    message = message.replace(missing_call(ACCEPT_RELAXED), f"--accept {ACCEPT_RELAXED}=REASON")
    for precision in rounding_precisions():
        call = missing_call(f"{ACCEPT_ROUNDING}-{precision}")
        message = message.replace(call, f"--accept {ACCEPT_ROUNDING}:{precision}=REASON")
    return message
