// Global to shared memory through registers: where cp.async cannot go (pointers or rows off a 4-byte
// boundary, architectures before sm_80) and where operands are rounded on the way.
// A tile is fetched one iteration before it is written, so that its latency hides behind the products.

template <int SIZE> struct Word;
template <> struct Word<1> { using Type = u8; };
template <> struct Word<2> { using Type = u16; };
template <> struct Word<4> { using Type = u32; };
template <> struct Word<8> { using Type = u64; };

// The first `valid` elements of 16 bytes, one by one; zeros after them.
template <int SIZE> __device__ __forceinline__ void load_elements(const char* source, int valid, u32* words) {
    using Element = typename Word<SIZE>::Type;
    const Element* elements = reinterpret_cast<const Element*>(source);
#pragma unroll
    for (int word = 0; word < 4; ++word) words[word] = 0;
#pragma unroll
    for (int i = 0; i < 16 / SIZE; ++i) {
        if (i >= valid) continue;
        if constexpr (SIZE == 8) {
            words[2 * i] = u32(elements[i]);
            words[2 * i + 1] = u32(elements[i] >> 32);
        } else {
            words[i * SIZE / 4] |= u32(elements[i]) << (i * SIZE % 4 * 8);
        }
    }
}

// 16 bytes that start anywhere: five aligned words, shifted into four when they are stored.
template <class Op, bool ALIGNED> struct PlainChunk {
    static constexpr int SIZE = sizeof(typename Op::Source), ELEMENTS = 16 / SIZE;
    u32 words[ALIGNED ? 4 : 5];
    u32 shift;

    __device__ __forceinline__ void fetch(const char* source, int valid) {
        shift = 0;
        if constexpr (ALIGNED) {
            if (valid >= ELEMENTS) {
                const uint4 x = *reinterpret_cast<const uint4*>(source);
                words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
                return;
            }
        } else {
            words[4] = 0;
            // The last word may reach past the chunk, so only chunks with that much behind them take it.
            if (valid >= ELEMENTS + (SIZE < 4 ? 4 / SIZE - 1 : 0)) {
                const u64 address = reinterpret_cast<u64>(source);
                const u32* aligned = reinterpret_cast<const u32*>(address & ~u64(3));
                shift = u32(address & 3) * 8;
#pragma unroll
                for (int i = 0; i < 4; ++i) words[i] = aligned[i];
                if (shift) words[4] = aligned[4];
                return;
            }
        }
        load_elements<SIZE>(source, valid, words);
    }
    __device__ __forceinline__ void finish(u32 (&out)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            out[i] = ALIGNED ? words[i] : __funnelshift_r(words[i], words[ALIGNED ? i : i + 1], shift);
    }
};

// Eight float32 values, rounded to nearest even into 16-bit elements when they are stored.
template <class Op> struct RoundedChunk {
    static constexpr int ELEMENTS = 8;
    float values[8];

    __device__ __forceinline__ void fetch(const char* source, int valid) {
        const float* from = reinterpret_cast<const float*>(source);
        if (Op::ALIGNMENT == 16 && valid >= 8) {
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const float4 x = *reinterpret_cast<const float4*>(from + i);
                values[i] = x.x, values[i + 1] = x.y, values[i + 2] = x.z, values[i + 3] = x.w;
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] = i < valid ? from[i] : 0.0f;
    }
    __device__ __forceinline__ void finish(u32 (&out)[4]) const {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            out[i] = rounded_pair<typename Op::Shared>(values[2 * i], values[2 * i + 1]);
    }
};

template <class Op, int EXTENT, int DEPTH, int THREADS> struct RegisterCopy {
    static constexpr bool ASYNC = false;
    template <bool ROUNDS, int = 0> struct Pick { using Chunk = PlainChunk<Op, Op::ALIGNMENT == 16>; };
    template <int UNUSED> struct Pick<true, UNUSED> { using Chunk = RoundedChunk<Op>; };
    using Chunk = typename Pick<!same<typename Op::Source, typename Op::Shared>>::Chunk;
    using Slice = Share<Op, EXTENT, DEPTH, Chunk::ELEMENTS, THREADS>;
    Slice share;
    Chunk chunks[Slice::PASSES];

    __device__ __forceinline__ RegisterCopy(const void* base, i64 stride, i64 first, i64 extent, int thread)
        : share(base, stride, first, extent, thread) {}

    // Starts the loads of the next tile.
    __device__ __forceinline__ void fetch(int depth_left) {
        const int valid = share.elements_left(depth_left);
        const char* source = share.source;
#pragma unroll
        for (int pass = 0; pass < Slice::PASSES; ++pass) {
            chunks[pass].fetch(source, share.row_inside(pass, depth_left) ? valid : 0);
            source += share.pass_bytes;
        }
        share.source += share.tile_bytes;
    }
    // Writes the tile that was fetched last.
    __device__ __forceinline__ void finish(u32 stage) {
#pragma unroll
        for (int pass = 0; pass < Slice::PASSES; ++pass) {
            u32 words[4];
            chunks[pass].finish(words);
            if (share.writes(pass))
                store_shared(stage + share.target + pass * (Slice::ROWS * Slice::Layout_::ROW_BYTES), words);
        }
    }
    __device__ __forceinline__ void begin(u32, int) {}
};
