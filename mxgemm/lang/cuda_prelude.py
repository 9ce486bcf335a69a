"""Helper functions of generated CUDA C, by name; a source contains those that it uses.

They say in C what Python and Numba define and C leaves open: wrap-around, floor division, shifts by
any amount, saturating conversions, 16-bit floats without a header.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["HELPERS", "prelude"]

_D: Final = "static __device__ __forceinline__"

_FLOOR_DIVISION: Final = """
{d} {t} mx_floordiv_{s}({t} a, {t} b) {{
    {t} r = {fmod}(a, b), q = (a - r) / b;
    if (b == {z}) return a / b;
    if (r != {z} && (b < {z}) != (r < {z})) q -= {one};
    if (q == {z}) return q * q * a / b;
    {t} f = {floor}(q);
    return q - f > {half} ? f + {one} : f;
}}"""

_MODULO: Final = """
{d} {t} mx_mod_{s}({t} a, {t} b) {{
    {t} r = {fmod}(a, b);
    if (r == {z}) return b < {z} ? -{z} : {z};
    return (b < {z}) != (r < {z}) ? r + b : r;
}}"""

_POWER_REAL: Final = """
{d} {t} mx_pow_{s}_{n}({t} a, {i} b) {{
    {t} r = {one};
    for (unsigned long long e = {magnitude}; e != 0; e >>= 1) {{
        if (e & 1) r *= a;
        a *= a;
    }}
    return {negative} ? {one} / r : r;
}}"""

_POWER_INTEGER: Final = """
{d} {t} mx_pow_{s}_{n}({t} a, {i} b) {{
    if ({negative}) {{
        if (a == 0) return ({t})0x8000000000000000ull;
        if (a != 1 && a != ({t})-1) return 0;
    }}
    unsigned long long r = 1, x = (unsigned long long)a;
    for (unsigned long long e = {magnitude}; e != 0; e >>= 1) {{
        if (e & 1) r *= x;
        x *= x;
    }}
    return ({t})r;
}}"""


def _reals() -> dict[str, str]:
    table = {}
    for s, t, f in (("f32", "float", "f"), ("f64", "double", "")):
        words = {
            "d": _D, "s": s, "t": t, "z": f"0.0{f}", "one": f"1.0{f}", "half": f"0.5{f}",
            "fmod": f"fmod{f}", "floor": f"floor{f}",
        }  # fmt: skip
        table[f"mx_floordiv_{s}"] = _FLOOR_DIVISION.format(**words)
        table[f"mx_mod_{s}"] = _MODULO.format(**words)
        for n, i in (("i64", "long long"), ("u64", "unsigned long long")):
            table[f"mx_pow_{s}_{n}"] = _POWER_REAL.format(**words, **_exponent(n, i))
    for s, t in (("i64", "long long"), ("u64", "unsigned long long")):
        for n, i in (("i64", "long long"), ("u64", "unsigned long long")):
            table[f"mx_pow_{s}_{n}"] = _POWER_INTEGER.format(d=_D, s=s, t=t, **_exponent(n, i))
    return table


def _exponent(n: str, i: str) -> dict[str, str]:
    signed = n == "i64"
    return {
        "n": n,
        "i": i,
        "magnitude": "b < 0 ? 0ull - (unsigned long long)b : (unsigned long long)b" if signed else "b",
        "negative": "b < 0" if signed else "false",
    }


def _saturating() -> dict[str, str]:
    """Float to integer: truncated, NaN gives 0, what is out of range gives the nearest end."""
    table = {}
    for name, c_type, kind, bits in (
        ("i8", "signed char", "i", 8), ("i16", "short", "i", 16), ("i32", "int", "i", 32),
        ("i64", "long long", "i", 64), ("u8", "unsigned char", "u", 8), ("u16", "unsigned short", "u", 16),
        ("u32", "unsigned int", "u", 32), ("u64", "unsigned long long", "u", 64),
    ):  # fmt: skip
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if kind == "i" else (0, 2**bits)
        wide = "ull" if kind == "u" else "ll"
        lowest = "(-9223372036854775807ll - 1)" if low == -(2**63) else f"{low}{wide}"
        for real, real_type in (("f32", "float"), ("f64", "double")):
            suffix = "f" if real == "f32" else ""
            table[f"mx_{name}_from_{real}"] = f"""
{_D} {c_type} mx_{name}_from_{real}({real_type} x) {{
    if (!(x > {float(low).hex() if low else "0.0"}{suffix})) return x != x ? 0 : ({c_type}){lowest};
    return x >= {float(high).hex()}{suffix} ? ({c_type}){high - 1}{wide} : ({c_type})x;
}}"""
    return table


_HALF: Final = f"""
struct mx_f16 {{ unsigned short bits; }};
{_D} float mx_f16_to_f32(mx_f16 x) {{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}}
{_D} mx_f16 mx_f16_from_f32(float x) {{
    mx_f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}}
{_D} mx_f16 mx_f16_from_f64(double x) {{
    mx_f16 y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}}"""

_BRAIN: Final = f"""
struct mx_bf16 {{ unsigned short bits; }};
{_D} float mx_bf16_to_f32(mx_bf16 x) {{ return __uint_as_float((unsigned int)x.bits << 16); }}
{_D} mx_bf16 mx_bf16_from_f32(float x) {{
    unsigned int b = __float_as_uint(x);
    mx_bf16 y;
    y.bits = (unsigned short)(x != x ? 0x7fffu : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
    return y;
}}
{_D} mx_bf16 mx_bf16_from_f64(double x) {{
    float t = __double2float_rz(x);  // rounded to odd, so that the second rounding is the only one
    if (x == x && (double)t != x) t = __uint_as_float(__float_as_uint(t) | 1u);
    return mx_bf16_from_f32(t);
}}"""


def _atomics() -> dict[str, str]:
    table = {}
    ull = "unsigned long long"
    for s, t, w, load, keep in (
        ("f32", "float", "unsigned int", "__uint_as_float", "__float_as_uint"),
        ("f64", "double", ull, "__longlong_as_double", "__double_as_longlong"),
    ):
        for name, skip, replace in (
            ("max", "v != v || old != old", "old < v"),
            ("min", "v != v || old != old", "old > v"),
            ("nanmax", "v != v", "!(old >= v)"),
            ("nanmin", "v != v", "!(old <= v)"),
        ):
            table[f"mx_atomic_{name}_{s}"] = f"""
{_D} {t} mx_atomic_{name}_{s}({t}* p, {t} v) {{
    {w} seen = *(volatile {w}*)p;
    for (;;) {{
        {t} old = {load}(seen);
        if (({skip}) || !({replace})) return old;
        {w} before = atomicCAS(({w}*)p, seen, ({w}){keep}(v));
        if (before == seen) return old;
        seen = before;
    }}
}}"""
    for name, rule in (("inc", "old >= v ? 0ull : old + 1"), ("dec", "old == 0 || old > v ? v : old - 1")):
        table[f"mx_atomic_{name}_u64"] = f"""
{_D} {ull} mx_atomic_{name}_u64({ull}* p, {ull} v) {{
    {ull} old = *(volatile {ull}*)p;
    for (;;) {{
        {ull} before = atomicCAS(p, old, {rule});
        if (before == old) return old;
        old = before;
    }}
}}"""
    return table


HELPERS: Final[dict[str, str]] = {
    "mx_nan": f"\ntemplate <class T> {_D} T mx_nan() {{ return (T)__int_as_float(0x7fffffff); }}",
    "mx_inf": f"\ntemplate <class T> {_D} T mx_inf() {{ return (T)__int_as_float(0x7f800000); }}",
    "mx_f16": _HALF,
    "mx_bf16": _BRAIN,
    "mx_wrap": f"\n{_D} long long mx_wrap(long long i, long long n) {{ return i < 0 ? i + n : i; }}",
    **{
        f"mx_{name}_i64": f"""
{_D} long long mx_{name}_i64(long long a, long long b) {{
    return (long long)((unsigned long long)a {symbol} (unsigned long long)b);
}}"""
        for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))
    },
    "mx_floordiv_i64": f"""
{_D} long long mx_floordiv_i64(long long a, long long b) {{
    if (b == 0 || (b == -1 && a == (-9223372036854775807ll - 1))) return 0;
    long long q = a / b, r = a % b;
    return r != 0 && (r ^ b) < 0 ? q - 1 : q;
}}""",
    "mx_mod_i64": f"""
{_D} long long mx_mod_i64(long long a, long long b) {{
    if (b == 0 || b == -1) return 0;
    long long r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}}""",
    "mx_floordiv_u64": f"""
{_D} unsigned long long mx_floordiv_u64(unsigned long long a, unsigned long long b) {{
    return b == 0 ? 0 : a / b;
}}""",
    "mx_mod_u64": f"""
{_D} unsigned long long mx_mod_u64(unsigned long long a, unsigned long long b) {{
    return b == 0 ? 0 : a % b;
}}""",
    "mx_lshift_i64": f"""
{_D} long long mx_lshift_i64(long long a, unsigned long long n) {{
    return n > 63 ? 0 : (long long)((unsigned long long)a << n);
}}""",
    "mx_rshift_i64": f"""
{_D} long long mx_rshift_i64(long long a, unsigned long long n) {{
    return a >> (n > 63 ? 63 : n);
}}""",
    "mx_lshift_u64": f"""
{_D} unsigned long long mx_lshift_u64(unsigned long long a, unsigned long long n) {{
    return n > 63 ? 0 : a << n;
}}""",
    "mx_rshift_u64": f"""
{_D} unsigned long long mx_rshift_u64(unsigned long long a, unsigned long long n) {{
    return n > 63 ? 0 : a >> n;
}}""",
    "mx_count_i64": f"""
{_D} unsigned long long mx_count_i64(long long start, long long stop, long long step) {{
    if (step > 0 && start < stop)
        return ((unsigned long long)stop - (unsigned long long)start - 1) / (unsigned long long)step + 1;
    if (step < 0 && start > stop)
        return ((unsigned long long)start - (unsigned long long)stop - 1) /
            (0ull - (unsigned long long)step) + 1;
    return 0;
}}""",
    "mx_count_u64": f"""
{_D} unsigned long long mx_count_u64(unsigned long long start, unsigned long long stop,
                                                unsigned long long step) {{
    return step != 0 && start < stop ? (stop - start - 1) / step + 1 : 0;
}}""",
    "mx_shared_bytes": f"""
{_D} unsigned int mx_shared_bytes() {{
    unsigned int bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}}""",
    "mx_lane": f"""
{_D} int mx_lane() {{
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}}""",
    **_reals(),
    **_saturating(),
    **_atomics(),
}

_NEEDS: Final[dict[str, str]] = {"mx_f16_": "mx_f16", "mx_bf16_": "mx_bf16"}


def prelude(body: str) -> str:
    """The helper functions that ``body`` uses, in the table's order."""
    words = set(re.findall(r"\bmx_\w+", body))
    wanted = {name for name in HELPERS if name in words}
    for prefix, name in _NEEDS.items():
        if any(word.startswith(prefix) for word in words):
            wanted.add(name)
    return "".join(text for name, text in HELPERS.items() if name in wanted).lstrip("\n")
