// Parts of K side by side in the blocks of a cluster: block r computes part r of one tile, stages [r * PART_STAGES, …),
// as if it were all; then the blocks give each other rows of their sums, and each adds those of its share of the
// tile's rows in the order of k, floats to nearest, and makes D of them.  Nothing goes through device memory.

__device__ __forceinline__ u32 address_in_block(u32 address, u32 rank) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}
// From this block's shared memory to that of another block of the cluster, where it completes on a barrier.
__device__ __forceinline__ void copy_to_block(u32 there, u32 source, u32 bytes, u32 barrier_there) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(there),
                 "r"(source), "r"(bytes), "r"(barrier_there)
                 : "memory");
}
template <int THREADS> __device__ __forceinline__ void consumers_barrier() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

template <class I> struct ClusterSum {
    using S = Stage<I>;
    using T = typename I::Sum;
    using E = typename I::Epilogue;
    using D = typename E::DType;
    using Rows = RowOrder<I::A_REGISTERS>;
    static constexpr int THREADS = 128 * S::CONSUMERS, PIECE = 4;    // threads that add; entries that each takes at a time
    static constexpr int PITCH = I::BN + 8;                          // of a row of sums: rows in their order meet no bank twice
    static constexpr int SHARE = (I::BM + I::PARTS - 1) / I::PARTS;  // rows that a block adds; the last one has what is left
    static constexpr int ROW_SUMS = PITCH * 4, SHARE_BYTES = SHARE * ROW_SUMS;
    static_assert(sizeof(T) == 4 && I::BM * ROW_SUMS <= I::STAGES * S::BYTES);
    static_assert(I::PARTS * SHARE_BYTES <= S::CONSUMERS * I::BUFFERS * S::STORE_BYTES);

    const Arguments<T>& p;
    u32 base;
    int part, thread;

    // Where the others' sums of this block's rows arrive, part after part, and what completes when all have.
    __device__ __forceinline__ static u32 inbox(u32 base) { return base + S::STORE_FIRST; }
    __device__ __forceinline__ static u32 arrived(u32 base) { return base + S::HANDOVER; }
    __device__ __forceinline__ static u32 share_bytes(int part) { return u32(least(SHARE, I::BM - part * SHARE)) * ROW_SUMS; }

    // All sums of the tile, where the ring was: it is idle once every consumer has come here.
    __device__ __forceinline__ void stage(const T (&sums)[I::BN / 2]) const {
        const int t = thread % 128, row = thread / 128 * 64 + Rows::row(t / 32, t % 32 / 4), col = 2 * (t % 4);
        consumers_barrier<THREADS>();
#pragma unroll
        for (int i = 0; i < I::BN / 2; i += 2) {
            const u32 line = base + (row + Rows::STEP * (i / 2 % 2)) * ROW_SUMS;
            stage_two_words(line + (8 * (i / 4) + col) * 4, bits_of(sums[i]), bits_of(sums[i + 1]));
        }
        async_proxy_fence();
        consumers_barrier<THREADS>();
    }
    // One thread: to each other block its share of the rows, where it waits for this part.
    __device__ __forceinline__ void give() const {
        const u32 target = inbox(base) + part * SHARE_BYTES;
#pragma unroll
        for (int peer = 0; peer < I::PARTS; ++peer)
            if (peer != part) copy_to_block(address_in_block(target, peer), base + peer * SHARE_BYTES, share_bytes(peer), address_in_block(arrived(base), peer));
    }
    __device__ __forceinline__ void add(const TilePlace& tile) const {
        bool overflow = false;
        const int rows = least(SHARE, I::BM - part * SHARE);
#pragma unroll 1
        for (int i = thread; i < SHARE * I::BN / PIECE; i += THREADS) {
            const int row = I::D_TURNED ? i % SHARE : i / (I::BN / PIECE), col = (I::D_TURNED ? i / SHARE : i % (I::BN / PIECE)) * PIECE;
            T sums[PIECE] = {};
#pragma unroll
            for (int q = 0; q < I::PARTS; ++q) {
                u32 word[PIECE];
                const u32 sums_of_part = q == part ? base + part * SHARE_BYTES : inbox(base) + q * SHARE_BYTES;
                asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                             : "r"(sums_of_part + row * ROW_SUMS + col * 4) : "memory");
#pragma unroll
                for (int j = 0; j < PIECE; ++j) sums[j] = plus(sums[j], *reinterpret_cast<const T*>(&word[j]));
            }
            const i64 m = i64(tile.row) + part * SHARE + row;
            if (row >= rows || m >= p.m) continue;
#pragma unroll
            for (int j = 0; j < PIECE; ++j) {
                const i64 n = i64(tile.col) + col + j;
                if (n >= p.n) break;
                T c = 0;
                if (p.mode & MODE_C) c = To<T>::from(static_cast<const typename E::CType*>(p.c)[m * p.c_row + n * p.c_col]);
                static_cast<D*>(p.d)[m * p.d_row + n * p.d_col] = Output<D>::from(E::apply(p, 0, sums[j], c, m, n), overflow);
            }
        }
        if constexpr (same<D, e4m3> || same<D, e5m2>)
            if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
    }
};

