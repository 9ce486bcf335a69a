// The kernel: a persistent block of one warpgroup that moves data and the consumer warpgroups.

// Stages of a block, narrow ones being short: about 20 us.
template <class I> constexpr u32 SHORT_WORK = I::BN <= 32 ? 128 : 64;

template <class I> __device__ __forceinline__ void init_barriers(u32 base) {
    using S = Stage<I>;
    S::Ring_::init(base + S::BARRIERS, S::CONSUMERS * I::CLUSTER);
    Terms<I>{base + S::TERMS}.init();
    for (int rows = 0; rows < S::CONSUMERS; ++rows) Handover<I, Chunks<I>::COUNT>{base + S::handover(rows)}.init();
    barrier_init_fence();
}

template <class I, class Tiles>
__device__ __forceinline__ void move(const Maps& maps, const Arguments<typename I::Sum>& p, Tiles tiles, u32 base, int blocks, u32 rank) {
    using S = Stage<I>;
    using Warps = EpilogueWarps<I>;
    const int warp = warp_index(), rows = warp - Warps::FIRST;
    const bool leads = elected();
    if (warp == 0 && leads) {
        Producer<I>{maps.a, maps.b, p.batch[0], typename S::Ring_(base + S::BARRIERS), base, blocks, rank, Residency<I>::passes(p)}.run(tiles);
        if (may_let_successor_begin<I::SPLIT>(p.m, p.n)) let_successor_begin();
    }
    if constexpr (Terms<I>::BYTES > 0)
        if (warp == 1) Warps::fetch(p, Terms<I>{base + S::TERMS}, tiles, rank);
    if constexpr (I::BULK_STORE)
        if (rows >= 0 && rows < S::CONSUMERS && leads) Warps::move(maps, p, BlocksOf<I::ROW_BLOCKS, Tiles>{tiles}, base, rows, rank);
    __syncwarp();
}

// What a consumer does for the epilogue under a tile's products: it writes the last tile, and takes C.
template <class I> struct Meanwhile {
    Store<I>& store;
    typename I::Chains& sum;
    const TilePlace& finished;

    __device__ __forceinline__ void operator()() const { store.write(finished, sum.words()); }
    __device__ __forceinline__ void hold_c(bool last) const { store.hold_c(last, sum.words()); }
};

template <class I, class Tiles>
__device__ __forceinline__ void multiply(const Arguments<typename I::Sum>& p, Tiles tiles, u32 base, int blocks, u32 rank, int rows) {
    ConsumerOf<I> consumer(base, rows);
    Store<I> store{p, base, rows, consumer.thread};
    typename I::Chains sum;
    TilePlace finished;
#pragma unroll 1
    while (tiles.more()) {
        consumer.keep_behind(blocks);
        sum.run(consumer, blocks, Meanwhile<I>{store, sum, finished});
        finished = tiles.take(rank);
#pragma unroll
        for (int block = 0; block < I::ROW_BLOCKS; ++block) {
            auto& sums = of_block(sum.result, block);
            if constexpr (I::ROUNDS) {
                const i64 start = I::SPLIT ? finished.product * p.k : 0, depth = I::SPLIT ? least(p.k, p.depth - start) : p.k;
                RoundedOperands<I>::check(p, finished, start, depth, 4 * (I::ROW_BLOCKS * rows + block) + consumer.thread / 32, sums);
            }
            store.finish(from_block(finished, block), sums, sum.words());
        }
    }
    store.write(finished, sum.words());
    store.tell_overflow();
}

template <class I>
__device__ __forceinline__ void hopper_gemm(const Maps& maps, const Arguments<typename I::Sum>& p) {
    using S = Stage<I>;
    extern __shared__ __align__(ATOM_BYTES) u8 shared[];    // swizzling goes by address
    const u32 base = shared_offset(shared);
    const u32 rank = I::CLUSTER == 1 ? 0 : cluster_rank();
    const int group = warpgroup_index();
    constexpr int STEP = S::DEPTH * I::Chains::TOGETHER;
    const int blocks = int((p.k + STEP - 1) / STEP) * I::Chains::TOGETHER;
    if (threadIdx.x == 0) {
        prefetch_map(maps.a);
        prefetch_map(maps.b);
        if constexpr (I::BULK_STORE) prefetch_map(maps.d);
        if constexpr (I::STAGES_C) prefetch_map(maps.c);
        init_barriers<I>(base);
    }
    if constexpr (I::CLUSTER > 1) {
        __syncwarp();
        cluster_arrive();
    }
    const Scheduler<I::BM, I::BN, I::GROUP, I::CLUSTER> tiles(p.m, p.n, i64(p.products));
    if (u64(tiles.most()) * u32(blocks) <= SHORT_WORK<I>) let_successor_begin();
    wait_for_predecessor();
    if constexpr (I::CLUSTER == 1) __syncthreads();
    else cluster_wait();
    if (group == 0) {
        give_registers<I::PRODUCER_REGISTERS>();
        move<I>(maps, p, tiles, base, blocks, rank);
    } else {
        take_registers<I::CONSUMER_REGISTERS>();
        multiply<I>(p, tiles, base, blocks, rank, group - 1);
    }
}
