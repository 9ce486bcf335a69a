// The store buffers between a consumer and the thread that lets the copy engine store them: staged[b]
// completes when the four warps have written buffer b, ready[b] when it may be written.  Chunk i of a tile takes
// buffer i % BUFFERS.  With C (STAGES_C) its chunks come through the same buffers before those of D: ready[b] also
// completes when C's box has landed, and staged[b] when the warps have read it and another chunk of C takes its place.

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
    // Completions of a barrier before that for `chunk`, of C or D, at the block's tile number `count`.  Where C's last
    // chunk in a buffer gives way to D's first, each warp replaces what it has read itself, and nobody is told; but for
    // a narrower chunk, whose rows lie elsewhere (Store::finish).
    __device__ __forceinline__ static u32 uses(u32 count, int chunk, bool of_c) {
        const int chunks = (CHUNKS - chunk % I::BUFFERS + I::BUFFERS - 1) / I::BUFFERS, first = I::STAGES_C ? chunks - 1 : 0;
        return count * (first + chunks) + (of_c ? 0 : first) + chunk / I::BUFFERS;
    }
    // A fresh barrier counts as a completed phase of parity 1, so that the first use passes without C.
    __device__ __forceinline__ void wait_ready(u32 count, int chunk) const {
        if (!I::STAGES_C || chunk >= I::BUFFERS) barrier_wait(ready(chunk), (uses(count, chunk, false) & 1) ^ (I::STAGES_C ? 0 : 1));
    }
    __device__ __forceinline__ void wait_staged(u32 count, int chunk) const {
        barrier_wait(staged(chunk), uses(count, chunk, false) & 1);
    }
    // Until a chunk of C has landed, and until it has been read.
    __device__ __forceinline__ void wait_c(u32 count, int chunk) const { barrier_wait(ready(chunk), uses(count, chunk, true) & 1); }
    __device__ __forceinline__ void wait_c_read(u32 count, int chunk) const { barrier_wait(staged(chunk), uses(count, chunk, true) & 1); }
};
