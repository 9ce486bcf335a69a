"""HopperInstance: everything that decides the code of one kernel of the family, and its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mxgemm.epilogue import EpilogueSpec
from mxgemm.kernels.hopper.wgmma import Wgmma

__all__ = ["HopperInstance"]

_FOLDER = Path(__file__).parent
_SHARED = ("types", "convert", "arguments", "activations", "epilogue")  # of every family
_OWN = ("barriers", "tensor_map", "descriptor", "ring", "scheduler", "roles", "stage", "producer",
        "register_producer", "converter", "consumer", "chains", "store", "gemm")  # fmt: skip

# Element type -> C++ type and the unit's operand format.
_CPP = {
    "float16": "f16", "bfloat16": "bf16", "float32": "float", "int8": "i8", "uint8": "u8",
    "int32": "i32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_UNIT = {
    "float16": "f16", "bfloat16": "bf16", "float32": "tf32", "int8": "s8", "uint8": "u8",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip
_ACTIVATION = {
    "identity": "Identity", "relu": "Relu", "clamp": "Clamp", "gelu": "Gelu", "gelu-tanh": "GeluTanh",
    "silu": "Silu",
}  # fmt: skip
# (producers, consumers, unaligned, converted) -> registers a thread of each; together at most 65536 a block.
_REGISTERS = {
    (1, 2, False, False): (40, 232),
    (1, 2, False, True): (72, 216),
    (1, 2, True, False): (128, 192),
    (2, 2, True, False): (112, 144),
}
_NO_EPILOGUE = EpilogueSpec()
_ROW_BYTES = 128
_ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4}


@cache
def _text(folder: Path, name: str) -> str:
    return (folder / f"{name}.cuh").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class HopperInstance:
    """One kernel.

    Attributes
    ----------
    a, b, d : str
        Element types.
    c, bias, scale_rows, scale_cols : str or None
        Element types of what the epilogue reads; None where it takes no part.
    a_k_major, b_k_major : bool
        Whether k is the contiguous axis in memory.
    rows, columns : int
        The block's tile of D: 64 rows a consumer warpgroup.
    stages : int
        Ring stages, each 128 bytes deep along k.
    cluster : int
        Blocks that share columns of B.
    group : int
        Rows of tiles that go together.
    chain : int
        Stages of one chain; 0 when all of k is one chain or the sum is exact.
    buffers : int
        Shared-memory buffers of 64 rows x 128 bytes for the stores of each consumer.
    bulk_store : bool
        Whether D's pointer and rows are 16-byte aligned.
    """

    a: str
    b: str
    d: str
    a_k_major: bool = True
    b_k_major: bool = True
    rows: int = 128
    columns: int = 256
    stages: int = 4
    cluster: int = 1
    group: int = 8
    chain: int = 0
    buffers: int = 2
    bulk_store: bool = True
    batched: bool = False
    unaligned: bool = False
    producers: int = 1
    c_pairs: bool = False
    converted: bool = False
    c: str | None = None
    bias: str | None = None
    scale_rows: str | None = None
    scale_cols: str | None = None
    epilogue: EpilogueSpec = _NO_EPILOGUE

    lowering = "wgmma"

    @property
    def consumers(self) -> int:
        """Consumer warpgroups."""
        return self.rows // 64

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (self.producers + self.consumers)

    @property
    def depth(self) -> int:
        """Products along k of one stage."""
        return _ROW_BYTES // _ITEMSIZE.get(self.a, 1)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory a block, with room to align it."""
        columns = self.columns if self.b_k_major else -(-self.columns // 64) * 64
        stage = (self.rows + columns) * _ROW_BYTES
        return 1024 + self.stages * (stage + 24) + self.consumers * self.buffers * 64 * _ROW_BYTES

    @property
    def is_integer(self) -> bool:
        """Whether the sums are 32-bit integers."""
        return self.a in ("int8", "uint8")

    @property
    def unit(self) -> Wgmma:
        """The instruction; short chains take half of the columns at a time."""
        columns = self.columns // 2 if self.chain == 1 else self.columns
        return Wgmma(_UNIT[self.a], _UNIT[self.b], columns, self.a_k_major, self.b_k_major)

    @property
    def variant(self) -> str:
        """What tells it from its siblings."""
        chains = {0: "one chain", 1: "short chains"}.get(self.chain, f"chains of {self.chain * self.depth}")
        cluster = f", cluster of {self.cluster}" if self.cluster > 1 else ""
        return f"{self.rows}x{self.columns}, {self.stages} stages{cluster}, {chains}"

    @property
    def entry(self) -> str:
        """Name of the kernel."""
        layout = ("t" if self.a_k_major else "n") + ("n" if self.b_k_major else "t")
        return f"hopper_{_UNIT[self.a]}_{_UNIT[self.b]}_{layout}_{self.rows}x{self.columns}"

    def _epilogue(self) -> str:
        arrays = (self.c or self.d, self.bias, self.scale_rows, self.scale_cols, self.d)
        types = ", ".join(_CPP[x] if x else "Absent" for x in arrays)
        return f"Epilogue<{_ACTIVATION[self.epilogue.activation]}, {types}>"

    def _instance(self) -> str:
        sums = "i32" if self.is_integer else "float"
        chains = {0: "OneChain", 1: "ShortChains"}.get(self.chain, "LongChains")
        key = (self.producers, self.consumers, self.unaligned, self.converted)
        producer, consumer = _REGISTERS.get(key, (0, 0))
        flag = {True: "true", False: "false"}
        return f"""
struct Instance {{
    using A = {_CPP[self.a]};
    using B = {_CPP[self.b]};
    using Sum = {sums};
    using Unit = InstanceUnit;
    using Epilogue = ::{self._epilogue()};
    using Chains = {chains}<Instance>;
    static constexpr bool A_K_MAJOR = {flag[self.a_k_major]}, B_K_MAJOR = {flag[self.b_k_major]};
    static constexpr int BM = {self.rows}, BN = {self.columns}, STAGES = {self.stages};
    static constexpr int CLUSTER = {self.cluster}, GROUP = {self.group};
    static constexpr int CHAIN_STAGES = {self.chain}, BUFFERS = {self.buffers};
    static constexpr bool BULK_STORE = {flag[self.bulk_store]};
    static constexpr int A_BATCHED = {int(self.batched)}, B_BATCHED = {int(self.batched)};
    static constexpr bool BULK_LOAD = {flag[not self.unaligned]}, C_PAIRS = {flag[self.c_pairs]};
    static constexpr bool CONVERTED = {flag[self.converted]};
    static constexpr int PRODUCERS = {self.producers};
    static constexpr int PRODUCER_REGISTERS = {producer}, CONSUMER_REGISTERS = {consumer};
}};
"""

    def _entry(self) -> str:
        sums = "i32" if self.is_integer else "float"
        cluster = f"__cluster_dims__({self.cluster}, 1, 1) " if self.cluster > 1 else ""
        unaligned = ", const void* a, const void* b, i64 a_outer, i64 b_outer, i64 a_batch, i64 b_batch"
        fields = ("a", "b", "a_outer", "b_outer")
        fill = " ".join([f"p.{x} = {x};" for x in fields] + [f"p.batch[0].{x} = {x}_batch;" for x in "ab"])
        if not self.unaligned:
            unaligned = fill = ""
        mode = "MODE_PRODUCT | MODE_C" if self.c else "MODE_PRODUCT"
        return f"""
extern "C" __global__ void {cluster}__launch_bounds__({self.threads}, 1)
{self.entry}(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
    const __grid_constant__ TensorMap map_d, void* d, const void* c, const void* bias, i64 m, i64 n, i64 k,
    i64 products, i64 d_row, i64 d_col, i64 c_row, i64 c_col, i64 bias_row, i64 bias_col, i64 d_batch,
    i64 c_batch, i64 bias_batch, double alpha, double beta, double low, double high, u32* flags{unaligned}) {{
    Arguments<{sums}> p;
    p.d = d; p.c = c; p.bias = bias; p.m = m; p.n = n; p.k = k; p.products = u64(products);
    p.d_row = d_row; p.d_col = d_col; p.c_row = c_row; p.c_col = c_col;
    p.bias_row = bias_row; p.bias_col = bias_col;
    p.batch[0].d = d_batch; p.batch[0].c = c_batch; p.batch[0].bias = bias_batch;
    p.alpha = {sums}(alpha); p.beta = {sums}(beta); p.low = {sums}(low); p.high = {sums}(high);
    p.flags = flags; p.mode = {mode}; {fill}
    hopper_gemm<Instance>(map_a, map_b, map_d, p);
}}
"""

    def source(self) -> str:
        """One self-contained source: the building blocks and a tiny instantiation."""
        blocks = [_text(_FOLDER.parent, name) for name in _SHARED]
        blocks += [_text(_FOLDER, name) for name in _OWN]
        return "\n".join([*blocks, self.unit.source("InstanceUnit"), self._instance(), self._entry()])
