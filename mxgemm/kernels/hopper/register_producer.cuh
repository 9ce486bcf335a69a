// Producers for operands that the copy engine cannot read (a pointer or a leading dimension off 16 bytes):
// warpgroups that read aligned 16-byte granules, shift neighbours together, and write the swizzled stage
// themselves.  16 rows further is a multiple of 16 bytes further, so a thread's shift never changes in a tile.
// Nothing outside the matrix's first and last element is read: a batch that would is copied by element.

struct Granules { u32 word[8]; };    // two neighbours

// Zeros without `needed`.  A register that is written under a predicate alone would stay alive round the loop.
__device__ __forceinline__ void load_granule(u32* word, const char* address, bool needed) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]) : "l"(address), "r"(int(needed)));
}
template <class Element> __device__ __forceinline__ void copy_element(u32 target, const char* address) {
    if constexpr (sizeof(Element) == 1) asm volatile("st.shared.u8 [%0], %1;" ::"r"(target), "r"(u32(*reinterpret_cast<const u8*>(address))) : "memory");
    else if constexpr (sizeof(Element) == 2) asm volatile("st.shared.u16 [%0], %1;" ::"r"(target), "h"(*reinterpret_cast<const u16*>(address)) : "memory");
    else asm volatile("st.shared.u32 [%0], %1;" ::"r"(target), "r"(*reinterpret_cast<const u32*>(address)) : "memory");
}

// Four passes of a thread: its piece of rows 16 apart.
struct Batch {
    static constexpr int PASSES = 4;
    const char* at;     // the granule that holds the piece's first byte, in the first pass
    int rows_left;      // pass i lies in the matrix when 16 i < rows_left
    int bytes;          // of the piece that lie in the matrix; not positive when none does
    bool safe;          // whether no granule reaches over the matrix's ends

    __device__ __forceinline__ int inside(int pass) const { return 16 * pass < rows_left ? bytes : 0; }
};

// Rows of 128 bytes of one operand, 8 threads a row, 16 rows a pass.
template <class Element, bool K_MAJOR, int EXTENT> struct Rows {
    static constexpr int SIZE = sizeof(Element), DEPTH = ROW_BYTES / SIZE;
    static constexpr int PASSES = K_MAJOR ? EXTENT / 16 : (EXTENT + 63) / 64 * (DEPTH / 16);
    static constexpr int BATCHES = (PASSES + Batch::PASSES - 1) / Batch::PASSES;
    static_assert(K_MAJOR || DEPTH == 16 * Batch::PASSES);    // a batch is one panel
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
    // The compiler may not compute batches ahead: their addresses would fill the registers.
    __device__ __forceinline__ Batch batch(int index) {
        asm volatile("" : "+l"(granule), "+r"(outer_left), "+r"(inner_left));
        Batch x;
        x.at = granule + (K_MAJOR ? index * Batch::PASSES * pass_bytes : i64(index) * ROW_BYTES);
        x.rows_left = outer_left - (K_MAJOR ? 16 * Batch::PASSES * index : 0);
        x.bytes = inner_left - (K_MAJOR ? 0 : index * ROW_BYTES);
        const int last = least((x.rows_left - 1) / 16, Batch::PASSES - 1);
        x.safe = x.at >= first && x.at + last * pass_bytes + 2 * PIECE_BYTES <= past;
        return x;
    }
    __device__ __forceinline__ void load(Granules (&x)[Batch::PASSES], int index) {
        const Batch from = batch(index);
        const char* at = from.at;
        // Whether the piece goes on in the next granule.
        const bool goes_on = shift + least(from.bytes, PIECE_BYTES) > PIECE_BYTES;
#pragma unroll
        for (int i = 0; i < Batch::PASSES; ++i, at += pass_bytes) {
            const bool needed = from.safe && from.inside(i) > 0;
            load_granule(x[i].word, at, needed);
            load_granule(x[i].word + 4, at + PIECE_BYTES, needed && goes_on);
        }
    }
    __device__ __forceinline__ void store(u32 stage, Granules (&x)[Batch::PASSES], int index, int thread) {
        const Batch from = batch(index);
        const u32 target = stage + swizzled(16 * Batch::PASSES * index + thread / 8, thread % 8);
#pragma unroll
        for (int i = 0; i < Batch::PASSES; ++i)
            if (index * Batch::PASSES + i < PASSES) put(target + 16 * ROW_BYTES * i, x[i], from.inside(i));
        if (!from.safe) copy(target, from, index);
    }
    __device__ __forceinline__ void put(u32 target, Granules& x, int bytes) const {
        const int words = shift / 4;
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
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(x.word[0]), "r"(x.word[1]), "r"(x.word[2]),
                     "r"(x.word[3]) : "memory");
    }
    // Over what put() left, element by element.
    __device__ __forceinline__ void copy(u32 target, const Batch& from, int index) const {
        const char* at = from.at + shift;
#pragma unroll 1
        for (int i = 0; i < Batch::PASSES && index * Batch::PASSES + i < PASSES; ++i, at += pass_bytes)
#pragma unroll 1
            for (int byte = 0; byte < least(from.inside(i), PIECE_BYTES); byte += SIZE)
                copy_element<Element>(target + 16 * ROW_BYTES * i + byte, at + byte);
    }
    __device__ __forceinline__ void advance() {
        granule += K_MAJOR ? i64(ROW_BYTES) : pass_bytes * Batch::PASSES;
        if constexpr (K_MAJOR) inner_left -= ROW_BYTES;
        else outer_left -= DEPTH;
    }
};

template <class I> struct RegisterProducer {
    using S = Stage<I>;
    using RowsA = Rows<typename I::A, I::A_K_MAJOR, I::BM>;
    using RowsB = Rows<typename I::B, I::B_K_MAJOR, I::BN>;
    static constexpr int A_BATCHES = RowsA::BATCHES, BATCHES = A_BATCHES + RowsB::BATCHES;
    static_assert(I::CLUSTER == 1);

    __device__ __forceinline__ static void load(Granules (&x)[Batch::PASSES], RowsA& a, RowsB& b, int batch) {
        if (batch < A_BATCHES) a.load(x, batch);
        else b.load(x, batch - A_BATCHES);
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
                    Granules x[2][Batch::PASSES];
                    load(x[0], a, b, 0);
                    ring.wait_empty();
#pragma unroll
                    for (int batch = 0; batch < BATCHES; ++batch) {
                        if (batch + 1 < BATCHES) load(x[(batch + 1) % 2], a, b, batch + 1);
                        if (batch < A_BATCHES) a.store(to_a, x[batch % 2], batch, thread);
                        else b.store(to_b, x[batch % 2], batch - A_BATCHES, thread);
                    }
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
