"""Wrappers of the wgmma instruction, generated for the one unit, width and layout that a kernel uses."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Wgmma"]

# Unit -> products along k of one instruction; every operand row of an instruction is 32 bytes.
_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "s8": 32, "u8": 32, "e4m3": 32, "e5m2": 32}
_INTEGER = ("s8", "u8")


class Wgmma(NamedTuple):
    """One shape of the instruction: D[64 x columns] (+)= A[64 x depth] B[depth x columns].

    Attributes
    ----------
    a, b : str
        Operand formats: "f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2".
    columns : int
        Multiple of 8 up to 256 (of 16 above 32 for integers).
    a_k_major, b_k_major : bool
        Whether rows in shared memory run along k; the others exist for 16-bit formats only.
    a_registers : bool
        Whether A is four words of each thread.
    """

    a: str
    b: str
    columns: int
    a_k_major: bool = True
    b_k_major: bool = True
    a_registers: bool = False

    @property
    def is_integer(self) -> bool:
        """Whether the sums are 32-bit integers."""
        return self.a in _INTEGER

    @property
    def name(self) -> str:
        """Shape and formats, as in ``m64n256k16.f16.f16``."""
        return f"m64n{self.columns}k{_DEPTH[self.a]}.{self.a}.{self.b}"

    @property
    def instruction(self) -> str:
        """The PTX mnemonic."""
        shape, formats = self.name.split(".", 1)
        sums = "s32" if self.is_integer else "f32"
        return f"wgmma.mma_async.sync.aligned.{shape}.{sums}.{formats}"

    def _modifiers(self) -> str:
        if self.is_integer:
            return ""
        if _DEPTH[self.a] == 16:
            return f", 1, 1, {int(not self.a_k_major)}, {int(not self.b_k_major)}"
        return ", 1, 1"

    def source(self, name: str) -> str:
        """C++ of a struct ``name`` with ``multiply(sums, a, b, accumulate)`` on two descriptors.

        With ``a_registers`` A is an array of words.
        """
        n, words = self.columns // 2, 4 if self.a_registers else 1  # sums that a thread holds, words of A
        last = n + words + 1
        kind, constraint = ("int", "+r") if self.is_integer else ("float", "+f")
        registers = ", ".join(f"%{i}" for i in range(n))
        operands = ", ".join(f'"{constraint}"(d[{i}])' for i in range(n))
        a = ", ".join(f"%{n + i}" for i in range(words))
        parameter, a_inputs = "u64 a", '"l"(a)'
        if self.a_registers:
            parameter, a = "const u32 (&a)[4]", f"{{{a}}}"
            a_inputs = ", ".join(f'"r"(a[{i}])' for i in range(words))
        return (
            f"struct {name} {{\n"
            f"    static constexpr int COUNT = {n};\n"
            "    __device__ __forceinline__ static void\n"
            f"    multiply({kind} (&d)[{n}], {parameter}, u64 b, int accumulate) {{\n"
            f'        asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{last}, 0;\\n{self.instruction} "\n'
            f'            "{{{registers}}}, "\n'
            f'            "{a}, %{n + words}, p{self._modifiers()};\\n}}"\n'
            f"            : {operands}\n"
            f'            : {a_inputs}, "l"(b), "r"(accumulate));\n'
            f"    }}\n}};\n"
        )
