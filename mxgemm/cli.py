"""The command line: ``python -m mxgemm configs | demo | gemm | kernels``.

Exit status: 0; 1 when a verification failed or evidence is stale; 2 for bad input and for what was refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from mxgemm import cli_configs, cli_demo, cli_gemm, cli_kernels
from mxgemm.errors import MxgemmError, MxgemmWarning, VerificationError

__all__ = ["main"]

VERIFICATION_FAILED = 1
REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        ``sys.argv[1:]`` by default.

    Returns
    -------
    int
        The exit status.
    """
    words = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args(cli_gemm.with_values_joined(words))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MxgemmWarning)
        status = _guarded(options)
    for warning in caught:
        print(f"mxgemm: {warning.category.__name__}: {warning.message}", file=sys.stderr)
    return status


def _guarded(options: argparse.Namespace) -> int:
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except VerificationError as error:
        print(error.certificate)
        print("mxgemm: verification failed: the result left its bound and is not written", file=sys.stderr)
        return VERIFICATION_FAILED
    except MxgemmError as error:
        print(f"mxgemm: {type(error).__name__}: {error}", file=sys.stderr)
        return REFUSED
    except MemoryError as error:
        print(f"mxgemm: there is not enough memory: {error}", file=sys.stderr)
        return REFUSED
    except BrokenPipeError:
        # The reader has left, as `head` does: what is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mxgemm",
        description="Matrix products on exact models of matrix units, in the configurations that you accept.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    for command in (cli_configs, cli_demo, cli_gemm, cli_kernels):
        command.add_parser(commands)
    return parser
