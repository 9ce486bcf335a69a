// A block's warpgroups: one producer, which needs few registers, and consumers, which need many.

template <int REGISTERS> __device__ __forceinline__ void give_registers() {
    if constexpr (REGISTERS > 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> __device__ __forceinline__ void take_registers() {
    if constexpr (REGISTERS > 0) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
// The same in all lanes; the shuffle tells the compiler so, else each descriptor costs a chain of R2UR.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 128, 0); }
// The four warps of a consumer wait for each other; barrier 0 is the whole block's.
__device__ __forceinline__ void warpgroup_barrier(int consumer) { asm volatile("bar.sync %0, 128;" ::"r"(consumer + 1) : "memory"); }
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0); }
// One thread of the warp, all of whose threads call this.  Only so does the compiler know that what it guards runs in one
// thread: else each bulk copy becomes a loop over the warp's threads, which took narrow tiles up to a sixth of their time.
__device__ __forceinline__ bool elected() {
    u32 one;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(one));
    return one != 0;
}
