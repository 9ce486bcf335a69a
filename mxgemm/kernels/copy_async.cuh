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

// NEGATIVE_ZERO: pad with -0, which leaves a chain of fused multiply-adds unchanged where +0 does not.
template <class Op, int EXTENT, int DEPTH, int THREADS, bool NEGATIVE_ZERO> struct AsyncCopy {
    static constexpr bool ASYNC = true;
    static constexpr int SIZE = sizeof(typename Op::Source);
    static constexpr int BYTES = Op::ALIGNMENT;
    using Slice = Share<Op, EXTENT, DEPTH, BYTES / SIZE, THREADS>;
    Slice share;

    __device__ __forceinline__ AsyncCopy(const void* base, i64 stride, i64 first, i64 extent, int thread)
        : share(base, stride, first, extent, thread) {}

    __device__ __forceinline__ void piece(u32 target, const char* source, int valid) {
        if constexpr (NEGATIVE_ZERO) {
            if (valid < BYTES) {
#pragma unroll
                for (int byte = 0; byte < BYTES; byte += SIZE)
                    if (byte < valid) copy_async<SIZE>(target + byte, source + byte, SIZE);
                    else store_shared(target + byte, typename Op::Source(-0.0));
                return;
            }
        }
        copy_async<BYTES>(target, source, valid);
    }

    // Starts the copy of the next tile, of which depth_left elements along k lie inside.
    __device__ __forceinline__ void begin(u32 stage, int depth_left) {
        const int inside = least(share.elements_left(depth_left) * SIZE, BYTES);
        const int valid = inside < 0 ? 0 : inside;
        const char* source = share.source;
#pragma unroll
        for (int pass = 0; pass < Slice::PASSES; ++pass) {
            if (share.writes(pass))
                piece(stage + share.target + pass * (Slice::ROWS * Slice::Layout_::ROW_BYTES), source,
                      share.row_inside(pass, depth_left) ? valid : 0);
            source += share.pass_bytes;
        }
        share.source += share.tile_bytes;
    }
    __device__ __forceinline__ void fetch(int) {}
    __device__ __forceinline__ void finish(u32) {}
};
