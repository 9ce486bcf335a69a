// Warps of the producer's group that serve the epilogue, so that no consumer waits for memory: one fetches
// the terms of the next tile, and for each consumer a thread of another one has D stored and C loaded.

template <class I> struct EpilogueWarps {
    using S = Stage<I>;
    using T = typename I::Sum;
    // The warp of the first consumer.  Beside three of them there is none for terms.
    static constexpr int CHUNKS = Chunks<I>::COUNT, FIRST = S::CONSUMERS <= 2 ? 2 : 1;
    static constexpr bool WIDE = Residency<I>::HINTS;
    static_assert(S::CONSUMERS <= 2 || (S::CONSUMERS == 3 && Terms<I>::BYTES == 0));

    template <class Tiles>
    __device__ __forceinline__ static void fetch(const Arguments<T>& p, const Terms<I>& terms, Tiles tiles, u32 rank) {
        for (u32 count = 0; tiles.more(); ++count) terms.fetch(p, tiles.take(rank), count);
    }
    // The boxes of a chunk, whose buffer is `buffer`: one, or one for each part where D lies along its rows.
    template <class Box>
    __device__ __forceinline__ static void for_boxes(const TilePlace& tile, int rows, int chunk, u32 buffer, const Box& box) {
        const int row = tile.row + CONSUMER_ROWS<I> * rows, col = tile.col + chunk * Chunks<I>::COLUMNS;
        if constexpr (Chunks<I>::TURNED) {
#pragma unroll
            for (int part = 0; part < Chunks<I>::PARTS; ++part)
                box(buffer + part * Chunks<I>::PART_BYTES, row + part * Chunks<I>::PART_ROWS, col);
        } else {
            box(buffer, col, row);
        }
    }
    __device__ __forceinline__ static void load_c(const Maps& maps, const Handover<I, CHUNKS>& handover, u32 buffers, const TilePlace& tile,
                                                  u32 count, int product, int rows, bool passes) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            const bool tail = Chunks<I>::is_tail(chunk);
            if (chunk >= I::BUFFERS) handover.wait_c_read(count, chunk - I::BUFFERS);
            const u32 barrier = handover.ready(chunk);
            barrier_expect(barrier, 64 * Chunks<I>::bytes(chunk));
            for_boxes(tile, rows, chunk, buffers + chunk % I::BUFFERS * S::STORE_BYTES, [&](u32 buffer, int inner, int outer) {
                load_box<WIDE>(buffer, tail ? maps.c_tail : maps.c, barrier, inner, outer, product, passes);
            });
        }
    }
    // All blocks begin a tile at about the same time, and C of all tiles at once would hold up their
    // operands, which took 1.2 % of 4096 x 4096 x 4096: so blocks take turns, within a quarter of a tile's time.
    __device__ __forceinline__ static u32 nanoseconds_after_others(const Arguments<T>& p) {
        constexpr u32 TURNS = 8, STAGE = I::BM * I::BN / 50;    // the unit takes BM * BN / 32 cycles
        constexpr i64 LEAST = 32, MOST = 128;                   // stages: a shorter tile has no time to wait
        const i64 stages = least(p.k / S::DEPTH, MOST);
        return stages < LEAST ? 0 : blockIdx.x / I::CLUSTER % TURNS * u32(stages) * STAGE / (4 * TURNS);
    }
    // One thread, for consumer `rows`; the tiles are its blocks of rows.
    template <class Tiles>
    __device__ __forceinline__ static void move(const Maps& maps, const Arguments<T>& p, Tiles tiles, u32 shared, int rows, u32 rank) {
        const Handover<I, CHUNKS> handover{shared + S::handover(rows)};
        const u32 buffers = shared + S::buffers(rows);
        const bool passes = Residency<I>::passes(p);
        for (u32 count = 0; tiles.more(); ++count) {
            const TilePlace tile = tiles.take(rank);
            if constexpr (I::STAGES_C) {
                if (const u32 wait = WIDE ? nanoseconds_after_others(p) : 0) __nanosleep(wait);
                load_c(maps, handover, buffers, tile, count, p.batch[0].c ? tile.product : 0, rows, passes);
            }
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; ++chunk) {
                const int next = chunk + 1;
                handover.wait_staged(count, chunk);
                for_boxes(tile, rows, chunk, buffers + chunk % I::BUFFERS * S::STORE_BYTES, [&](u32 buffer, int inner, int outer) {
                    store_box<WIDE>(Chunks<I>::is_tail(chunk) ? maps.d_tail : maps.d, buffer, inner, outer, tile.product, passes);
                });
                store_commit();
                if (next < CHUNKS && next >= I::BUFFERS) {
                    store_wait_read<I::BUFFERS - 1>();
                    barrier_arrive(handover.ready(next));
                }
            }
            store_wait_read<0>();
            if constexpr (!I::STAGES_C)
                for (int b = 0; b < least(I::BUFFERS, CHUNKS); ++b) barrier_arrive(handover.ready(b));
        }
    }
};
