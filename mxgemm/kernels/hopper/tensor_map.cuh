// Bulk tensor copies: boxes of a matrix between device memory and swizzled shared memory.
// Elements outside the matrix arrive as zeros and are not written back.

struct alignas(64) TensorMap { u64 opaque[16]; };

// A map stays where the launch put it, in constant memory; the copy engine is told its address, 0 for none.
using MapAddress = u64;
__device__ __forceinline__ MapAddress address_of(const TensorMap& map) { return reinterpret_cast<u64>(&map); }
// All maps of a launch; D and C have a second one each for a narrower last chunk.
struct Maps { MapAddress a, b, d, d_tail, c, c_tail; };

__device__ __forceinline__ void prefetch_map(MapAddress map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Of what L2 gives up first.
#define FIRST_TO_GIVE_WAY ".reg .b64 policy;\ncreatepolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"

// Loads a box whose first element is (inner, outer) of matrix `product`; completes on `barrier`.
__device__ __forceinline__ void load_box(u32 target, MapAddress map, u32 barrier, int inner, int outer,
                                         int product) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(target),
                 "l"(map), "r"(barrier), "r"(inner), "r"(outer), "r"(product)
                 : "memory");
}
// The same, and with HINTED it may pass through L2 as the first to give way.
template <bool HINTED>
__device__ __forceinline__ void load_box(u32 target, MapAddress map, u32 barrier, int inner, int outer, int product, bool passes) {
    if (HINTED && passes)
        asm volatile("{\n" FIRST_TO_GIVE_WAY "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], policy;\n}" ::"r"(target),
                     "l"(map), "r"(barrier), "r"(inner), "r"(outer), "r"(product)
                     : "memory");
    else load_box(target, map, barrier, inner, outer, product);
}
// The same box into every block of the cluster that `blocks` names, at the same offset.
template <bool HINTED>
__device__ __forceinline__ void load_box_multicast(u32 target, MapAddress map, u32 barrier, int inner, int outer,
                                                   int product, u16 blocks, bool passes) {
    if (HINTED && passes)
        asm volatile("{\n" FIRST_TO_GIVE_WAY "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6, policy;\n}" ::"r"(target),
                     "l"(map), "r"(barrier), "r"(inner), "r"(outer), "r"(product), "h"(blocks)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(target),
                     "l"(map), "r"(barrier), "r"(inner), "r"(outer), "r"(product), "h"(blocks)
                     : "memory");
}
template <bool HINTED>
__device__ __forceinline__ void store_box(MapAddress map, u32 source, int inner, int outer, int product, bool passes) {
    if (HINTED && passes)
        asm volatile("{\n" FIRST_TO_GIVE_WAY "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], policy;\n}" ::"l"(map),
                     "r"(source), "r"(inner), "r"(outer), "r"(product)
                     : "memory");
    else
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                     "r"(source), "r"(inner), "r"(outer), "r"(product)
                     : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most PENDING committed stores still read shared memory.
template <int PENDING> __device__ __forceinline__ void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
