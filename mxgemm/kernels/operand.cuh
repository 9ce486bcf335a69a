// One operand of an instance: its type in memory, its type in shared memory, the axis with unit
// stride, and the alignment in bytes that pointer, leading dimension and batch strides share.

template <class SourceType, class SharedType, Layout LAYOUT_, int ALIGNMENT_> struct Operand {
    using Source = SourceType;
    using Shared = SharedType;
    static constexpr Layout LAYOUT = LAYOUT_;
    static constexpr int ALIGNMENT = ALIGNMENT_;
};

// Where one operand lies: rows of `inner` elements side by side, `outer` of them, `stride` elements apart.
struct Extents {
    const void* base;
    i64 stride, outer, inner;
};
template <Layout LAYOUT>
__device__ __forceinline__ Extents extents(const void* base, i64 stride, i64 extent, i64 k) {
    return LAYOUT == k_major ? Extents{base, stride, extent, k} : Extents{base, stride, k, extent};
}

// Copies are made in parts, so that they spread over the steps of a stage.
template <int PASSES> __device__ __forceinline__ constexpr bool in_part(int pass, int part, int parts) {
    return pass * parts / PASSES == part;
}
// visit(pass, address) for each pass of a part.  After the last part, `source` is at the next tile.  It
// walks from pass to pass, since the multiples of pass_bytes would each take registers all along k.
template <int PASSES, class Visit>
__device__ __forceinline__ void each_pass(const char*& source, i64 pass_bytes, i64 tile_bytes, int part, int parts,
                                          Visit visit) {
    constexpr bool WALKS = PASSES > 2;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
        if (!in_part<PASSES>(pass, part, parts)) continue;
        visit(pass, WALKS ? source : source + pass * pass_bytes);
        if (WALKS) source += pass + 1 < PASSES ? pass_bytes : tile_bytes - (PASSES - 1) * pass_bytes;
    }
    if (!WALKS && part == parts - 1) source += tile_bytes;
}

// Where this thread's share of a tile lies: OUTER rows in CHUNKS pieces of CHUNK shared elements.
template <class Op, int EXTENT, int DEPTH, int CHUNK, int THREADS> struct Share {
    using Layout_ = SharedLayout<typename Op::Shared, Op::LAYOUT, EXTENT, DEPTH>;
    static constexpr bool K_MAJOR = Op::LAYOUT == k_major;
    static constexpr int SIZE = sizeof(typename Op::Source);
    static constexpr int CHUNKS = Layout_::INNER / CHUNK;
    static constexpr int ROWS = THREADS / CHUNKS;
    static constexpr int PASSES = (Layout_::OUTER + ROWS - 1) / ROWS;
    static constexpr bool EVEN = Layout_::OUTER % ROWS == 0;
    static_assert(CHUNKS * CHUNK == Layout_::INNER && CHUNKS <= THREADS && THREADS % CHUNKS == 0);

    const char* source;       // the first chunk of the tile that is copied next
    i64 pass_bytes;           // from one pass to the next
    u32 target;               // byte offset in the stage
    int outer, inner;         // this thread's first row and element
    int extent_left;          // rows or columns of the operand from the tile's first

    __device__ __forceinline__ Share(const Extents& x, i64 first, int thread) {
        outer = thread / CHUNKS;
        inner = thread % CHUNKS * CHUNK;
        const i64 origin = K_MAJOR ? first * x.stride : first;
        source = static_cast<const char*>(x.base) + (origin + outer * x.stride + inner) * SIZE;
        pass_bytes = ROWS * x.stride * SIZE;
        target = u32(outer * Layout_::ROW_BYTES + inner * int(sizeof(typename Op::Shared)));
        extent_left = int(least((K_MAJOR ? x.outer : x.inner) - first, i64(EXTENT)));
    }
    // From one tile to the next along k.
    __device__ __forceinline__ i64 tile_bytes() const {
        static_assert(K_MAJOR || DEPTH % ROWS == 0 || ROWS % DEPTH == 0);
        if constexpr (K_MAJOR) return DEPTH * SIZE;
        else if constexpr (DEPTH >= ROWS) return pass_bytes * (DEPTH / ROWS);
        else return pass_bytes / (ROWS / DEPTH);
    }
    template <class Visit> __device__ __forceinline__ void each_pass(int part, int parts, Visit visit) {
        ::each_pass<PASSES>(source, pass_bytes, tile_bytes(), part, parts, visit);
    }
    // Byte offset in the stage of a pass's chunk.
    __device__ __forceinline__ u32 target_of(int pass) const { return target + pass * (ROWS * Layout_::ROW_BYTES); }

    // Elements of this thread's chunk that lie inside, in each row.
    __device__ __forceinline__ int elements_left(int depth_left) const {
        return (K_MAJOR ? depth_left : extent_left) - inner;
    }
    __device__ __forceinline__ bool row_inside(int pass, int depth_left) const {
        return outer + pass * ROWS < (K_MAJOR ? extent_left : depth_left);
    }
    // Threads past the tile's last row have nothing to write.
    __device__ __forceinline__ bool writes(int pass) const {
        return EVEN || outer + pass * ROWS < Layout_::OUTER;
    }
};
