"""Costs of the configurations: rates by architecture, and where each rate comes from.

A cost is femtoseconds per floating-point operation, counting the 2·M·N·K operations
of the product that the caller asked for: 1000 / (TFLOP/s).  On sm_90 the rates were
measured on an NVIDIA H200 (4096³, sustained; vendor libraries, and hand-written kernels for
what they lack); elsewhere they are dense datasheet rates of one card of the architecture.
Splits, limbs and moduli cost as many unit products as they make, and a scalar type what its
instructions issue at, where no rate of their own was measured: such costs are derived.
docs/configurations.md shows them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ARCHITECTURES", "Cost", "costs"]

ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

Basis = Literal["measured", "datasheet", "derived"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Femtoseconds per operation and its basis: measured, datasheet or derived from one of them."""

    femtoseconds: float
    basis: Basis


# TFLOP/s (integer rows: TOP/s), dense.  Cards: V100, T4, A100, RTX 3090, L40S, H200, B200, RTX 5090.
_UNIT_RATES: dict[str, dict[str, float]] = {
    "f16": {"sm_70": 125, "sm_75": 65, "sm_80": 312, "sm_86": 71, "sm_89": 362, "sm_90": 655},
    "bf16": {"sm_80": 312, "sm_86": 71, "sm_89": 362, "sm_90": 655},
    "tf32": {"sm_80": 156, "sm_86": 35.6, "sm_89": 183, "sm_90": 350},
    "f8": {"sm_90": 1140},
    "f64": {"sm_90": 61},
    "s8": {
        "sm_75": 130, "sm_80": 624, "sm_86": 284, "sm_89": 733, "sm_90": 845, "sm_100": 4500, "sm_120": 838,
    },
}  # fmt: skip

_SCALAR_FLOAT32 = dict(zip(ARCHITECTURES, (15.7, 8.1, 19.5, 35.6, 91.6, 51, 75, 104.8), strict=True))
_SCALAR_FLOAT64 = dict(zip(ARCHITECTURES, (7.8, 0.25, 9.7, 0.56, 1.43, 33.5, 37, 1.64), strict=True))
# A 32-bit integer multiply-add issues at half the float32 rate, a 64-bit one takes about four of them.
_SCALAR_INT32 = {arch: rate / 2 for arch, rate in _SCALAR_FLOAT32.items()} | {"sm_90": 22}
_SCALAR_INT64 = {arch: rate / 4 for arch, rate in _SCALAR_INT32.items()} | {"sm_90": 5.2}

# Scaling, residues and reconstruction included: N times the rates measured for N = 6 … 15 is 648 to 722.
_CRT_PRODUCT_RATE = 655

# Whole configurations that were measured on an H200.
_MEASURED_H200: dict[tuple[str, str], float] = {
    ("float32", "f16x3"): 193, ("int32", "exact"): 148, ("uint32", "exact"): 148,
}  # fmt: skip

_UNIT_OF = {
    "native": {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8", "float64": "f64"},
    "float32": {"f16": "f16", "bf16": "bf16", "tf32": "tf32", "f64": "f64"},
}
_SPLITS = {
    "f16x3": ("f16", 3),
    "bf16x3": ("bf16", 3),
    "tf32x3": ("tf32", 3),
    "bf16x6": ("bf16", 6),
    "bf16x9": ("bf16", 9),
}
_LIMB_PRODUCTS = {"8": 1, "16": 3, "32": 10, "64": 36}


def _unit_and_products(source: str, precision: str) -> tuple[str, int]:
    """The unit that a configuration occupies and how many unit products it makes."""
    if precision == "exact":
        return "s8", _LIMB_PRODUCTS[source.strip("uint")]
    if precision.startswith("i8crt"):
        return "s8", int(precision.removeprefix("i8crt"))
    if precision in _SPLITS:
        return _SPLITS[precision]
    if precision == "native":
        return _UNIT_OF["native"][source], 1
    return _UNIT_OF["float32"][precision], 1


def _scalar_rates(source: str) -> dict[str, float]:
    if source == "float64":
        return _SCALAR_FLOAT64
    if source in ("int64", "uint64"):
        return _SCALAR_INT64
    return _SCALAR_INT32 if "int" in source else _SCALAR_FLOAT32


def _scalar_basis(source: str, arch: str) -> Basis:
    if arch == "sm_90" and source in ("float32", "int32", "int64"):
        return "measured"
    return "datasheet" if source in ("float32", "float64") else "derived"


def costs(source: str, precision: str) -> dict[str, Cost]:
    """Costs by architecture of one configuration, named by its first source type and precision."""
    if precision == "scalar":
        return {
            arch: Cost(1000 / rate, _scalar_basis(source, arch))
            for arch, rate in _scalar_rates(source).items()
        }
    unit, products = _unit_and_products(source, precision)
    if precision.startswith("i8crt"):
        scale = _CRT_PRODUCT_RATE / _UNIT_RATES["s8"]["sm_90"]
        return {
            arch: Cost(1000 * products / (scale * rate), "derived")
            for arch, rate in _UNIT_RATES["s8"].items()
        }
    found: dict[str, Cost] = {}
    for arch, rate in _UNIT_RATES[unit].items():
        basis: Basis = "derived" if products > 1 else "measured" if arch == "sm_90" else "datasheet"
        found[arch] = Cost(1000 * products / rate, basis)
    if (source, precision) in _MEASURED_H200:
        found["sm_90"] = Cost(1000 / _MEASURED_H200[source, precision], "measured")
    return found
