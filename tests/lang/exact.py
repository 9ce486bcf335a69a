"""Exact scalar arithmetic in Python integers and fractions: rounded, wrapped or saturated once, by hand."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}
FLOATS = tuple(FORMATS)


def bits(name: str) -> int:
    return 8 if name == "bool" else int(name.lstrip("uintflobra"))


def wrap(value: int, name: str) -> int:
    if name == "bool":
        return int(value != 0)
    value &= (1 << bits(name)) - 1
    return value - (1 << bits(name)) if name.startswith("int") and value >> (bits(name) - 1) else value


def rounded(value: Fraction, name: str) -> float:
    """The nearest number of a format, ties to even, as a Python float."""
    precision, least, most = FORMATS[name]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
    steps, rest = divmod(magnitude, quantum)
    if rest * 2 > quantum or (rest * 2 == quantum and steps % 2):
        steps += 1
    result = steps * quantum
    if result >= Fraction(2) ** (most + 1):
        return math.inf if value > 0 else -math.inf
    return float(result) if value > 0 else -float(result)


def to_float(value: Any, source: str, target: str) -> float:
    if source in FLOATS:
        if not math.isfinite(value) or value == 0:
            return float(value)
        return rounded(Fraction(value), target)
    if target in ("float16", "bfloat16"):
        return to_float(rounded(Fraction(value), "float64"), "float64", target)
    return rounded(Fraction(value), target)


def convert(value: Any, source: str, target: str) -> Any:
    if source == target:
        return value
    if target == "bool":
        return int(value != 0)
    if target in FLOATS:
        return to_float(value, source, target)
    if source not in FLOATS:
        return wrap(value, target)
    if math.isnan(value):
        return 0
    low = -(1 << (bits(target) - 1)) if target.startswith("int") else 0
    high = low + (1 << bits(target)) - 1
    return low if value == -math.inf else high if value == math.inf else min(max(int(value), low), high)


def float_arithmetic(operator: str, name: str, a: float, b: float) -> float:
    if operator in ("floordiv", "mod"):
        return _divmod(operator, name, a, b)
    if not (math.isfinite(a) and math.isfinite(b)) or 0 in (a, b):
        return to_float(_ieee(operator, a, b), "float64", name)
    x, y = Fraction(a), Fraction(b)
    exact = {"add": x + y, "sub": x - y, "mul": x * y, "truediv": x / y}[operator]
    if exact == 0:  # only a sum cancels to zero; its sign is plus in round to nearest
        return 0.0
    return rounded(exact, name)


def _ieee(operator: str, a: float, b: float) -> float:
    if operator == "truediv" and b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return {"add": a + b, "sub": a - b, "mul": a * b, "truediv": a / b if b else math.nan}[operator]


def _divmod(operator: str, name: str, a: float, b: float) -> float:
    """CPython's float divmod with every step rounded to the format."""
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        if operator == "mod":
            return math.nan
        return float_arithmetic("truediv", name, a, b) if b == 0 else math.nan
    remainder = math.fmod(a, b)
    quotient = float_arithmetic("truediv", name, float_arithmetic("sub", name, a, remainder), b)
    if remainder and (b < 0) != (remainder < 0):
        remainder = float_arithmetic("add", name, remainder, b)
        quotient = float_arithmetic("sub", name, quotient, 1.0)
    elif not remainder:
        remainder = math.copysign(0.0, b)
    if operator == "mod":
        return remainder
    if not quotient:
        return math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b))
    if not math.isfinite(quotient):
        return quotient
    floor = float(math.floor(quotient))
    return to_float(floor + 1.0, "float64", name) if quotient - floor > 0.5 else floor


def integer_arithmetic(operator: str, name: str, a: int, b: int) -> int:
    if operator in ("floordiv", "mod"):
        if name == "int64" and a == -(2**63) and b == -1:
            return 0
        return a // b if operator == "floordiv" else a % b
    if operator in ("lshift", "rshift"):
        amount = b & (2**64 - 1)
        if operator == "lshift":
            return wrap(a << amount, name) if amount < 64 else 0
        return a >> min(amount, 64)
    if operator == "pow":
        return _power(name, a, b)
    exact = {"add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b}[operator]
    return wrap(exact, name)


def _power(name: str, a: int, b: int) -> int:
    if b >= 0:
        return wrap(pow(a, b, 2**64), name)
    if a == 0:
        return wrap(2**63, name)
    if a == 1:
        return 1
    return (1 if b % 2 == 0 else -1) if a == -1 and name == "int64" else 0


def float_power(name: str, a: float, b: int) -> float:
    result, factor, left = 1.0, a, abs(b)
    while left:
        if left & 1:
            result = float_arithmetic("mul", name, result, factor)
        left >>= 1
        factor = float_arithmetic("mul", name, factor, factor)
    return float_arithmetic("truediv", name, 1.0, result) if b < 0 else result
