// Copies of the scalar family: element by element, since operands may have any strides.  Shared memory
// holds rows along m or n, whatever the layout, which says only the axis that neighbouring threads follow.

// Where this thread's share of a tile lies.
template <class Op, class Sum, int EXTENT, int DEPTH, int THREADS> struct ScalarShare {
    static constexpr bool K_MAJOR = Op::LAYOUT == k_major;
    static constexpr int INNER = K_MAJOR ? DEPTH : EXTENT, OUTER = K_MAJOR ? EXTENT : DEPTH;
    static constexpr int ROWS = THREADS / INNER, PASSES = OUTER / ROWS;
    static_assert(THREADS % INNER == 0 && OUTER % ROWS == 0);
    using SL = ScalarLayout<Sum, EXTENT, DEPTH>;
    static constexpr int PASS_TARGET = ROWS * (K_MAJOR ? int(sizeof(Sum)) : SL::ROW_BYTES);
    const char* source;
    i64 pass_bytes, deep_bytes;     // from pass to pass; from tile to tile where neighbours run along k
    u32 target;
    int depth, depth_step;          // this thread's first element along k, and its step from pass to pass
    int position_left;              // rows or columns of the operand from this thread's first

    __device__ __forceinline__ ScalarShare(const void* base, i64 outer_stride, i64 inner_stride, i64 first, i64 extent,
                                           int thread) {
        constexpr int SIZE = sizeof(typename Op::Source);
        const int outer = thread / INNER, inner = thread % INNER;
        const int position = K_MAJOR ? outer : inner;
        depth = K_MAJOR ? inner : outer;
        source = static_cast<const char*>(base) +
                 ((K_MAJOR ? first + outer : outer) * outer_stride + (K_MAJOR ? inner : first + inner) * inner_stride) * SIZE;
        pass_bytes = ROWS * outer_stride * SIZE;
        deep_bytes = DEPTH * inner_stride * SIZE;
        target = SL::at(position, depth);
        position_left = int(least(extent - first, i64(EXTENT))) - position;
    }
    template <class Visit> __device__ __forceinline__ void each_pass(int part, int parts, Visit visit) {
        ::each_pass<PASSES>(source, pass_bytes, K_MAJOR ? deep_bytes : PASSES * pass_bytes, part, parts, visit);
    }
    __device__ __forceinline__ bool deep_enough(int pass, int depth_left) const {
        return (K_MAJOR ? depth : depth + pass * ROWS) < depth_left;
    }
    __device__ __forceinline__ bool inside(int pass, int depth_left) const {
        return (K_MAJOR ? pass * ROWS : 0) < position_left && deep_enough(pass, depth_left);
    }
};

template <class Op, class Sum, int EXTENT, int DEPTH, int THREADS> struct ScalarAsyncCopy {
    static constexpr bool ASYNC = true;
    using Share = ScalarShare<Op, Sum, EXTENT, DEPTH, THREADS>;
    Share share;
    template <class... X> __device__ __forceinline__ ScalarAsyncCopy(X... x) : share(x...) {}

    __device__ __forceinline__ void begin(u32 stage, int depth_left, int part, int parts) {
        share.each_pass(part, parts, [&](int pass, const char* source) {
            copy_async<sizeof(Sum)>(stage + share.target + pass * Share::PASS_TARGET, source,
                                    share.inside(pass, depth_left) ? int(sizeof(Sum)) : 0);
        });
    }
    __device__ __forceinline__ void fetch(int, int, int) {}
    __device__ __forceinline__ void finish(u32, int, int, int) {}
};

// Through registers: elements are converted to the sum's type when they are stored.
template <class Op, class Sum, int EXTENT, int DEPTH, int THREADS> struct ScalarRegisterCopy {
    static constexpr bool ASYNC = false;
    using Source = typename Op::Source;
    using Share = ScalarShare<Op, Sum, EXTENT, DEPTH, THREADS>;
    Share share;
    Source values[Share::PASSES];
    template <class... X> __device__ __forceinline__ ScalarRegisterCopy(X... x) : share(x...), values() {}

    __device__ __forceinline__ void begin(u32, int, int, int) {}
    __device__ __forceinline__ void fetch(int depth_left, int part, int parts) {
        share.each_pass(part, parts, [&](int pass, const char* source) {
            Source x = {};
            if (share.inside(pass, depth_left)) x = *reinterpret_cast<const Source*>(source);
            values[pass] = x;
        });
    }
    __device__ __forceinline__ void finish(u32 stage, int depth_left, int part, int parts) {
#pragma unroll
        for (int pass = 0; pass < Share::PASSES; ++pass)
            if (in_part<Share::PASSES>(pass, part, parts))
                store_shared(stage + share.target + pass * Share::PASS_TARGET, To<Sum>::from(values[pass]));
        fetch(depth_left - DEPTH, part, parts);
    }
};
