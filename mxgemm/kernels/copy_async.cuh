// Global to shared memory by cp.async, in pieces of the operand's alignment (16, 8 or 4 bytes).
// Bytes outside the operand are filled with zeros, never read.

template <int BYTES> __device__ __forceinline__ void copy_async(u32 target, const void* source, int valid) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                     ::"r"(target), "l"(source), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     ::"r"(target), "l"(source), "n"(BYTES), "r"(valid) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

template <class Op, int EXTENT, int DEPTH, int THREADS> struct AsyncCopy {
    static constexpr bool ASYNC = true;
    static constexpr int SIZE = sizeof(typename Op::Source);
    static constexpr int BYTES = Op::ALIGNMENT;
    using Slice = Share<Op, EXTENT, DEPTH, BYTES / SIZE, THREADS>;
    Slice share;

    __device__ __forceinline__ AsyncCopy(const Extents& x, i64 first, int thread) : share(x, first, thread) {}

    // Starts a part of the copy of the next tile, of which depth_left elements along k lie inside.
    __device__ __forceinline__ void begin(u32 stage, int depth_left, int part, int parts) {
        const int inside = least(share.elements_left(depth_left) * SIZE, BYTES);
        const int valid = inside < 0 ? 0 : inside;
        share.each_pass(part, parts, [&](int pass, const char* source) {
            if (share.writes(pass))
                copy_async<BYTES>(stage + share.target_of(pass), source,
                                  share.row_inside(pass, depth_left) ? valid : 0);
        });
    }
    __device__ __forceinline__ void fetch(int, int, int) {}
    __device__ __forceinline__ void finish(u32, int, int, int) {}
};
