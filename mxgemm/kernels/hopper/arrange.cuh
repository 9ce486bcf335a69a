// Arranging: an operand that the copy engine cannot read (rows off 16 bytes, or along the wrong axis) is copied
// into workspace with rows of whole 16-byte pieces.

constexpr int PIECE = 16;

struct ArrangeAxis { i64 extent, stride; };

struct ArrangeArguments {
    const void* source = nullptr;
    void* target = nullptr;
    i64 outer = 0, inner = 0, outer_stride = 0, inner_stride = 0;    // inner becomes the contiguous axis
    i64 leading = 0;                                                 // elements of a row of the copy
    u64 products = 1;
    ArrangeAxis batch[4] = {};
};

struct alignas(PIECE) Words { u32 word[4]; };

// Element types by size.
template <class Element> struct Elements {
    static constexpr int COUNT = PIECE / int(sizeof(Element)), BITS = 8 * int(sizeof(Element)), A_WORD = 4 / int(sizeof(Element));

    // The piece of elements `element(i)`.
    template <class F> __device__ __forceinline__ static Words gather(F element) {
        Words x = {};
#pragma unroll
        for (int i = 0; i < COUNT; ++i) x.word[i / A_WORD] |= u32(element(i)) << i % A_WORD * BITS;
        return x;
    }
};

template <int BATCH_AXES> __device__ __forceinline__ i64 origin_of(const ArrangeArguments& p, u64 index) {
    i64 origin = 0;
#pragma unroll
    for (int axis = BATCH_AXES - 1; axis >= 0; --axis) {
        origin += i64(index % u64(p.batch[axis].extent)) * p.batch[axis].stride;
        index /= u64(p.batch[axis].extent);
    }
    return origin;
}

// 16 bytes that start `shift` bytes into two aligned granules.
__device__ __forceinline__ Words shifted(const Words& low, const Words& high, u32 shift) {
    const u32 w[8] = {low.word[0], low.word[1], low.word[2], low.word[3], high.word[0], high.word[1], high.word[2], high.word[3]};
    u32 by_two[6], by_one[5];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = shift & 4 ? by_two[i + 1] : by_two[i];
    Words x;
#pragma unroll
    for (int i = 0; i < 4; ++i) x.word[i] = __funnelshift_r(by_one[i], by_one[i + 1], 8 * (shift & 3));
    return x;
}

// Rows keep their direction.  A piece comes from two aligned granules where both lie between the matrix's
// first and last byte, else from its elements one by one: nothing outside is read.
template <class Element, int BATCH_AXES> struct Along {
    using E = Elements<Element>;
    static constexpr int ROWS = 32, PIECES = 32, PASSES = 4;

    __device__ __forceinline__ static void run(const ArrangeArguments& p) {
        const Tile tile = tile_of_block<ROWS, PIECES * E::COUNT, 1, (BATCH_AXES > 0)>(p.outer, p.leading, p.products);
        const i64 col = tile.col + i64(threadIdx.x % 32) * E::COUNT, top = tile.row + threadIdx.x / 32;
        if (!tile.inside || col >= p.leading) return;
        const Element* const source = static_cast<const Element*>(p.source) + origin_of<BATCH_AXES>(p, tile.product);
        const i64 last = (p.outer - 1) * p.outer_stride;
        const u64 first = u64(source + least(last, i64(0))), past = u64(source + (last > 0 ? last : 0) + p.inner);
        const int valid = int(least(p.inner - col, i64(E::COUNT)));
        Words low[PASSES], high[PASSES];
        u32 whole = 0;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const u64 address = u64(source + (top + 8 * pass) * p.outer_stride + col), granule = address & ~u64(PIECE - 1);
            if (p.inner_stride != 1 || valid < E::COUNT || top + 8 * pass >= p.outer) continue;
            if (granule < first || granule + (address == granule ? PIECE : 2 * PIECE) > past) continue;
            low[pass] = *reinterpret_cast<const Words*>(granule);
            if (address != granule) high[pass] = *reinterpret_cast<const Words*>(granule + PIECE);
            whole |= 1u << pass;
        }
        Element* const target = static_cast<Element*>(p.target) + i64(tile.product) * p.outer * p.leading + col;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const i64 row = top + 8 * pass;
            if (!(whole >> pass & 1)) continue;
            const Words x = shifted(low[pass], high[pass], u32(u64(source + row * p.outer_stride + col)) % PIECE);
            *reinterpret_cast<Words*>(target + row * p.leading) = x;
        }
#pragma unroll 1
        for (int pass = 0; pass < PASSES; ++pass) {
            const i64 row = top + 8 * pass;
            if (whole >> pass & 1 || row >= p.outer) continue;
            const Element* const from = source + row * p.outer_stride + col * p.inner_stride;
#pragma unroll 1
            for (int i = 0; i < E::COUNT; ++i)
                target[row * p.leading + i] = i < valid ? from[i * p.inner_stride] : Element(0);
        }
    }
};

// Rows change places with columns: tiles of 64 x 64 turn in shared memory, an element a word.
template <class Element, int BATCH_AXES> struct Turned {
    using E = Elements<Element>;
    static constexpr int EXTENT = 64, PITCH = EXTENT + 1, PIECES = EXTENT / E::COUNT;

    __device__ __forceinline__ static void run(const ArrangeArguments& p) {
        __shared__ u32 words[EXTENT * PITCH];
        const Tile tile = tile_of_block<EXTENT, EXTENT, 1, (BATCH_AXES > 0)>(p.outer, p.leading, p.products);
        if (!tile.inside) return;
        const Element* const source = static_cast<const Element*>(p.source) + origin_of<BATCH_AXES>(p, tile.product);
        const i64 outer = tile.row + threadIdx.x % EXTENT;
#pragma unroll
        for (int pass = 0; pass < EXTENT * EXTENT / 256; ++pass) {
            const int i = int(threadIdx.x / EXTENT) + pass * (256 / EXTENT);
            const i64 inner = tile.col + i;
            const bool inside = outer < p.outer && inner < p.inner;
            words[i * PITCH + threadIdx.x % EXTENT] = inside ? u32(source[outer * p.outer_stride + inner * p.inner_stride]) : 0;
        }
        __syncthreads();
#pragma unroll
        for (int pass = 0; pass < EXTENT * PIECES / 256; ++pass) {
            const int i = int(threadIdx.x) + pass * 256;
            const int row = i / PIECES, first = i % PIECES * E::COUNT;
            const Words x = E::gather([&](int j) { return words[(first + j) * PITCH + row]; });
            if (tile.row + row >= p.outer || tile.col + first >= p.leading) continue;
            Element* const target = static_cast<Element*>(p.target) + (i64(tile.product) * p.outer + tile.row + row) * p.leading;
            *reinterpret_cast<Words*>(target + tile.col + first) = x;
        }
    }
};