template <class I>
__device__ __forceinline__ void hopper_cluster_sum(const Maps& maps, const Arguments<typename I::Sum>& p) {
    using S = Stage<I>;
    using Exchange = ClusterSum<I>;
    extern __shared__ __align__(ATOM_BYTES) u8 shared[];
    const u32 base = shared_offset(shared);
    const int group = warpgroup_index(), part = int(cluster_rank());
    const int first = part * I::PART_STAGES, all = int((p.k + S::DEPTH - 1) / S::DEPTH);
    constexpr int TOGETHER = I::Chains::TOGETHER;
    const int blocks = (least(I::PART_STAGES, all - first) + TOGETHER - 1) / TOGETHER * TOGETHER;
    if (threadIdx.x == 0) {
        prefetch_map(maps.a);
        prefetch_map(maps.b);
        S::Ring_::init(base + S::BARRIERS, S::CONSUMERS);
        barrier_init(Exchange::arrived(base), 1);
        barrier_expect(Exchange::arrived(base), (I::PARTS - 1) * Exchange::share_bytes(part));
        barrier_init_fence();
    }
    __syncwarp();
    cluster_arrive();
    const Scheduler<I::BM, I::BN, I::GROUP, 1, I::PARTS> tiles(p.m, p.n, 1);
    const bool is_short = u32(blocks) <= SHORT_WORK<I>;
    if (is_short) let_successor_begin();
    wait_for_predecessor();
    cluster_wait();
    if (group == 0) {
        give_registers<I::PRODUCER_REGISTERS>();
        const bool leads = elected();
        if (warp_index() == 0 && leads) {
            Producer<I>{maps.a, maps.b, p.batch[0], typename S::Ring_(base + S::BARRIERS), base, blocks, 0, Residency<I>::passes(p), first}.run(tiles);
            if (!is_short) let_successor_begin();
        }
    } else {
        take_registers<I::CONSUMER_REGISTERS>();
        auto next = tiles;
        const TilePlace tile = next.take(0);
        ConsumerOf<I> consumer(base, group - 1);
        typename I::Chains sum;
        sum.run(consumer, blocks, [] {});
        const Exchange exchange{p, base, part, int(threadIdx.x) - 128};
        if constexpr (I::ROUNDS) {
            const i64 start = i64(first) * S::DEPTH, depth = least(i64(I::PART_STAGES) * S::DEPTH, p.k - start);
            RoundedOperands<I>::check(p, tile, start, depth, exchange.thread / 32, sum.result);
        }
        exchange.stage(sum.result);
        if (exchange.thread < 32 && elected()) exchange.give();
        barrier_wait(Exchange::arrived(base), 0);
        exchange.add(tile);
    }
    // No block ends while a copy is on its way from it: until all blocks have what they wait for.
    __syncwarp();
    cluster_arrive();
    cluster_wait();
}
