// The kernel: a persistent block of PRODUCERS producer warpgroups and BM / 64 consumer warpgroups.

template <class I>
__device__ __forceinline__ void hopper_gemm(MapAddress map_a, MapAddress map_b, MapAddress map_d, MapAddress map_tail,
                                            const Arguments<typename I::Sum>& p) {
    using S = Stage<I>;
    extern __shared__ __align__(128) u8 shared[];
    const u32 base = (shared_offset(shared) + ATOM_BYTES - 1) & ~u32(ATOM_BYTES - 1);    // swizzling goes by address
    const u32 rank = I::CLUSTER == 1 ? 0 : cluster_rank();
    const int group = warpgroup_index();
    constexpr int STEP = S::DEPTH * I::Chains::TOGETHER;
    const int blocks = int((p.k + STEP - 1) / STEP) * I::Chains::TOGETHER;
    if (threadIdx.x == 0) {
        if constexpr (I::BULK_LOAD) {
            prefetch_map(map_a);
            prefetch_map(map_b);
        }
        S::Ring_::init(base + S::BARRIERS, I::BULK_LOAD ? 1 : 4, I::CONVERTED ? Converter<I>::WARPS : 0, S::CONSUMERS * I::CLUSTER);
        barrier_init_fence();
    }
    if constexpr (I::CLUSTER == 1) __syncthreads();
    else cluster_barrier();

    Scheduler<I::BM, I::BN, I::GROUP, I::CLUSTER> tiles(p.m, p.n, i64(p.products));
    if (group < I::PRODUCERS) {
        give_registers<I::PRODUCER_REGISTERS>();
        const typename S::Ring_ ring(base + S::BARRIERS);
        if constexpr (I::BULK_LOAD) {
            if (threadIdx.x == 0) Producer<I>::run(map_a, map_b, p.batch[0], ring, tiles, base, blocks, rank);
            if constexpr (I::CONVERTED)
                if (threadIdx.x >= 32) Converter<I>::run(ring, tiles, base, blocks, int(threadIdx.x) - 32);
            __syncwarp();
        } else {
            RegisterProducer<I>::run(p, ring, tiles, base, blocks, group);
        }
    } else {
        take_registers<I::CONSUMER_REGISTERS>();
        const int rows = group - I::PRODUCERS;
        Consumer<I> consumer(base, rows);
        Store<I> store{p, map_d, map_tail, base + S::STORE_FIRST + u32(rows * I::BUFFERS * S::STORE_BYTES), rows, consumer.thread};
#pragma unroll 1
        while (tiles.more()) {
            const TilePlace tile = tiles.take(rank);
            typename I::Chains sum;
            sum.run(consumer, blocks);
            store.run(tile, sum.result);
        }
        store.finish_all();
    }
    // No block may end while another one's copies or arrivals are on their way to it.
    if constexpr (I::CLUSTER > 1) cluster_barrier();
}
