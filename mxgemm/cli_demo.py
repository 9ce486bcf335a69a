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
# The Chinese remainder configurations are slow on a CPU: sixteen of them, for two types, take this many.
MODULI_TOKENS = 32
NOTATION = """\
Every entry of every result is checked.  Bounds are those of the product, in units of T = |A||B| (T̂: with
subnormal entries raised to the least normal number; row maxima: the largest entry of each row of A).
A ratio is the largest error over the whole bound, which adds bias, gelu and the rounding to the result's
type: near 1 where that rounding is all there is.  Seconds are those of modelling each unit bit for bit."""
REASON = "every entry of the demo is checked against its bound"


@dataclass(frozen=True, slots=True)
class Case:
    """One product of the demo.

    Attributes
    ----------
    title : str
    a, b : array
    bias : array or None
    gelu : bool
        Whether the activation follows the bias.
    moduli : bool
        Whether the case is run by the Chinese remainder configurations, or by all the others.
    """

    title: str
    a: Array
    b: Array
    bias: Array | None = None
    gelu: bool = False
    moduli: bool = False

    @property
    def dtype(self) -> str:
        """Element type of A and B."""
        return str(self.a.dtype)

    @property
    def configurations(self) -> list[Configuration]:
        """The rows of the table that run this case."""
        return [row for row in configurations_for(self.dtype, self.dtype) if bool(row.moduli) == self.moduli]

    def options(self, device: str) -> dict[str, Any]:
        """The keywords that the case gives to gemm."""
        made = epilogue.gelu if self.gelu else epilogue.identity
        return {"device": device, **({} if self.bias is None else {"epilogue": made(bias=self.bias)})}


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
    integers are the data in steps of their largest entry over 127, or over 32767.
    """
    data = layer()
    x, w, bias = data["x"][:tokens], data["w_in"], data["b_in"]
    wide = (x.astype(np.float64), w.astype(np.float64), bias.astype(np.float64))
    few = f"the first {min(tokens, MODULI_TOKENS)} tokens"
    found = [
        Case("gelu(x·w + b), float32", x, w, bias, gelu=True),
        Case(f"gelu(x·w + b), float32, {few}", x[:MODULI_TOKENS], w, bias, gelu=True, moduli=True),
        Case("x·w + b, widened to float64", *wide),
        Case(f"x·w + b, widened to float64, {few}", wide[0][:MODULI_TOKENS], *wide[1:], moduli=True),
    ]
    for dtype in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        narrow_bias = bias if dtype.startswith("float8") else to_output(bias, dtype)
        title = f"gelu(x·w + b), operands stored as {dtype}"
        found.append(Case(title, to_output(x, dtype), to_output(w, dtype), narrow_bias, gelu=True))
    found += [
        Case(f"x·w, quantised to {dtype}", _quantised(x, dtype), _quantised(w, dtype))
        for dtype in ("int8", "int16", "int32", "int64")
    ]
    p, v = data["p"][0][:tokens], data["v"][0]
    return [*found, Case("attention p·v, float32", p, v)]


def _quantised(x: Array, dtype: str) -> Array:
    """Integers whose largest magnitude has 7 bits for int8 and 15 for the wider types."""
    largest = 127 if dtype == "int8" else 32767
    return np.rint(x * (largest / float(np.abs(x).max()))).astype(dtype)


def run(options: argparse.Namespace) -> int:
    """Run the command; returns 0, or 1 when an entry left its bound."""
    if not 1 <= options.tokens <= TOKENS:
        raise UnsupportedError(f"--tokens {options.tokens}: the data hold 1 to {TOKENS} tokens")
    products = cases(options.tokens)
    explain(products[0].a, products[0].b, device=options.device)  # refuses a device before a word is said
    _introduce(products[0], options)
    for case in products[:-1]:
        _show_refusals(case, options.device)
    _accept_all()
    failures = sum(_show_runs(case, options.device) for case in products)
    print(f"\n{failures or 'no'} verification{'' if failures <= 1 else 's'} failed")
    return 1 if failures else 0


def _introduce(case: Case, options: argparse.Namespace) -> None:
    (m, k), n = case.a.shape, case.b.shape[1]
    part = "" if options.tokens == TOKENS else f" (the first {options.tokens} of {TOKENS} tokens)"
    print(f"Layer 3 of all-MiniLM-L6-v2: x {m}x{k} times w {k}x{n}{part}, on the model {options.device}.")
    print(NOTATION)


def _show_refusals(case: Case, device: str) -> None:
    """What runs without grants, and what is refused and why; precisions with the same reason share a line."""
    refused: dict[str, list[str]] = {}
    for row in case.configurations:
        try:
            explain(case.a, case.b, precision=row.precision, **case.options(device))
        except (PolicyError, UnsupportedError) as error:
            reason = str(error).replace(repr(row.precision), "NAME")
            refused.setdefault(reason.replace(f'"{row.precision}"', "NAME"), []).append(row.precision)
    ran = explain(case.a, case.b, **case.options(device)).configuration.precision
    print(f"\n{case.title}: without grants runs {ran}; {'refused:' if refused else 'nothing is refused'}")
    for reason, precisions in refused.items():
        print(f"  {', '.join(precisions)}\n    {reason}")


def _accept_all() -> None:
    policy.accept_relaxed_accumulation(reason=REASON)
    for precision in rounding_precisions():
        policy.accept_operand_rounding(precision, reason=REASON)
    print(f'\nNow the demo accepts relaxed accumulation and every operand rounding, reason="{REASON}".')


def _show_runs(case: Case, device: str) -> int:
    """Run ``case`` at every precision and print a table; returns how many verifications failed."""
    print(f"\n{case.title}", flush=True)
    rows: list[tuple[str, ...]] = [("ran", "ratio", "seconds", "checked in", "under", "bound")]
    certificates: list[str] = []
    for configuration in case.configurations:
        row, failed = _run_one(case, configuration, device)
        rows.append(row)
        certificates += failed
    print(aligned(rows), flush=True)
    print(*certificates, sep="\n", end="\n" if certificates else "", flush=True)
    return len(certificates)


def _run_one(case: Case, row: Configuration, device: str) -> tuple[tuple[str, ...], list[str]]:
    """One line of the table, and the certificate where the verification failed."""
    start = time.perf_counter()
    try:
        result = gemm_outcome(case.a, case.b, precision=row.precision, verify="full", **case.options(device))
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
