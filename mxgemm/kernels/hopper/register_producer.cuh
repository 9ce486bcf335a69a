// Producers for operands that the copy engine cannot read (a pointer or a leading dimension off 16 bytes):
// warpgroups that read aligned 16-byte granules, shift neighbours together, and write the swizzled stage
// themselves.  16 rows further is a multiple of 16 bytes further, so a thread's shift never changes in a tile.
// Nothing outside the matrix's first and last element is read: granules that reach over are read by element.

struct Granules { u32 word[8]; };    // two neighbours

// Without `needed` the words stay as they were: what they hold is masked or patched afterwards.
__device__ __forceinline__ void load_granule(u32* word, const char* address, bool needed) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
                 "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "l"(address), "r"(int(needed)));
}
template <class Element> __device__ __forceinline__ void copy_element(u32 target, const char* address) {
    if constexpr (sizeof(Element) == 1) asm volatile("st.shared.u8 [%0], %1;" ::"r"(target), "r"(u32(*reinterpret_cast<const u8*>(address))) : "memory");
    else if constexpr (sizeof(Element) == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(target), "h"(*reinterpret_cast<const u16*>(address)) : "memory");
    else asm volatile("st.shared.u32 [%0], %1;" ::"r"(target), "r"(*reinterpret_cast<const u32*>(address)) : "memory");
}

// Rows of 128 bytes of one operand, 8 threads a row, 16 rows a pass.
template <class Element, bool K_MAJOR, int EXTENT> struct Rows {
    static constexpr int SIZE = sizeof(Element), DEPTH = ROW_BYTES / SIZE;
    static constexpr int PANEL_PASSES = DEPTH / 16;    // of a panel whose rows run along m or n
    static constexpr int PASSES = K_MAJOR ? EXTENT / 16 : (EXTENT + 63) / 64 * PANEL_PASSES;
    const char* granule;         // holds this thread's first byte
    const char *first, *past;    // of the whole matrix
    i64 pass_bytes;
    int shift;                   // of that byte in the granule
    int outer_left, inner_left;

    // `corner`: the tile's first row or column; `extent`: how many the matrix has.
    __device__ __forceinline__ Rows(const void* base, i64 stride, int corner, i64 extent, i64 k, int thread) {
        const int row = thread / 8, piece = thread % 8;
        const i64 outer = (K_MAJOR ? corner : 0) + row, inner = K_MAJOR ? 0 : corner;
        const i64 rows = K_MAJOR ? extent : k, columns = K_MAJOR ? k : extent;
        first = static_cast<const char*>(base);
        past = first + ((rows - 1) * stride + columns) * SIZE;
        const u64 address = reinterpret_cast<u64>(first) + u64((outer * stride + inner) * SIZE + piece * PIECE_BYTES);
        granule = reinterpret_cast<const char*>(address & ~u64(PIECE_BYTES - 1));
        shift = int(address % PIECE_BYTES);
        pass_bytes = 16 * stride * SIZE;
        outer_left = int(rows - outer);
        // Columns of a panel beyond the tile are never multiplied.
        const i64 used = K_MAJOR ? columns : least(columns - inner, i64(EXTENT));
        inner_left = int(least(used * SIZE - piece * PIECE_BYTES, i64(1) << 30));
    }
    __device__ __forceinline__ static int panel(int pass) { return K_MAJOR ? 0 : pass / PANEL_PASSES; }
    __device__ __forceinline__ static int row(int pass) { return K_MAJOR ? pass : pass % PANEL_PASSES; }
    // Bytes of this thread's piece that lie in the matrix; not positive when none does.
    __device__ __forceinline__ int inside(int pass) const {
        return 16 * row(pass) < outer_left ? inner_left - panel(pass) * ROW_BYTES : 0;
    }
    __device__ __forceinline__ const char* from(int pass) const { return granule + row(pass) * pass_bytes + panel(pass) * ROW_BYTES; }
    // Whether the piece goes on in the next granule.
    __device__ __forceinline__ bool goes_on(int bytes) const { return shift + least(bytes, PIECE_BYTES) > PIECE_BYTES; }

    __device__ __forceinline__ void load(Granules& x, int pass) const {
        const char* const at = from(pass);
        const int bytes = inside(pass);
        load_granule(x.word, at, bytes > 0 && at >= first && at + PIECE_BYTES <= past);
        load_granule(x.word + 4, at + PIECE_BYTES, goes_on(bytes) && at + 2 * PIECE_BYTES <= past);
    }
    __device__ __forceinline__ void store(u32 stage, Granules x, int pass, int thread) const {
        const int words = shift / 4, bytes = inside(pass);
#pragma unroll
        for (int i = 0; i < 6; ++i) x.word[i] = words & 2 ? x.word[i + 2] : x.word[i];
#pragma unroll
        for (int i = 0; i < 5; ++i) x.word[i] = words & 1 ? x.word[i + 1] : x.word[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) x.word[i] = __funnelshift_r(x.word[i], x.word[i + 1], 8 * u32(shift & 3));
        if (bytes < PIECE_BYTES)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (bytes < 4 * i + 4) x.word[i] = bytes <= 4 * i ? 0 : x.word[i] & ((1u << 8 * (bytes - 4 * i)) - 1);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(stage + swizzled(16 * pass + thread / 8, thread % 8)), "r"(x.word[0]),
                     "r"(x.word[1]), "r"(x.word[2]), "r"(x.word[3]) : "memory");
    }
    // Pieces of which a granule reaches over the matrix's ends, element by element; few blocks have any.
    __device__ __forceinline__ void patch(u32 stage, int thread) const {
        if (granule >= first && from(PASSES - 1) + 2 * PIECE_BYTES <= past) return;
#pragma unroll 1
        for (int pass = 0; pass < PASSES; ++pass) {
            const char* const at = from(pass);
            const int bytes = inside(pass);
            if (bytes <= 0 || (at >= first && at + (goes_on(bytes) ? 2 : 1) * PIECE_BYTES <= past)) continue;
            const u32 target = stage + swizzled(16 * pass + thread / 8, thread % 8);
#pragma unroll 1
            for (int byte = 0; byte < PIECE_BYTES && byte < bytes; byte += SIZE) copy_element<Element>(target + byte, at + shift + byte);
        }
    }
    __device__ __forceinline__ void advance() {
        granule += K_MAJOR ? i64(ROW_BYTES) : pass_bytes * PANEL_PASSES;
        if constexpr (K_MAJOR) inner_left -= ROW_BYTES;
        else outer_left -= DEPTH;
    }
};

