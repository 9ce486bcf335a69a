"""Kernels of the family by name: each main path of the code at least once, tile by tile."""

from __future__ import annotations

from typing import Any

from mxgemm.configs import configuration
from mxgemm.kernels import EpilogueClass, KernelInstance, OperandClass, PackInstance, ProductClass
from mxgemm.kernels.hopper.arrange import ArrangeInstance
from mxgemm.kernels.hopper.chain_sum import ChainSumInstance
from mxgemm.kernels.hopper.cluster_sum import ClusterSumInstance
from mxgemm.kernels.hopper.instance import HopperInstance
from mxgemm.kernels.hopper.selection import instances
from mxgemm.kernels.operands import Layout
from mxgemm.kernels.product import BiasAxis

LAYOUTS: dict[str, Layout] = {"k": "k_major", "n": "mn_major"}
PRECISIONS = {"float32": "tf32", "int8": "exact"}


def product_class(
    a: str, b: str, layouts: str, d: str, *, k: int = 4096, activation: str = "identity",
    reads_c: bool = False, bias: str | None = None, batch_axes: int = 0, pieces: bool = True,
    c: str | None = None, c_piece: int = 16, bias_along: BiasAxis = "columns", turned: bool = False,
) -> ProductClass:  # fmt: skip
    """A class whose operands lie on 16 bytes; so do D and C with ``pieces``."""
    of_a, of_b = (OperandClass(t, LAYOUTS[x], 16) for t, x in zip((a, b), layouts, strict=True))
    return ProductClass(
        configuration(a, b, PRECISIONS.get(a, "native")), "sm_90", "int32" if a == "int8" else "float32",
        of_a, of_b, EpilogueClass(activation, d, c or d, bias), batch_axes, k, reads_c=reads_c,
        d_piece=16 if pieces else 1, c_piece=c_piece if pieces else 1, d_turned=turned, bias_along=bias_along,
    )  # fmt: skip


F16, F32, E4M3, E5M2 = "float16", "float32", "float8_e4m3fn", "float8_e5m2"
FULL: dict[str, Any] = {"activation": "relu", "reads_c": True, "bias": F16}
CLASSES: dict[str, tuple[ProductClass, tuple[int, int, int]]] = {
    "f16_cluster": (product_class(F16, F16, "kn", F16), (128, 256, 2)),
    "f16_by_element": (product_class(F16, F16, "nk", F16, pieces=False), (128, 256, 1)),
    "f16_epilogue": (product_class(F16, F16, "kk", F16, batch_axes=1, **FULL), (128, 256, 1)),
    "f16_pairs_of_c": (product_class(F16, F16, "kk", F16, c="float32", c_piece=2, **FULL), (128, 144, 1)),
    "f16_bias_of_rows": (product_class(F16, F16, "kk", F16, bias=F16, bias_along="rows"), (128, 208, 1)),
    "f16_bias_of_entries": (product_class(F16, F16, "kk", F16, bias_along="entries", **FULL), (128, 256, 1)),
    "f16_chains_and_c": (product_class(F16, F16, "kk", F16, k=20000, **FULL), (128, 192, 1)),
    "f16_chains": (product_class(F16, F16, "kk", F16, k=20000), (128, 192, 1)),
    "f16_turned": (product_class(F16, F16, "nk", F16, turned=True), (128, 160, 1)),
    "f16_turned_c": (product_class(F16, F16, "nk", F16, turned=True, **FULL), (128, 256, 1)),
    "f16_turned_chains": (product_class(F16, F16, "kk", F16, k=20000, turned=True), (128, 176, 1)),
    "bf16_turned_narrow": (product_class("bfloat16", "bfloat16", "nk", "bfloat16", turned=True), (64, 48, 1)),
    "f16_three_wide": (product_class(F16, F16, "nn", F16, turned=True), (192, 176, 1)),
    "f16_three_in_clusters": (product_class(F16, F16, "kn", F16), (192, 192, 2)),
    "f16_three_narrow_in_clusters": (product_class(F16, F16, "nn", F16), (192, 96, 2)),
    "f16_chains_in_clusters": (product_class(F16, F16, "nk", F16, k=20000), (128, 192, 2)),
    "f16_one_in_clusters": (product_class(F16, F16, "kn", F16), (64, 192, 2)),
    "f16_two_blocks": (product_class(F16, F16, "nn", F16, turned=True), (256, 192, 1)),
    "f16_two_blocks_by_element": (product_class(F16, F16, "kk", F16, pieces=False), (256, 192, 1)),
    "tf32_two_blocks": (product_class(F32, F32, "kk", F32, batch_axes=1), (256, 192, 1)),
    "s8_two_blocks": (product_class("int8", "uint8", "kk", "int32", activation="clamp"), (256, 192, 1)),
    "f16_three_consumers": (product_class(F16, F16, "kn", F16), (192, 192, 1)),
    "tf32_three_consumers": (product_class(F32, F32, "nk", F32), (192, 128, 1)),
    "bf16_narrow": (product_class("bfloat16", "bfloat16", "nk", "bfloat16"), (64, 16, 1)),
    "tf32": (product_class(F32, F32, "kk", F32), (128, 256, 1)),
    "tf32_registers": (product_class(F32, F32, "nk", F32, turned=True), (128, 256, 1)),
    "tf32_registers_c": (
        product_class(F32, F32, "nk", F32, turned=True, reads_c=True, activation="relu", bias=F32),
        (128, 192, 1),
    ),
    "tf32_registers_chains": (product_class(F32, F32, "nk", F32, k=20000), (128, 144, 1)),
    "tf32_turned": (product_class(F32, F32, "kk", F32, batch_axes=1, turned=True), (64, 16, 1)),
    "tf32_turned_c": (product_class(F32, F32, "kk", F32, turned=True, reads_c=True), (128, 128, 1)),
    "s8_u8": (product_class("int8", "uint8", "kk", "int32", activation="clamp", bias="int32"), (128, 192, 1)),
    "e4m3_e5m2": (product_class(E4M3, E5M2, "kk", "float32"), (128, 208, 1)),
    "e4m3_to_e4m3": (product_class(E4M3, E4M3, "kk", E4M3), (64, 128, 1)),
    "e4m3_sections": (product_class(E4M3, E4M3, "kk", "float32", k=20000), (128, 144, 1)),
    "e4m3_sections_to_e4m3": (
        product_class(E4M3, E4M3, "kk", E4M3, k=20000, activation="gelu", reads_c=True, bias=F32),
        (128, 128, 1),
    ),
}  # fmt: skip

