// Fragments of a warp's tile from shared memory.  Three ways, by element and by the axis with unit
// stride; each says which row (A) or column (B) of the warp's tile its registers stand for.
//
// Lane l holds group g = l / 4 and t = l % 4.  Register r of A: rows g + 8 (r % 2), depth part r / 2;
// register r of B: column g, depth part r.

// Just before the products: float32 words are rounded where the unit reads tf32.
template <class Math, class Fragment> __device__ __forceinline__ void make_ready(Fragment& x) {
    if constexpr (same<Math, MmaTf32>)
#pragma unroll
        for (u32& word : x.r) word = rounded_to_tf32(word);
}

// 16-byte rows along k of any element up to 4 bytes, or 16-bit elements along m or n.
template <class Math, class SL, Layout LAYOUT> struct MatrixLoads {
    static constexpr bool TRANSPOSED = LAYOUT == mn_major;
    static constexpr int ELEMENTS = 16 / SL::SIZE;    // of one 16-byte row
    __device__ __forceinline__ static constexpr int position(int tile, int half, int g) {
        return tile * 16 + half * 8 + g;
    }
    __device__ __forceinline__ static constexpr int column(int tile, int x) { return tile * 8 + x; }

    // Which 8x8 matrix each eight lanes point at: along k the second half goes last for A, first for B.
    __device__ __forceinline__ static u32 lane_offset(int lane, bool a) {
        const int row = lane & 7, low = (lane >> 3) & 1, high = lane >> 4;
        const int along = a ? low : high, deep = a ? high : low;
        return TRANSPOSED ? SL::at(along * 8, deep * 8 + row) : SL::at(along * 8 + row, deep * ELEMENTS);
    }
    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::A (&a)[TILES]) {
#pragma unroll
        for (int i = 0; i < TILES; ++i)
            load_matrices<TRANSPOSED>(base + SL::at(i * 16, depth), a[i].r[0], a[i].r[1], a[i].r[2], a[i].r[3]);
    }
    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::B (&b)[TILES]) {
        static_assert(TILES % 2 == 0);
#pragma unroll
        for (int j = 0; j < TILES; j += 2)
            load_matrices<TRANSPOSED>(base + SL::at(j * 8, depth), b[j].r[0], b[j].r[1], b[j + 1].r[0],
                                      b[j + 1].r[1]);
    }
};

// One element a register: tf32 along m or n as words, and float64, to which float32 widens exactly.
template <class Math, class SL, class Shared> struct ElementLoads {
    using Register = typename Math::Register;
    template <class X, int = 0> struct As { using Type = Shared; };
    template <int UNUSED> struct As<u32, UNUSED> { using Type = u32; };
    using Read = typename As<Register>::Type;
    __device__ __forceinline__ static constexpr int position(int tile, int half, int g) {
        return tile * 16 + half * 8 + g;
    }
    __device__ __forceinline__ static constexpr int column(int tile, int x) { return tile * 8 + x; }
    __device__ __forceinline__ static u32 lane_offset(int lane, bool) { return SL::at(lane >> 2, lane & 3); }

    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::A (&a)[TILES]) {
#pragma unroll
        for (int i = 0; i < TILES; ++i)
#pragma unroll
            for (int r = 0; r < int(sizeof(a[i].r) / sizeof(a[i].r[0])); ++r)
                a[i].r[r] = Register(load_shared<Read>(base + SL::at(i * 16 + r % 2 * 8, depth + r / 2 * 4)));
    }
    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::B (&b)[TILES]) {
#pragma unroll
        for (int j = 0; j < TILES; ++j)
#pragma unroll
            for (int r = 0; r < int(sizeof(b[j].r) / sizeof(b[j].r[0])); ++r)
                b[j].r[r] = Register(load_shared<Read>(base + SL::at(j * 8, depth + r * 4)));
    }
};

// 8-bit elements along m or n: four words of four depths are transposed by byte permutes, so that a
// lane holds positions 4g … 4g + 3 of each 32 instead of g, g + 8, g + 16, g + 24.
template <class Math, class SL> struct ByteTransposes {
    __device__ __forceinline__ static constexpr int position(int tile, int half, int g) {
        return tile / 2 * 32 + 4 * g + tile % 2 * 2 + half;
    }
    __device__ __forceinline__ static constexpr int column(int tile, int x) {
        return tile / 4 * 32 + 4 * x + tile % 4;
    }
    __device__ __forceinline__ static u32 lane_offset(int lane, bool) {
        return SL::at((lane >> 2) * 4, (lane & 3) * 4);
    }
    // Words x[j] of four depths at position 4g + j.
    __device__ __forceinline__ static void transpose(u32 address, u32 (&x)[4]) {
        u32 w[4];
#pragma unroll
        for (int r = 0; r < 4; ++r) w[r] = load_shared<u32>(address + r * SL::ROW_BYTES);
        const u32 low01 = __byte_perm(w[0], w[1], 0x5140), high01 = __byte_perm(w[0], w[1], 0x7362);
        const u32 low23 = __byte_perm(w[2], w[3], 0x5140), high23 = __byte_perm(w[2], w[3], 0x7362);
        x[0] = __byte_perm(low01, low23, 0x5410);
        x[1] = __byte_perm(low01, low23, 0x7632);
        x[2] = __byte_perm(high01, high23, 0x5410);
        x[3] = __byte_perm(high01, high23, 0x7632);
    }
    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::A (&a)[TILES]) {
        static_assert(TILES % 2 == 0);
#pragma unroll
        for (int i = 0; i < TILES; i += 2)
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                u32 x[4];
                transpose(base + SL::at(i * 16, depth + part * 16), x);
                a[i].r[2 * part] = x[0], a[i].r[2 * part + 1] = x[1];
                a[i + 1].r[2 * part] = x[2], a[i + 1].r[2 * part + 1] = x[3];
            }
    }
    template <int TILES>
    __device__ __forceinline__ static void load(u32 base, int depth, typename Math::B (&b)[TILES]) {
        static_assert(TILES % 4 == 0);
#pragma unroll
        for (int j = 0; j < TILES; j += 4)
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                u32 x[4];
                transpose(base + SL::at(j * 8, depth + part * 16), x);
#pragma unroll
                for (int q = 0; q < 4; ++q) b[j + q].r[part] = x[q];
            }
    }
};

template <class Math, class Op, int EXTENT, int DEPTH> struct FragmentLoads {
    using Shared = typename Op::Shared;
    using SL = SharedLayout<Shared, Op::LAYOUT, EXTENT, DEPTH>;
    static constexpr bool WORDS = same<typename Math::Register, u32>;
    static constexpr int WAY = WORDS && (Op::LAYOUT == k_major || SL::SIZE == 2) ? 0 : WORDS && SL::SIZE == 1 ? 1 : 2;
    template <int WAY_, int = 0> struct Pick { using Loads = ElementLoads<Math, SL, Shared>; };
    template <int UNUSED> struct Pick<0, UNUSED> { using Loads = MatrixLoads<Math, SL, Op::LAYOUT>; };
    template <int UNUSED> struct Pick<1, UNUSED> { using Loads = ByteTransposes<Math, SL>; };
    using Loads = typename Pick<WAY>::Loads;
    static constexpr bool PAIRED = WAY != 1;    // columns 2t and 2t + 1 of an accumulator are neighbours
};
