// The scalar family: no matrix unit.  Every entry is one chain of fused multiply-adds in k order, from
// +0; integers wrap.  Operands may have any strides.

// The type that sums run in: integers add and multiply without sign, modulo 2^32 or 2^64.
template <class T> struct SumOf { using Type = u32; };
template <> struct SumOf<float> { using Type = float; };
template <> struct SumOf<double> { using Type = double; };
template <> struct SumOf<i64> { using Type = u64; };
template <> struct SumOf<u64> { using Type = u64; };

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ u32 multiply_add(u32 a, u32 b, u32 c) { return a * b + c; }
__device__ __forceinline__ u64 multiply_add(u64 a, u64 b, u64 c) { return a * b + c; }

// One operand's tile, element by element through registers, converted to the sum's type on the way.
// LAYOUT says which axis neighbouring threads follow.
template <class Op, class Sum, int EXTENT, int DEPTH, int THREADS> struct ScalarCopy {
    static constexpr bool K_MAJOR = Op::LAYOUT == k_major;
    static constexpr int INNER = K_MAJOR ? DEPTH : EXTENT, OUTER = K_MAJOR ? EXTENT : DEPTH;
    static constexpr int STEP = EXTENT + 4;    // shared memory holds rows along m or n
    static constexpr int ROWS = THREADS / INNER, PASSES = OUTER / ROWS;
    static_assert(THREADS % INNER == 0 && OUTER % ROWS == 0);
    Sum values[PASSES];
    const typename Op::Source* source;
    i64 outer_stride, tile_stride;
    int outer, inner, extent_left;

    __device__ __forceinline__ ScalarCopy(const typename Op::Source* base, i64 outer_step, i64 inner_step, i64 first,
                                          i64 extent, int thread) {
        outer = thread / INNER, inner = thread % INNER;
        source = base + (K_MAJOR ? first + outer : outer) * outer_step + (K_MAJOR ? inner : first + inner) * inner_step;
        outer_stride = outer_step * ROWS;
        tile_stride = DEPTH * (K_MAJOR ? inner_step : outer_step);
        extent_left = int(least(extent - first, i64(EXTENT)));
    }
    // PAD stands for what lies past k: -0 in A keeps a chain of fused multiply-adds as it is.
    __device__ __forceinline__ void fetch(int depth_left, Sum pad) {
        const bool inner_inside = inner < (K_MAJOR ? depth_left : extent_left);
        const typename Op::Source* from = source;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const bool inside = inner_inside && outer + pass * ROWS < (K_MAJOR ? extent_left : depth_left);
            values[pass] = inside ? To<Sum>::from(*from) : pad;
            from += outer_stride;
        }
        source += tile_stride;
    }
    __device__ __forceinline__ void finish(Sum* shared) const {
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            const int row = outer + pass * ROWS;
            shared[K_MAJOR ? inner * STEP + row : row * STEP + inner] = values[pass];
        }
    }
};

// Thread (x, y) holds rows 4y … 4y + 3 of each HALF and columns 4x … 4x + 3 of each.
template <class I> struct ScalarTile {
    using T = typename I::Accumulator;
    using Sum = typename SumOf<T>::Type;
    static constexpr int HALVES = I::THREAD_TILE / 4;
    static constexpr int COLUMNS = I::BN / I::THREAD_TILE, THREADS = I::BM / I::THREAD_TILE * COLUMNS;
    static constexpr int BANDS = I::BM / I::THREAD_TILE / 4, ROWS = 16 * HALVES;
    Sum sums[I::THREAD_TILE][I::THREAD_TILE];
    int x, y;

    __device__ __forceinline__ static int row(int band, int slot) {
        return slot / 16 * (I::BM / HALVES) + band * 16 + slot % 16;
    }
    __device__ __forceinline__ void write(int band, T* staging) const {
        if (y / 4 != band) return;
#pragma unroll
        for (int i = 0; i < I::THREAD_TILE; ++i) {
            T* line = staging + (i / 4 * 16 + y % 4 * 4 + i % 4) * Staging<T, I::BN>::STEP;
#pragma unroll
            for (int h = 0; h < HALVES; ++h) {
                Pack<T, 4> four;
#pragma unroll
                for (int j = 0; j < 4; ++j) four.x[j] = T(sums[i][4 * h + j]);
                *reinterpret_cast<Pack<T, 4>*>(line + h * (I::BN / HALVES) + 4 * x) = four;
            }
        }
    }
    template <int EXTENT> __device__ __forceinline__ static void load(const Sum* line, int first, Sum (&out)[I::THREAD_TILE]) {
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
            const auto four = *reinterpret_cast<const Pack<Sum, 4>*>(line + h * (EXTENT / HALVES) + first);
#pragma unroll
            for (int j = 0; j < 4; ++j) out[4 * h + j] = four.x[j];
        }
    }
};

