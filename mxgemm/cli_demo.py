"""``python -m mxgemm demo``: one real layer at every precision, with its bounds and its refusals."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from mxgemm import epilogue, policy
from mxgemm.cli_configs import aligned
from mxgemm.configs import Configuration, configurations_for, rounding_precisions
from mxgemm.errors import PolicyError, UnsupportedError, VerificationError
from mxgemm.gemm import explain, gemm_outcome
from mxgemm.units.convert import to_output

__all__ = ["Case", "add_parser", "cases", "layer"]

Array = np.ndarray[Any, Any]

TOKENS = 256
REASON = "every entry of the demo is checked against its bound"


@dataclass(frozen=True, slots=True)
class Case:
    """One product of the demo: what it is, its operands, its bias (None for integers)."""

    title: str
    a: Array
    b: Array
    bias: Array | None = None

    @property
    def dtype(self) -> str:
        """Element type of A."""
        return str(self.a.dtype)

    def options(self) -> dict[str, Any]:
        """The epilogue, as gemm takes it."""
        return {} if self.bias is None else {"epilogue": epilogue.gelu(bias=self.bias)}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command ``demo``."""
    parser = commands.add_parser("demo", help="a real layer at every precision, every entry checked")
    parser.add_argument("--tokens", type=int, default=TOKENS, metavar="N", help=f"rows of A, 1 to {TOKENS}")
    parser.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu (models Hopper), cpu:sm_80, …")
    parser.set_defaults(run=run)


def layer() -> dict[str, Array]:
    """The operands that the package ships; see data/README.md."""
    source = resources.files("mxgemm") / "data" / "minilm_layer3.npz"
    with resources.as_file(source) as path, np.load(path) as archive:
        return {name: archive[name] for name in archive.files}


def cases(tokens: int) -> list[Case]:
    """The layer in each element type, and the attention of its first head.

    float64 is the float32 data widened; 16-bit and 8-bit floats are rounded to nearest;
    integers are the data in steps of the largest entry divided by 2^(bits − 1) − 1.
    """
    data = layer()
    x, w, bias = data["x"][:tokens], data["w_in"], data["b_in"]
    found = [Case("gelu(x·w + b), float32", x, w, bias)]
    wide = (x.astype(np.float64), w.astype(np.float64), bias.astype(np.float64))
    found.append(Case("gelu(x·w + b), widened to float64", *wide))
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        narrow = (to_output(x, dtype), to_output(w, dtype))
        title = f"gelu(x·w + b), operands stored as {dtype}"
        found.append(Case(title, *narrow, bias if "float8" in dtype else to_output(bias, dtype)))
    found += [
        Case(f"x·w, quantised to {dtype}", _quantised(x, dtype), _quantised(w, dtype))
        for dtype in ("int8", "int16", "int32", "int64")
    ]
    found.append(Case("attention p·v, float32", data["p"][0][:tokens], data["v"][0]))
    return found


def _quantised(x: Array, dtype: str) -> Array:
    """Integers whose largest magnitude has 7 bits for int8 and 15 for the wider types."""
    largest = 127 if dtype == "int8" else 32767
    return np.rint(x * (largest / float(np.abs(x).max()))).astype(dtype)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 0, or 1 when an entry left its bound."""
    if not 1 <= options.tokens <= TOKENS:
        raise UnsupportedError(f"--tokens {options.tokens}: the data hold 1 to {TOKENS} tokens")
    products = cases(options.tokens)
    _introduce(products[0], options)
    for case in products:
        _show_refusals(case, options.device)
    _accept_all()
    failures = sum(_show_runs(case, options.device) for case in products)
    print(f"\n{failures or 'no'} verification{'' if failures <= 1 else 's'} failed")
    return 1 if failures else 0


def _introduce(case: Case, options: argparse.Namespace) -> None:
    (m, k), n = case.a.shape, case.b.shape[1]
    part = "" if options.tokens == TOKENS else f" (the first {options.tokens} of {TOKENS} tokens)"
    print(f"Layer 3 of all-MiniLM-L6-v2: x {m}x{k} times w {k}x{n}{part}, on the model {options.device}.")
    print(
        "T = |A||B|; a ratio is error over bound, the largest over all entries, every one of which is checked."
    )


def _show_refusals(case: Case, device: str) -> None:
    """What runs without grants, and what is refused and why."""
    refused = []
    for row in configurations_for(case.dtype, case.dtype):
        try:
            explain(case.a, case.b, precision=row.precision, device=device, **case.options())
        except (PolicyError, UnsupportedError) as error:
            refused.append(f"  {error}")
    ran = explain(case.a, case.b, device=device, **case.options()).configuration.precision
    print(f"\n{case.title}: without grants runs {ran}; refused: {len(refused) or 'nothing'}")
    print(*refused, sep="\n", end="\n" if refused else "")


def _accept_all() -> None:
    policy.accept_relaxed_accumulation(reason=REASON)
    for precision in rounding_precisions():
        policy.accept_operand_rounding(precision, reason=REASON)
    print(f'\nNow the demo accepts relaxed accumulation and every operand rounding, reason="{REASON}".')


def _show_runs(case: Case, device: str) -> int:
    """Run ``case`` at every precision and print a table; returns how many verifications failed."""
    rows = [("ran", "ratio", "seconds", "checked in", "under", "bound")]
    certificates = []
    for configuration in configurations_for(case.dtype, case.dtype):
        row, failed = _run_one(case, configuration, device)
        rows.append(row)
        certificates += failed
    print(f"\n{case.title}\n{aligned(rows)}")
    print(*certificates, sep="\n", end="\n" if certificates else "", flush=True)
    return len(certificates)


def _run_one(case: Case, row: Configuration, device: str) -> tuple[tuple[str, ...], list[str]]:
    """One line of the table, and the certificate where the verification failed."""
    start = time.perf_counter()
    try:
        result = gemm_outcome(
            case.a, case.b, precision=row.precision, device=device, verify="full", **case.options()
        )
    except (PolicyError, UnsupportedError) as error:
        return (row.precision, "-", "-", "-", "-", f"refused: {error}"), []
    except VerificationError as error:
        return (row.precision, "-", "-", "-", "-", "verification failed"), [str(error)]
    certificate, plan = result.certificate, result.outcome.plan
    checking = certificate.seconds if certificate else 0.0
    ratio = certificate.ratio if certificate else float("nan")
    under = " + ".join(grant.name for grant in plan.granted) or "no grant"
    seconds = time.perf_counter() - start - checking
    shown = (f"{ratio:.3f}", f"{seconds:.2f}", f"{checking:.2f}", under)
    flags = "".join(f"; {flag}" for flag in result.outcome.flags)
    return (plan.configuration.precision, *shown, plan.bound + flags), []