template <class I> struct RegisterProducer {
    using S = Stage<I>;
    using RowsA = Rows<typename I::A, I::A_K_MAJOR, I::BM>;
    using RowsB = Rows<typename I::B, I::B_K_MAJOR, I::BN>;
    static constexpr int A_PASSES = RowsA::PASSES, PASSES = A_PASSES + RowsB::PASSES, BATCH = 4;
    static constexpr int BATCHES = (PASSES + BATCH - 1) / BATCH;
    static_assert(I::CLUSTER == 1);

    __device__ __forceinline__ static void load(Granules (&x)[BATCH], const RowsA& a, const RowsB& b, int batch) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int pass = batch * BATCH + i;
            if (pass < A_PASSES) a.load(x[i], pass);
            else if (pass < PASSES) b.load(x[i], pass - A_PASSES);
        }
    }
    __device__ __forceinline__ static void store(const Granules (&x)[BATCH], const RowsA& a, const RowsB& b, u32 to_a, u32 to_b, int batch, int thread) {
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int pass = batch * BATCH + i;
            if (pass < A_PASSES) a.store(to_a, x[i], pass, thread);
            else if (pass < PASSES) b.store(to_b, x[i], pass - A_PASSES, thread);
        }
    }
    // Producer warpgroup `producer` fills every I::PRODUCERS-th stage.
    template <class Tiles>
    __device__ __forceinline__ static void run(const Arguments<typename I::Sum>& p, typename S::Ring_ ring, Tiles tiles,
                                               u32 shared, int blocks, int producer) {
        const int thread = int(threadIdx.x) % 128;
        int turn = 0;
        while (tiles.more()) {
            const TilePlace tile = tiles.take(0);
            RowsA a(static_cast<const typename I::A*>(p.a) + tile.product * p.batch[0].a, p.a_outer, tile.row, p.m, p.k, thread);
            RowsB b(static_cast<const typename I::B*>(p.b) + tile.product * p.batch[0].b, p.b_outer, tile.col, p.n, p.k, thread);
#pragma unroll 1
            for (int block = 0; block < blocks; ++block) {
                if (turn == producer) {
                    const u32 to_a = shared + ring.stage * S::BYTES, to_b = to_a + S::A_BYTES;
                    Granules x[2][BATCH];
                    load(x[0], a, b, 0);
                    ring.wait_empty();
#pragma unroll
                    for (int batch = 0; batch < BATCHES; ++batch) {
                        if (batch + 1 < BATCHES) load(x[(batch + 1) % 2], a, b, batch + 1);
                        store(x[batch % 2], a, b, to_a, to_b, batch, thread);
                    }
                    a.patch(to_a, thread);
                    b.patch(to_b, thread);
                    async_proxy_fence();
                    __syncwarp();
                    if (thread % 32 == 0) barrier_arrive(ring.full_barrier());
                }
                a.advance();
                b.advance();
                ring.advance();
                if (++turn == I::PRODUCERS) turn = 0;
            }
        }
    }
};