template <class I> __device__ __forceinline__ void scalar(const Arguments<typename I::Accumulator>& p) {
    using R = ScalarTile<I>;
    using T = typename R::T;
    using Sum = typename R::Sum;
    using CopyA = ScalarCopy<typename I::A, Sum, I::BM, I::DEPTH, R::THREADS>;
    using CopyB = ScalarCopy<typename I::B, Sum, I::BN, I::DEPTH, R::THREADS>;
    constexpr int A_SIZE = I::DEPTH * CopyA::STEP, STAGE = A_SIZE + I::DEPTH * CopyB::STEP;
    extern __shared__ __align__(128) u8 shared[];
    Sum* stages = reinterpret_cast<Sum*>(shared);
    const Tile tile = tile_of_block<I::BM, I::BN, 8, (I::BATCH_AXES > 0)>(p.m, p.n, p.products);
    if (!tile.inside) return;
    const BatchOffset offset = batch_offset<I::BATCH_AXES>(p, tile.product);
    R r;
    r.x = threadIdx.x % R::COLUMNS, r.y = threadIdx.x / R::COLUMNS;
#pragma unroll
    for (int i = 0; i < I::THREAD_TILE; ++i)
#pragma unroll
        for (int j = 0; j < I::THREAD_TILE; ++j) r.sums[i][j] = 0;

    if (p.mode & MODE_PRODUCT) {
        CopyA copy_a(static_cast<const typename I::A::Source*>(p.a) + offset.a, p.a_outer, p.a_inner, tile.row, p.m,
                     threadIdx.x);
        CopyB copy_b(static_cast<const typename I::B::Source*>(p.b) + offset.b, p.b_outer, p.b_inner, tile.col, p.n,
                     threadIdx.x);
        const Sum pad_a = is_float<Sum> ? Sum(-0.0) : Sum(0);
        auto fetch = [&](i64 left) {
            const int inside = int(least(left, i64(I::DEPTH)));
            copy_a.fetch(inside, pad_a), copy_b.fetch(inside, Sum(0));
        };
        fetch(p.k);
        int stage = 0;
#pragma unroll 1
        for (i64 left = p.k; left > 0; left -= I::DEPTH, stage ^= STAGE) {
            copy_a.finish(stages + stage), copy_b.finish(stages + stage + A_SIZE);
            __syncthreads();
            if (left > I::DEPTH) fetch(left - I::DEPTH);
#pragma unroll I::UNROLL
            for (int k = 0; k < I::DEPTH; ++k) {
                Sum a[I::THREAD_TILE], b[I::THREAD_TILE];
                R::template load<I::BM>(stages + stage + k * CopyA::STEP, 4 * r.y, a);
                R::template load<I::BN>(stages + stage + A_SIZE + k * CopyB::STEP, 4 * r.x, b);
#pragma unroll
                for (int i = 0; i < I::THREAD_TILE; ++i)
#pragma unroll
                    for (int j = 0; j < I::THREAD_TILE; ++j) r.sums[i][j] = multiply_add(a[i], b[j], r.sums[i][j]);
            }
        }
        __syncthreads();
    }
    store_tile<typename I::Epilogue, I::VECTOR, I::BN, R::THREADS>(p, offset, tile, reinterpret_cast<T*>(shared), r);
}