IN_CLUSTERS = {
    "f16_cluster_sum": product_class(F16, F16, "kn", F16, k=65536),
    "f16_cluster_sum_turned": product_class(F16, F16, "nk", F16, k=20000, turned=True, **FULL),
    "tf32_cluster_sum": product_class(F32, F32, "nk", F32, k=16384, turned=True),
    "e4m3_cluster_sum": product_class(E4M3, E5M2, "kk", E4M3, k=50000, bias=F32),
    "s8_cluster_sum": product_class("int8", "uint8", "kk", "int32", k=5000),
}


def chosen() -> dict[str, KernelInstance | PackInstance]:
    """The kernels by name."""
    found: dict[str, KernelInstance | PackInstance] = {
        name: next(i for i in instances(p) if isinstance(i, HopperInstance) and _tile(i) == tile)
        for name, (p, tile) in CLASSES.items()
    }
    offered = instances(product_class(F16, F16, "kk", F16, k=20000, **FULL))
    found["f16_side_by_side"] = next(i for i in offered if isinstance(i, ChainSumInstance))
    offered = instances(product_class(F32, F32, "nk", F32, k=20000))
    found["tf32_side_by_side"] = next(i.sums_by for i in offered if isinstance(i, ChainSumInstance))
    offered = instances(product_class(E4M3, E4M3, "kk", E4M3, k=20000))
    e4m3 = next(i for i in offered if isinstance(i, ChainSumInstance))
    found["e4m3_side_by_side"], found["e4m3_sums_side_by_side"] = e4m3, e4m3.sums_by
    offered = instances(product_class("int8", "uint8", "kk", "int32", k=20000))
    s8 = next(i for i in offered if isinstance(i, ChainSumInstance))
    found["s8_side_by_side"], found["s8_sums_side_by_side"] = s8, s8.sums_by
    for name, p in IN_CLUSTERS.items():
        found[name] = next(i for i in instances(p) if isinstance(i, ClusterSumInstance))
    found["arrange"] = ArrangeInstance(2, 1)
    found["arrange_turned"] = ArrangeInstance(4, 0, turned=True)
    return found


def _tile(instance: HopperInstance) -> tuple[int, int, int]:
    t = instance.tile
    return t.rows, t.columns, t.cluster
