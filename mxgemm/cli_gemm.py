"""``python -m mxgemm gemm``: one product of matrices in files."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from mxgemm import policy
from mxgemm.cli_files import MatrixFile, read_matrix, write_matrix
from mxgemm.configs import rounding_precisions
from mxgemm.decisions import missing_call
from mxgemm.errors import PolicyError, UnsupportedError
from mxgemm.gemm import gemm_outcome

__all__ = ["add_parser", "number", "with_values_joined"]

ACCEPT_RELAXED = "relaxed-accumulation"
ACCEPT_ROUNDING = "operand-rounding"
NUMBERS = ("--alpha", "--beta", "--max-error")


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
    """Read ``3``, ``0.5`` or ``2**-20``; whole numbers stay integers, as integer products need.

    Raises
    ------
    argparse.ArgumentTypeError
        For what is no number, and for what float64 would turn into 0 or Inf.
    """
    power = re.fullmatch(r"2\*\*(-?\d{1,4})", text.strip())
    if power and int(power[1]) >= 0:
        return 1 << int(power[1])
    try:
        return int(text)
    except ValueError:
        pass
    try:
        exact = Fraction(1, 1 << -int(power[1])) if power else _exactly(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number; 3, 0.5, 1e-3 and 2**-20 are") from None
    try:
        found = float(exact)
    except OverflowError:
        found = math.inf
    if isinstance(exact, Fraction) and (math.isinf(found) or (found == 0) != (exact == 0)):
        raise argparse.ArgumentTypeError(f"{text} is beyond float64, which would make it {found}")
    return found


def _exactly(text: str) -> Fraction | float:
    """A decimal number as a fraction; inf and nan as the floats that they are."""
    found = float(text)
    return Fraction(text) if math.isfinite(found) or any(map(str.isdigit, text)) else found


def with_values_joined(arguments: Sequence[str]) -> list[str]:
    """``--alpha -1e-3`` as ``--alpha=-1e-3``: argparse takes a word with a leading minus for an option."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in NUMBERS and re.match(r"-(\d|\.|inf|nan)", word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status 0."""
    if options.beta != 0 and options.c is None:
        raise UnsupportedError(f"--beta {options.beta} scales C, and no --c C.npy was given")
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
    _print_conversions(files, options.beta)
    print(result.outcome.plan)
    for flag in result.outcome.flags:
        print(f"  flag     {flag}")
    if result.certificate is not None:
        print(result.certificate)
    if options.output is not None:
        write_matrix(options.output, result.array)
        print(f"D {result.array.shape} {result.array.dtype} written to {options.output}")
    return 0


def _print_conversions(files: dict[str, MatrixFile], beta: float) -> None:
    for name, file in files.items():
        if file.conversion:
            print(f"{name}: {file.conversion}")
    if "C" in files and beta == 0:
        print("C: not read, since --beta is 0")


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
