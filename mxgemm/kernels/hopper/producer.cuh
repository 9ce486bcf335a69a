// The producer: one thread that keeps the ring filled with bulk tensor copies.  In a cluster the blocks lie
// below each other, so that they need the same columns of B: each loads a share and gives it to all.

template <class I> struct Producer {
    using S = Stage<I>;
    static constexpr u16 ALL = u16((1 << I::CLUSTER) - 1);
    static constexpr bool HINTS = Residency<I>::HINTS;
    const MapAddress map_a, map_b;
    const BatchAxis& batch;
    typename S::Ring_ ring;
    const u32 shared;
    const int blocks;    // stages of a tile
    const u32 rank;
    const bool passes;      // whether B gives way in L2 first
    const int first = 0;    // the stage at which its part of k begins

    __device__ __forceinline__ void load_a(u32 stage, u32 barrier, const TilePlace& tile, int product, int k) const {
        if constexpr (I::A_K_MAJOR) {
            load_box(stage, map_a, barrier, k, tile.row, product);
        } else {
#pragma unroll
            for (int panel = 0; panel < I::BM / S::PANEL; ++panel)
                load_box(stage + panel * S::DEPTH * ROW_BYTES, map_a, barrier, tile.row + S::PANEL * panel, k, product);
        }
    }
    __device__ __forceinline__ void load_share(u32 target, u32 barrier, int inner, int outer, int product) const {
        if constexpr (I::CLUSTER == 1) load_box<HINTS>(target, map_b, barrier, inner, outer, product, passes);
        else load_box_multicast<HINTS>(target, map_b, barrier, inner, outer, product, ALL, passes);
    }
    __device__ __forceinline__ void load_b(u32 stage, u32 barrier, const TilePlace& tile, int product, int k) const {
        if constexpr (I::B_K_MAJOR) {
            constexpr int SHARE = I::BN / I::CLUSTER;
            load_share(stage + rank * (SHARE * ROW_BYTES), barrier, k, tile.col + int(rank) * SHARE, product);
        } else {
            constexpr int PANELS = S::B_EXTENT / S::PANEL;
            if constexpr (PANELS % I::CLUSTER == 0) {
                constexpr int SHARE = PANELS / I::CLUSTER;
#pragma unroll
                for (int i = 0; i < SHARE; ++i) {
                    const int panel = int(rank) * SHARE + i;
                    load_share(stage + panel * S::DEPTH * ROW_BYTES, barrier, tile.col + S::PANEL * panel, k, product);
                }
            } else {    // of every panel a share of its k
                constexpr int SHARE = S::DEPTH / I::CLUSTER;
                const int first = int(rank) * SHARE;
#pragma unroll
                for (int panel = 0; panel < PANELS; ++panel)
                    load_share(stage + (panel * S::DEPTH + first) * ROW_BYTES, barrier, tile.col + S::PANEL * panel, k + first, product);
            }
        }
    }
    // An operand that the batch does not step through is one matrix for all products.  When parts of one
    // product are told apart as a batch (SPLIT), each takes its own part of k of the same matrices.
    template <class Tiles, class Keep> __device__ __forceinline__ void fill(Tiles tiles, Keep& keep) {
        while (tiles.more()) {
            const TilePlace tile = tiles.take(rank);
            const int of_a = batch.a ? tile.product : 0, of_b = batch.b ? tile.product : 0;
            keep.next_tile();
#pragma unroll 1
            for (int block = 0; block < blocks; ++block) {
                const int k = ((I::SPLIT ? tile.product * blocks : first) + block) * S::DEPTH;
                keep.step(block);
                ring.wait_empty();
                const u32 barrier = ring.full_barrier();
                barrier_expect(barrier, S::BYTES);
                const u32 stage = shared + ring.stage * S::BYTES;
                load_a(stage, barrier, tile, of_a, k);
                load_b(stage + S::A_BYTES, barrier, tile, of_b, k);
                ring.advance();
            }
        }
        keep.finish();
        if constexpr (I::CLUSTER > 1) drain();
    }
    // No block may end while another one's arrivals are on their way to it: until every stage has been emptied.
    __device__ __forceinline__ void drain() {
        for (int stage = 0; stage < I::STAGES; ++stage) {
            ring.wait_empty();
            ring.advance();
        }
    }
    static constexpr bool MAY_PACE = I::BM * I::BN >= Pace<I::CLUSTER>::LEAST_ENTRIES && !Terms<I>::BIAS_BY_ENTRY;

    // One block of a cluster keeps pace for it; its ring holds the others.  Loops apart, as short ones wait for every
    // instruction here.
    template <class Tiles> __device__ __forceinline__ void run(const Tiles& tiles) {
        if constexpr (MAY_PACE) {
            if (rank == 0 && Pace<I::CLUSTER>::pays(tiles, blocks)) {
                Pace<I::CLUSTER> pace(tiles.total);
                return fill(tiles, pace);
            }
        }
        NoPace none;
        fill(tiles, none);
    }
};
