// Global to shared memory through registers: where cp.async cannot go (pointers or rows off a 4-byte
// boundary, architectures before sm_80) and where operands are rounded on the way.
// A chunk is fetched one stage before it is stored, so that its latency hides behind the products; no
// branch stands on the way.  Chunks at the logical edge along k, and those whose aligned pieces would leave
// the memory between the operand's first and last element, are mended one element at a time.

// What a chunk is: ELEMENTS of the operand side by side, fetched by reading SPAN bytes from an address
// rounded down to GRANULE.

// Elements of at most 2 bytes at any address: three 8-byte granules, shifted together when stored.
template <class Op, bool ALIGNED> struct PlainChunk {
    static constexpr int SIZE = sizeof(typename Op::Source), ELEMENTS = 16 / SIZE, GRANULE = 8, SPAN = 24, WORDS = 4;
    u32 words[6];

    __device__ __forceinline__ void fetch(const char* source, bool safe) {
        asm volatile("{\n\t.reg .pred safe;\n\tsetp.ne.u32 safe, %7, 0;\n\t"
                     "@safe ld.global.nc.v2.u32 {%0, %1}, [%6];\n\t"
                     "@safe ld.global.nc.v2.u32 {%2, %3}, [%6 + 8];\n\t"
                     "@safe ld.global.nc.v2.u32 {%4, %5}, [%6 + 16];\n\t}"
                     : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3]), "+r"(words[4]), "+r"(words[5])
                     : "l"(source), "r"(u32(safe)));
    }
    // skip: bytes of the first granule before the chunk.
    __device__ __forceinline__ void finish(u32 (&out)[WORDS], int skip) const {
        u32 x[5];
#pragma unroll
        for (int i = 0; i < 5; ++i) x[i] = skip & 4 ? words[i + 1] : words[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = __funnelshift_r(x[i], x[i + 1], 8 * u32(skip & 3));
    }
};

template <class Op> struct PlainChunk<Op, true> {
    static constexpr int SIZE = sizeof(typename Op::Source), ELEMENTS = 16 / SIZE, GRANULE = 16, SPAN = 16, WORDS = 4;
    u32 words[4];

    __device__ __forceinline__ void fetch(const char* source, bool safe) {
        asm volatile("{\n\t.reg .pred safe;\n\tsetp.ne.u32 safe, %5, 0;\n\t"
                     "@safe ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                     : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
                     : "l"(source), "r"(u32(safe)));
    }
    __device__ __forceinline__ void finish(u32 (&out)[WORDS], int) const {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = words[i];
    }
};

// Four float32 values, rounded to nearest even into 16-bit elements when they are stored.
template <class Op> struct RoundedChunk {
    static constexpr int SIZE = 4, ELEMENTS = 4, GRANULE = 4, SPAN = 16, WORDS = 2;
    float values[4];

    __device__ __forceinline__ void fetch(const char* source, bool safe) {
        if constexpr (Op::ALIGNMENT == 16)
            asm volatile("{\n\t.reg .pred safe;\n\tsetp.ne.u32 safe, %5, 0;\n\t"
                         "@safe ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n\t}"
                         : "+f"(values[0]), "+f"(values[1]), "+f"(values[2]), "+f"(values[3])
                         : "l"(source), "r"(u32(safe)));
        else
            asm volatile("{\n\t.reg .pred safe;\n\tsetp.ne.u32 safe, %5, 0;\n\t"
                         "@safe ld.global.nc.f32 %0, [%4];\n\t@safe ld.global.nc.f32 %1, [%4 + 4];\n\t"
                         "@safe ld.global.nc.f32 %2, [%4 + 8];\n\t@safe ld.global.nc.f32 %3, [%4 + 12];\n\t}"
                         : "+f"(values[0]), "+f"(values[1]), "+f"(values[2]), "+f"(values[3])
                         : "l"(source), "r"(u32(safe)));
    }
    __device__ __forceinline__ void finish(u32 (&out)[WORDS], int) const {
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            out[i] = rounded_pair<typename Op::Shared>(values[2 * i], values[2 * i + 1]);
    }
};

// One element as shared memory holds it.
template <class Shared, class Source> __device__ __forceinline__ Shared shared_element(Source x) {
    if constexpr (same<Shared, Source>) return x;
    else return To<Shared>::from(x);
}

