"""C spellings of the dialect's types, literals and names."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

from mxgemm.lang.functions import FUNCTIONS

if TYPE_CHECKING:
    from mxgemm.lang.types import Scalar

__all__ = ["C_TYPES", "SUFFIXES", "Names", "literal"]

C_TYPES: Final[dict[str, str]] = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float16": "mx_f16", "bfloat16": "mx_bf16", "float32": "float",
    "float64": "double",
}  # fmt: skip

#: Short names, used in helper functions and in variables that hold several types.
SUFFIXES: Final[dict[str, str]] = {
    "bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
    "uint16": "u16", "uint32": "u32", "uint64": "u64", "float16": "f16", "bfloat16": "bf16",
    "float32": "f32", "float64": "f64",
}  # fmt: skip

_KEYWORDS: Final = (
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
    "catch", "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield",
    "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue",
    "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export",
    "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
    "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
    "protected", "public", "register", "reinterpret_cast", "requires", "return", "short", "signed",
    "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
)  # fmt: skip

#: What NVRTC declares of itself besides the functions of the table; a kernel's name may not be one.
_DECLARED: Final = (
    "NULL", "abs", "assert", "atomicAdd", "atomicAnd", "atomicCAS", "atomicDec", "atomicExch", "atomicInc",
    "atomicMax", "atomicMin", "atomicOr", "atomicSub", "atomicXor", "blockDim", "blockIdx", "clock",
    "clock64", "cospi", "cudaError_t", "cyl_bessel_i0", "cyl_bessel_i1", "dim3", "div", "double2",
    "erfcinv", "erfcx", "erfinv", "exit", "exp10", "fdim", "float2", "float3", "float4", "fmax", "fmin",
    "free", "frexp", "gridDim", "ilogb", "int2", "int3", "int4", "j0", "j1", "jn", "labs", "linux", "llabs",
    "llmax", "llmin", "llrint", "llround", "logb", "lrint", "lround", "main", "malloc", "memcpy", "memset",
    "modf", "nan", "nearbyint", "nextafter", "norm", "norm3d", "norm4d", "normcdf", "normcdfinv", "pow",
    "printf", "rcbrt", "remainder", "remquo", "rhypot", "rnorm", "rnorm3d", "rnorm4d", "round", "scalbln",
    "scalbn", "signbit", "sincos", "sincospi", "sinpi", "size_t", "std", "tgamma", "threadIdx", "ullmax",
    "ullmin", "umax", "umin", "unix", "warpSize", "y0", "y1", "yn",
)  # fmt: skip

_FUNCTIONS: Final = (*FUNCTIONS, *_DECLARED)
_RESERVED: Final = frozenset((*_KEYWORDS, *_FUNCTIONS, *(f"{name}f" for name in _FUNCTIONS)))


class Names:
    """C identifiers for IR names: unique, never reserved, as close to the source as can be."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._used: set[str] = set(_RESERVED)

    def of(self, name: str, variant: str = "") -> str:
        """The identifier of an IR name; ``variant`` keeps variables of several types apart."""
        key = (name, variant)
        if key not in self._given:
            self._given[key] = self._fresh(name, variant)
        return self._given[key]

    def _fresh(self, name: str, variant: str) -> str:
        plain = f"t{name[1:]}" if name.startswith(".") else name.replace(".", "_")
        plain = "".join(c if c.isascii() else f"u{ord(c):x}" for c in plain)
        if plain.startswith(("mx_", "__")):  # the prelude's names, and those of the compiler
            plain = f"v{plain}"
        candidates = [plain, f"{plain}_{variant}"] if variant else [plain]
        numbered = (f"{candidates[-1]}_{i}" for i in itertools.count(1))
        chosen = next(c for c in itertools.chain(candidates, numbered) if c not in self._used)
        self._used.add(chosen)
        return chosen

    def fresh(self, name: str) -> str:
        """A new identifier."""
        return self._fresh(name, "")


def literal(value: bool | float, scalar: Scalar) -> str:
    """A C literal of exactly ``value``."""
    if scalar.kind == "b":
        return "true" if value else "false"
    if scalar.is_integer:
        return _integer(int(value), scalar)
    value = float(value)
    if scalar.bits == 16:
        return f"mx_{SUFFIXES[scalar.name]}_from_f32({_real(value, 'f')})"
    return _real(value, "f" if scalar.bits == 32 else "")


def _integer(value: int, scalar: Scalar) -> str:
    if scalar.bits == 64:
        suffix = "ll" if scalar.kind == "i" else "ull"
        return "(-9223372036854775807ll - 1)" if value == -(2**63) else f"{value}{suffix}"
    if value == -(2**31):
        return "(-2147483647 - 1)"
    plain = f"{value}u" if scalar.name == "uint32" else str(value)
    return plain if scalar.bits == 32 else f"({C_TYPES[scalar.name]})({plain})"


def _real(value: float, suffix: str) -> str:
    kind = "float" if suffix else "double"
    if math.isnan(value):
        return f"mx_nan<{kind}>()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}mx_inf<{kind}>()"
    text = repr(value)
    if suffix or len(text) > 12:
        text = text if float(text) == value and len(text) <= 12 else value.hex()
    if "." not in text and "e" not in text and "p" not in text:
        text += ".0"
    return f"{text}{suffix}"
