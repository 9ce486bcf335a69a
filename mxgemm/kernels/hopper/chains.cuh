// The sum of one tile, by the length of the configuration's chains.  `meanwhile` runs under the products of
// the first stage: it writes the last tile, whose packed words lie in words().  One chain leaves the words alone
// after that, so that C may wait there (HOLDS_C).

// All of k is one chain (or the arithmetic is exact): the unit's sum is the result.
template <class I> struct OneChain {
    static constexpr int TOGETHER = ConsumerOf<I>::TOGETHER, WORDS = I::HELD - I::Unit::COUNT;    // what fits beside the sums
    typename I::Sum result[I::Unit::COUNT], held[WORDS];

    __device__ __forceinline__ typename I::Sum (&words())[WORDS] { return held; }
    template <class Meanwhile> __device__ __forceinline__ void run(ConsumerOf<I>& consumer, int blocks, const Meanwhile& meanwhile) {
        consumer.chain(result, blocks, meanwhile);
    }
};

// The same for several blocks of rows, whose sums fill the registers, so that no words are held.
template <class I> struct OneChainOfBlocks {
    static constexpr int TOGETHER = Consumer<I>::TOGETHER, WORDS = 0;
    typename I::Sum result[I::ROW_BLOCKS][I::Unit::COUNT];

    __device__ __forceinline__ typename I::Sum (&words())[I::Unit::COUNT] { return result[0]; }
    template <class Meanwhile> __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks, const Meanwhile& meanwhile) {
        consumer.chain(result, blocks, meanwhile);
    }
};

// Chains of many stages: each ends in a drained pipe, which costs nothing at that length.
template <class I> struct LongChains {
    static constexpr int TOGETHER = ConsumerOf<I>::TOGETHER, WORDS = I::Unit::COUNT;
    typename I::Sum result[WORDS];

    // The master sum is idle until the first chain ends.
    __device__ __forceinline__ typename I::Sum (&words())[WORDS] { return result; }
    template <class Meanwhile> __device__ __forceinline__ void add(ConsumerOf<I>& consumer, int blocks, const Meanwhile& meanwhile) {
        typename I::Sum sums[I::Unit::COUNT];
        consumer.chain(sums, least(blocks, I::CHAIN_STAGES), meanwhile);
#pragma unroll
        for (int i = 0; i < I::Unit::COUNT; ++i) result[i] = __fadd_rn(result[i], sums[i]);
    }
    template <class Meanwhile> __device__ __forceinline__ void run(ConsumerOf<I>& consumer, int blocks, const Meanwhile& meanwhile) {
        add(consumer, blocks, [&] {
            meanwhile();
#pragma unroll
            for (int i = 0; i < I::Unit::COUNT; ++i) result[i] = 0;
        });
#pragma unroll 1
        for (int block = I::CHAIN_STAGES; block < blocks; block += I::CHAIN_STAGES) add(consumer, blocks - block, [] {});
    }
};

// Chains of one stage.  Unit covers half of the columns; while one half is added to the master, the other
// multiplies.  TOGETHER chains run straight and the pipe is drained at the loop's end: sums that are read
// while another group is in flight across a back edge make ptxas serialise every wgmma, and a separate tail
// for an odd chain spills.  So the stages are padded to a multiple: a stage of zeros adds +0.
// The master and both halves fill the registers, so no words are held.
template <class I> struct ShortChains {
    static constexpr int COUNT = I::Unit::COUNT, HALF = I::BN / 2, TOGETHER = 2, WORDS = 0;
    float result[2 * COUNT];

    __device__ __forceinline__ float (&words())[2 * COUNT] { return result; }
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
    template <class Meanwhile> __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks, const Meanwhile&) {
#pragma unroll
        for (int i = 0; i < 2 * COUNT; ++i) result[i] = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block += TOGETHER) together(consumer);
    }
};

// The same for narrow tiles, whose chains take the unit less time than one product waits for the last: TOGETHER
// chains run at once, each in sums of its own for all columns, and are added in their order.
template <class I> struct NarrowShortChains {
    static constexpr int COUNT = I::Unit::COUNT, TOGETHER = 4, WORDS = 0;
    static_assert(I::STAGES >= TOGETHER);    // none is released before all have come
    float result[COUNT];

    __device__ __forceinline__ float (&words())[COUNT] { return result; }
    template <int PENDING> __device__ __forceinline__ void add(const Consumer<I>& consumer, float (&sums)[COUNT], int finished) {
        wgmma_wait<PENDING>();
        settle(sums);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) result[i] = __fadd_rn(result[i], sums[i]);
        consumer.release(finished);
    }
    __device__ __forceinline__ void together(Consumer<I>& consumer) {
        float sums[TOGETHER][COUNT];
        int stage[TOGETHER];
#pragma unroll
        for (int chain = 0; chain < TOGETHER; ++chain) {
            consumer.wait();
            wgmma_begin();
            consumer.template multiply<typename I::Unit>(sums[chain], 0, false);
            stage[chain] = consumer.ring.stage;
            consumer.ring.advance();
        }
        add<3>(consumer, sums[0], stage[0]);
        add<2>(consumer, sums[1], stage[1]);
        add<1>(consumer, sums[2], stage[2]);
        add<0>(consumer, sums[3], stage[3]);
    }
    template <class Meanwhile> __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks, const Meanwhile&) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) result[i] = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block += TOGETHER) together(consumer);
    }
};

// Chains of one stage, summed by sections of SECTION stages: each begins a master sum of its own, and their sums
// are added, in order, to the total.
template <class I, class Chains, int SECTION> struct Sections {
    static constexpr int TOGETHER = Chains::TOGETHER, WORDS = 0, COUNT = I::BN / 2;
    static_assert(SECTION % TOGETHER == 0);
    Chains section;
    float result[COUNT];

    __device__ __forceinline__ float (&words())[COUNT] { return result; }
    template <class Meanwhile> __device__ __forceinline__ void run(Consumer<I>& consumer, int blocks, const Meanwhile& meanwhile) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) result[i] = 0;
#pragma unroll 1
        for (int block = 0; block < blocks; block += SECTION) {
            section.run(consumer, least(blocks - block, SECTION), meanwhile);
#pragma unroll
            for (int i = 0; i < COUNT; ++i) result[i] = __fadd_rn(result[i], section.result[i]);
        }
    }
};
