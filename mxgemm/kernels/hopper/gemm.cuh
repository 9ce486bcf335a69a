// The kernel: a persistent block of one producer warpgroup and BM / 64 consumer warpgroups.

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
        prefetch_map(map_a);
        prefetch_map(map_b);
        S::Ring_::init(base + S::BARRIERS, S::CONSUMERS * I::CLUSTER);
        barrier_init_fence();
    }
    if constexpr (I::CLUSTER == 1) __syncthreads();
    else cluster_barrier();

    Scheduler<I::BM, I::BN, I::GROUP, I::CLUSTER> tiles(p.m, p.n, i64(p.products));
    if (group == 0) {
        give_registers<I::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            Producer<I>::run(map_a, map_b, p.batch[0], typename S::Ring_(base + S::BARRIERS), tiles, base, blocks, rank);
        __syncwarp();
    } else {
        take_registers<I::CONSUMER_REGISTERS>();
        const int rows = group - 1;
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
