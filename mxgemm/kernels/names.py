"""How element types and epilogues are spelled in the CUDA C++ of this folder."""

from __future__ import annotations

__all__ = ["ACTIVATIONS", "CXX", "SIZES", "scalar_parameter"]

CXX = {
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "float16": "f16", "bfloat16": "bf16", "float32": "float", "float64": "double",
}  # fmt: skip

SIZES = {
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
"""Bytes of one element."""

ACTIVATIONS = {
    "identity": "Identity", "relu": "Relu", "clamp": "Clamp",
    "gelu": "Gelu", "gelu-tanh": "GeluTanh", "silu": "Silu",
}  # fmt: skip


def scalar_parameter(accumulator: str) -> str:
    """C++ type that carries alpha, beta and clamp bounds: 8 bytes, and exact for the accumulator's values."""
    return "i64" if "int" in accumulator else "double"
