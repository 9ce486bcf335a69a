// A consumer warpgroup's rows: wgmma over the stages of one chain.

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
    static constexpr int TOGETHER = 1;    // stages that it takes at a time
    typename S::Ring_ ring;
    u32 a, b;      // this warpgroup's rows of A and the columns of B in stage 0
    int thread;    // in the warpgroup
    int rows;      // which of the consumers

    __device__ __forceinline__ Consumer(u32 shared, int group)
        : ring(shared + S::BARRIERS), a(shared + group * I::ROW_BLOCKS * A::PANEL_BYTES), b(shared + S::A_BYTES),
          thread(int(threadIdx.x) % 128), rows(group) {}

    __device__ __forceinline__ void wait() const { ring.wait_full(); }
    // At a tile's start.  Consumers that are apart by some stages end their tiles one after the other, and
    // while one is in its epilogue, the other has the matrix unit to itself.
    __device__ __forceinline__ void keep_behind(int blocks) const {
        if constexpr (I::LAG > 0)
            if (rows != 0 && blocks > I::LAG) ring.wait_full_ahead(I::LAG);
    }
    // Unit's columns from `first` on, times all k of the current stage, for each block of rows.
    template <class Unit, class Sums>
    __device__ __forceinline__ void multiply(Sums& sums, int first, bool accumulate) const {
        const u64 from_a = A::of(a + ring.stage * S::BYTES), from_b = B::of(b + ring.stage * S::BYTES + first * ROW_BYTES);
#pragma unroll
        for (int step = 0; step < 4; ++step)
#pragma unroll
            for (int block = 0; block < I::ROW_BLOCKS; ++block)
                Unit::multiply(of_block(sums, block), from_a + (step * A::STEP + block * A::BLOCK), from_b + step * B::STEP, step || accumulate);
        wgmma_commit();
    }
    __device__ __forceinline__ void release(int stage) const { ring.template release<I::CLUSTER>(stage, thread); }

    // Stages [block, end) of a chain; `finished` is the one whose products are under way.
    template <class Sums> __device__ __forceinline__ void go_on(Sums& sums, int block, int end, int& finished) {
#pragma unroll 1
        for (; block < end; ++block) {
            wait();
            wgmma_begin();
            multiply<typename I::Unit>(sums, 0, true);
            wgmma_wait<1>();
            release(finished);
            finished = ring.stage;
            ring.advance();
        }
    }
    // One chain from +0 over `blocks` stages; `meanwhile` runs while the first one's products are computed.  C is
    // taken under the last one's, and what has to make room for the rest of it a quarter of the stages before.
    template <class Sums, class Meanwhile> __device__ __forceinline__ void chain(Sums& sums, int blocks, const Meanwhile& meanwhile) {
        wait();
        wgmma_begin();
        multiply<typename I::Unit>(sums, 0, false);
        int finished = ring.stage, block = 1;
        ring.advance();
        meanwhile();
        if constexpr (I::HOLDS_C && Chunks<I>::REUSED > 0) {
            block = blocks - blocks / 4;
            go_on(sums, 1, block, finished);
            meanwhile.hold_c(false);
        }
        go_on(sums, block, blocks, finished);
        if constexpr (I::HOLDS_C) meanwhile.hold_c(true);
        wgmma_wait<0>();
#pragma unroll
        for (int rows_block = 0; rows_block < I::ROW_BLOCKS; ++rows_block) settle(of_block(sums, rows_block));
        release(finished);
    }
};
