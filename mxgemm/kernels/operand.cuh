// One operand of an instance: its type in memory, its type in shared memory, the axis with unit
// stride, and the alignment in bytes that pointer, leading dimension and batch strides share.

template <class SourceType, class SharedType, Layout LAYOUT_, int ALIGNMENT_> struct Operand {
    using Source = SourceType;
    using Shared = SharedType;
    static constexpr Layout LAYOUT = LAYOUT_;
    static constexpr int ALIGNMENT = ALIGNMENT_;
};

// Where this thread's share of a tile lies: OUTER rows in CHUNKS pieces of CHUNK shared elements.
template <class Op, int EXTENT, int DEPTH, int CHUNK, int THREADS> struct Share {
    using Layout_ = SharedLayout<typename Op::Shared, Op::LAYOUT, EXTENT, DEPTH>;
    static constexpr int CHUNKS = Layout_::INNER / CHUNK;
    static constexpr int ROWS = THREADS / CHUNKS;
    static constexpr int PASSES = (Layout_::OUTER + ROWS - 1) / ROWS;
    static constexpr bool EVEN = Layout_::OUTER % ROWS == 0;
    static_assert(CHUNKS * CHUNK == Layout_::INNER && CHUNKS <= THREADS && THREADS % CHUNKS == 0);

    const char* source;       // this thread's first chunk of the next tile
    i64 pass_bytes, tile_bytes;
    u32 target;               // byte offset in the stage
    int outer, inner;         // this thread's first row and element
    int extent_left;          // rows or columns of the operand from the tile's first

    __device__ __forceinline__ Share(const void* base, i64 stride, i64 first, i64 extent, int thread) {
        using Source = typename Op::Source;
        outer = thread / CHUNKS;
        inner = thread % CHUNKS * CHUNK;
        constexpr bool K_MAJOR = Op::LAYOUT == k_major;
        const i64 origin = K_MAJOR ? first * stride : first;
        source = static_cast<const char*>(base) + (origin + outer * stride + inner) * i64(sizeof(Source));
        pass_bytes = ROWS * stride * i64(sizeof(Source));
        tile_bytes = (K_MAJOR ? i64(DEPTH) : DEPTH * stride) * i64(sizeof(Source));
        target = u32(outer * Layout_::ROW_BYTES + inner * int(sizeof(typename Op::Shared)));
        extent_left = int(least(extent - first, i64(EXTENT)));
    }

    // Elements of this thread's chunk that lie inside, in each row.
    __device__ __forceinline__ int elements_left(int depth_left) const {
        return (Op::LAYOUT == k_major ? depth_left : extent_left) - inner;
    }
    __device__ __forceinline__ bool row_inside(int pass, int depth_left) const {
        return outer + pass * ROWS < (Op::LAYOUT == k_major ? extent_left : depth_left);
    }
    // Threads past the tile's last row have nothing to write.
    __device__ __forceinline__ bool writes(int pass) const {
        return EVEN || outer + pass * ROWS < Layout_::OUTER;
    }
};