template <class Op, int EXTENT, int DEPTH, int THREADS> struct RegisterCopy {
    using Source = typename Op::Source;
    using Shared = typename Op::Shared;
    static constexpr bool ASYNC = false;
    template <bool ROUNDS, int = 0> struct Pick { using Chunk = PlainChunk<Op, Op::ALIGNMENT == 16>; };
    template <int UNUSED> struct Pick<true, UNUSED> { using Chunk = RoundedChunk<Op>; };
    using Chunk = typename Pick<!same<Source, Shared>>::Chunk;
    using Slice = Share<Op, EXTENT, DEPTH, Chunk::ELEMENTS, THREADS>;
    // Every pass and tile then starts as far behind a granule's first byte as this thread's first chunk.
    static_assert(Slice::ROWS * Slice::SIZE % Chunk::GRANULE == 0 && DEPTH * Slice::SIZE % Chunk::GRANULE == 0);
    Slice share;
    Chunk chunks[Slice::PASSES];
    int skip;             // bytes from the granule to the chunk
    i64 last_safe;        // the last granule from which SPAN bytes are the operand's memory
    int mended_below;     // tiles with less than this left along k may hold unsafe chunks, or end inside

    __device__ __forceinline__ RegisterCopy(const Extents& x, i64 first, int thread)
        : share(x, first, thread), chunks() {
        skip = int(reinterpret_cast<u64>(share.source) % Chunk::GRANULE);
        share.source -= skip;
        const i64 last_row = x.stride > 0 ? (x.outer - 1) * x.stride : 0;
        last_safe = reinterpret_cast<i64>(x.base) + (last_row + x.inner) * Slice::SIZE - Chunk::SPAN;
        // A chunk reaches at most SPAN bytes past its row: into memory, unless it is of the last SPAN bytes
        // of a row along k, of the last row, or of rows so close to each other that the last is within SPAN.
        constexpr int REACH = Chunk::SPAN / Slice::SIZE;
        static_assert(REACH <= DEPTH);
        mended_below = share.K_MAJOR ? DEPTH + REACH : x.stride >= REACH ? DEPTH + 1 : 2 * DEPTH + 1;
    }

    __device__ __forceinline__ bool is_safe(const char* granule) const {
        return reinterpret_cast<i64>(granule) <= last_safe;
    }
    // Starts the loads of a part of the next tile.
    __device__ __forceinline__ void fetch(int depth_left, int part, int parts) {
        share.each_pass(part, parts, [&](int pass, const char* source) {
            chunks[pass].fetch(source, share.row_inside(pass, depth_left) && is_safe(source));
        });
    }
    // Stores a part of the tile fetched last and, in its place, starts the loads of the tile behind it.
    __device__ __forceinline__ void finish(u32 stage, int depth_left, int part, int parts) {
#pragma unroll
        for (int pass = 0; pass < Slice::PASSES; ++pass) {
            if (!in_part<Slice::PASSES>(pass, part, parts)) continue;
            u32 words[Chunk::WORDS];
            chunks[pass].finish(words, skip);
            if (share.writes(pass)) store_shared(stage + share.target_of(pass), words);
        }
        fetch(depth_left - DEPTH, part, parts);
        if (part == parts - 1 && depth_left < mended_below) mend(stage, depth_left);
    }
    // Zeros past the edge along k, and elements of unsafe chunks, one by one.
    __device__ __forceinline__ void mend(u32 stage, int depth_left) {
        const char* granule = share.source - 2 * share.tile_bytes();
        u32 target = stage + share.target;
#pragma unroll 1
        for (int pass = 0; pass < Slice::PASSES; ++pass) {
            const int valid = share.row_inside(pass, depth_left) ? share.elements_left(depth_left) : 0;
            const bool safe = is_safe(granule);
            const Source* source = reinterpret_cast<const Source*>(granule + skip);
            const int first = safe && valid > 0 ? valid : 0;
#pragma unroll 1
            for (int i = first; i < Chunk::ELEMENTS && share.writes(pass); ++i) {
                Shared x = {};
                if (i < valid) x = shared_element<Shared>(source[i]);
                store_shared(target + i * u32(sizeof(Shared)), x);
            }
            granule += share.pass_bytes;
            target += Slice::ROWS * Slice::Layout_::ROW_BYTES;
        }
    }
    __device__ __forceinline__ void begin(u32, int, int, int) {}
};
