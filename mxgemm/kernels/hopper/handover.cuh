// The store buffers between a consumer and the thread that lets the copy engine store them: staged[b]
// completes when the four warps have written buffer b, ready[b] when it may be written, which with C
// (STAGES_C) means that C's box has landed in it.  Chunk i of a tile takes buffer i % BUFFERS.

template <class I, int CHUNKS> struct Handover {
    u32 barriers;    // ready, then staged

    __device__ __forceinline__ u32 ready(int chunk) const { return barriers + 8 * (chunk % I::BUFFERS); }
    __device__ __forceinline__ u32 staged(int chunk) const { return barriers + 8 * (I::BUFFERS + chunk % I::BUFFERS); }
    __device__ __forceinline__ void init() const {
        for (int b = 0; b < I::BUFFERS; ++b) {
            barrier_init(ready(b), 1);
            barrier_init(staged(b), 4);
        }
    }
    // How often the buffer of `chunk` was used before, at the block's tile number `count`.
    __device__ __forceinline__ static u32 uses(u32 count, int chunk) {
        const int each = (CHUNKS - chunk % I::BUFFERS + I::BUFFERS - 1) / I::BUFFERS;
        return count * each + chunk / I::BUFFERS;
    }
    // A fresh barrier counts as a completed phase of parity 1, so that the first use passes without C.
    __device__ __forceinline__ void wait_ready(u32 count, int chunk) const {
        barrier_wait(ready(chunk), (uses(count, chunk) & 1) ^ (I::STAGES_C ? 0 : 1));
    }
    __device__ __forceinline__ void wait_staged(u32 count, int chunk) const {
        barrier_wait(staged(chunk), uses(count, chunk) & 1);
    }
};
