// The sum of one tile, by the length of the configuration's chains.

// All of k is one chain (or the arithmetic is exact): the unit's sum is the result.
template <class I> struct OneChain {
    static constexpr int TOGETHER = 1;
    typename I::Sum result[I::Unit::COUNT];

    __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks) { consumer.chain(result, blocks); }
};

// Chains of many stages: each ends in a drained pipe, which costs nothing at that length.
template <class I> struct LongChains {
    static constexpr int TOGETHER = 1;
    typename I::Sum result[I::Unit::COUNT];

    __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks) {
        typename I::Sum sums[I::Unit::COUNT];
#pragma unroll
        for (int i = 0; i < I::Unit::COUNT; ++i) result[i] = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block += I::CHAIN_STAGES) {
            consumer.chain(sums, least(blocks - block, I::CHAIN_STAGES));
#pragma unroll
            for (int i = 0; i < I::Unit::COUNT; ++i) result[i] = __fadd_rn(result[i], sums[i]);
        }
    }
};

// Chains of one stage.  Unit covers half of the columns; while one half is added to the master, the other
// multiplies.  TOGETHER chains run straight and the pipe is drained at the loop's end: sums that are read
// while another group is in flight across a back edge make ptxas serialise every wgmma, and a separate tail
// for an odd chain spills.  So the stages are padded to a multiple: a stage of zeros adds +0.
template <class I> struct ShortChains {
    static constexpr int COUNT = I::Unit::COUNT, HALF = I::BN / 2, TOGETHER = 2;
    float result[2 * COUNT];

    template <int FIRST> __device__ __forceinline__ void add(float (&sums)[COUNT]) {
        settle(sums);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) result[FIRST + i] = __fadd_rn(result[FIRST + i], sums[i]);
    }
    __device__ __forceinline__ void together(Consumer<I>& consumer) {
        float left[COUNT], right[COUNT];
        int finished = 0;
#pragma unroll
        for (int chain = 0; chain < TOGETHER; ++chain) {
            consumer.wait();
            wgmma_begin();
            consumer.template multiply<typename I::Unit>(left, 0, false);
            if (chain) {
                wgmma_wait<1>();
                add<COUNT>(right);
                consumer.release(finished);
                wgmma_begin();
            }
            consumer.template multiply<typename I::Unit>(right, HALF, false);
            wgmma_wait<1>();
            add<0>(left);
            finished = consumer.ring.stage;
            consumer.ring.advance();
        }
        wgmma_wait<0>();
        add<COUNT>(right);
        consumer.release(finished);
    }
    __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks) {
#pragma unroll
        for (int i = 0; i < 2 * COUNT; ++i) result[i] = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block += TOGETHER) together(consumer);
    }
};
