// A consumer warpgroup's 64 rows: wgmma over the stages of one chain, and chains into the master sum.

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from reading sums above the wait that completes them.
template <int COUNT> __device__ __forceinline__ void settle(float (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void settle(i32 (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) asm volatile("" : "+r"(sums[i])::"memory");
}

// One warpgroup's view of the ring.
template <class I> struct Consumer {
    using S = Stage<I>;
    using A = Descriptor<I::A_K_MAJOR, S::DEPTH>;
    using B = Descriptor<I::B_K_MAJOR, S::DEPTH>;
    typename S::Ring_ ring;
    u32 a, b;      // this warpgroup's rows of A and the columns of B in stage 0
    int thread;    // in the warpgroup

    __device__ __forceinline__ Consumer(u32 shared, int group)
        : ring(shared + S::BARRIERS), a(shared + group * A::PANEL_BYTES), b(shared + S::A_BYTES),
          thread(int(threadIdx.x) % 128) {}

    __device__ __forceinline__ void wait() const { ring.wait_full(); }
    // Unit's columns from `first` on, times all k of the current stage.
    template <class Unit, class Sum>
    __device__ __forceinline__ void multiply(Sum (&sums)[Unit::COUNT], int first, bool accumulate) const {
        const u64 from_a = A::of(a + ring.stage * S::BYTES), from_b = B::of(b + ring.stage * S::BYTES + first * ROW_BYTES);
#pragma unroll
        for (int step = 0; step < 4; ++step)
            Unit::multiply(sums, from_a + step * A::STEP, from_b + step * B::STEP, step || accumulate);
        wgmma_commit();
    }
    __device__ __forceinline__ void release(int stage) const { ring.template release<I::CLUSTER>(stage, thread); }

    // One chain from +0 over `blocks` stages.
    template <class Sum> __device__ __forceinline__ void chain(Sum (&sums)[I::Unit::COUNT], int blocks) {
        int finished = ring.stage;
#pragma unroll 1
        for (int block = 0; block < blocks; ++block) {
            wait();
            wgmma_begin();
            multiply<typename I::Unit>(sums, 0, block != 0);
            wgmma_wait<1>();
            if (block) release(finished);
            finished = ring.stage;
            ring.advance();
        }
        wgmma_wait<0>();
        settle(sums);
        release(finished);
    }
};
