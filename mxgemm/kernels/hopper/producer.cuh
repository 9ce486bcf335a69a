// The producer: one thread that keeps the ring filled with bulk tensor copies.  In a cluster the blocks lie
// below each other, so that they need the same columns of B: each loads a share and gives it to all.

template <class I> struct Producer {
    using S = Stage<I>;
    static constexpr u16 ALL = u16((1 << I::CLUSTER) - 1);

    __device__ __forceinline__ static void load_a(u32 stage, MapAddress map, u32 barrier, const TilePlace& tile, int product, int k) {
        if constexpr (I::A_K_MAJOR) {
            load_box(stage, map, barrier, k, tile.row, product);
        } else {
#pragma unroll
            for (int panel = 0; panel < I::BM / S::PANEL; ++panel)
                load_box(stage + panel * S::DEPTH * ROW_BYTES, map, barrier, tile.row + S::PANEL * panel, k, product);
        }
    }
    __device__ __forceinline__ static void load_share(u32 target, MapAddress map, u32 barrier, int inner, int outer, int product) {
        if constexpr (I::CLUSTER == 1) load_box(target, map, barrier, inner, outer, product);
        else load_box_multicast(target, map, barrier, inner, outer, product, ALL);
    }
    __device__ __forceinline__ static void load_b(u32 stage, MapAddress map, u32 barrier, const TilePlace& tile, int product, int k, u32 rank) {
        if constexpr (I::B_K_MAJOR) {
            constexpr int SHARE = I::BN / I::CLUSTER;
            load_share(stage + rank * (SHARE * ROW_BYTES), map, barrier, k, tile.col + int(rank) * SHARE, product);
        } else {
            constexpr int PANELS = S::B_EXTENT / S::PANEL;
            if constexpr (PANELS % I::CLUSTER == 0) {
                constexpr int SHARE = PANELS / I::CLUSTER;
#pragma unroll
                for (int i = 0; i < SHARE; ++i) {
                    const int panel = int(rank) * SHARE + i;
                    load_share(stage + panel * S::DEPTH * ROW_BYTES, map, barrier, tile.col + S::PANEL * panel, k, product);
                }
            } else {    // of every panel a share of its k
                constexpr int SHARE = S::DEPTH / I::CLUSTER;
                const int first = int(rank) * SHARE;
#pragma unroll
                for (int panel = 0; panel < PANELS; ++panel)
                    load_share(stage + (panel * S::DEPTH + first) * ROW_BYTES, map, barrier, tile.col + S::PANEL * panel, k + first, product);
            }
        }
    }

    // An operand that the batch does not step through is one matrix for all products.  When parts of one
    // product are told apart as a batch (SPLIT), each takes its own part of k of the same matrices.
    template <class Tiles>
    __device__ __forceinline__ static void run(MapAddress map_a, MapAddress map_b, const BatchAxis& batch, typename S::Ring_ ring,
                                               Tiles tiles, u32 shared, int blocks, u32 rank) {
        while (tiles.more()) {
            const TilePlace tile = tiles.take(rank);
            const int of_a = batch.a ? tile.product : 0, of_b = batch.b ? tile.product : 0;
#pragma unroll 1
            for (int block = 0; block < blocks; ++block) {
                const int k = ((I::SPLIT ? tile.product * blocks : 0) + block) * S::DEPTH;
                ring.wait_empty();
                const u32 barrier = ring.full_barrier();
                barrier_expect(barrier, S::BYTES);
                const u32 stage = shared + ring.stage * S::BYTES;
                load_a(stage, map_a, barrier, tile, of_a, k);
                load_b(stage + S::A_BYTES, map_b, barrier, tile, of_b, k, rank);
                ring.advance();
            }
        }
        if constexpr (I::SPLIT) let_successor_begin();    // the sum of the parts
    }
};
