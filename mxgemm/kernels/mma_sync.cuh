// The mma.sync family: one block computes one tile of D on the matrix units of sm_75 and later.

template <class I> struct MmaSyncShape {
    using A = typename I::A;
    using B = typename I::B;
    using Math = typename I::Math;
    static constexpr int THREADS = I::WARPS_M * I::WARPS_N * 32;
    static constexpr int BM = I::WARPS_M * I::WARP_M, BN = I::WARPS_N * I::WARP_N;
    static constexpr int TILES_M = I::WARP_M / 16, TILES_N = I::WARP_N / 8, STEPS = I::DEPTH / Math::DEPTH;
    // Copies spread over the steps, unless fragments of single words leave no registers for that.
    static constexpr bool SINGLE_WORDS = same<Math, MmaTf32> && (A::LAYOUT == mn_major || B::LAYOUT == mn_major);
    static constexpr int BEGIN_STEPS = SINGLE_WORDS ? 1 : STEPS - 1;
    using LayoutA = SharedLayout<typename A::Shared, A::LAYOUT, BM, I::DEPTH>;
    using LayoutB = SharedLayout<typename B::Shared, B::LAYOUT, BN, I::DEPTH>;
    static constexpr int A_BYTES = LayoutA::BYTES, STAGE_BYTES = A_BYTES + LayoutB::BYTES;
    // A chain of fused multiply-adds stays as it is when -0 * +0 is added, not when +0 * +0 is.
    static constexpr bool FUSED_CHAIN = same<typename Math::Register, double>;
    template <bool ASYNC, class Op, int EXTENT> struct Copier {
        using Type = RegisterCopy<Op, EXTENT, I::DEPTH, THREADS>;
    };
    template <class Op, int EXTENT> struct Copier<true, Op, EXTENT> {
        using Type = AsyncCopy<Op, EXTENT, I::DEPTH, THREADS>;
    };
    template <bool NEGATIVE_ZERO, int = 0> struct Pad { using Type = NoPad; };
    template <int UNUSED> struct Pad<true, UNUSED> {
        using Type = NegativeZeros<typename A::Shared, LayoutA, BM, I::DEPTH, THREADS>;
    };
    using CopyA = typename Copier<I::A_ASYNC, A, BM>::Type;
    using CopyB = typename Copier<I::B_ASYNC, B, BN>::Type;
    using Copies = TileCopies<CopyA, CopyB, typename Pad<FUSED_CHAIN>::Type, A_BYTES, I::DEPTH, I::STAGES>;
    using LoadsA = FragmentLoads<Math, A, BM, I::DEPTH>;
    using LoadsB = FragmentLoads<Math, B, BN, I::DEPTH>;
    using Sum = ChainedSum<typename Math::Accumulator, TILES_M * TILES_N, I::CHAIN_TILES != 0>;
};

// A warp's fragments and products.
template <class I> struct MmaSyncWork {
    using S = MmaSyncShape<I>;
    using Math = typename I::Math;
    typename S::Sum sum;
    typename Math::A a[I::BUFFERS][S::TILES_M];
    typename Math::B b[I::BUFFERS][S::TILES_N];
    u32 lane_a, lane_b;    // where this lane reads in a stage
    int chain_tiles;

    __device__ __forceinline__ MmaSyncWork(int warp_m, int warp_n, int lane) {
        lane_a = S::LoadsA::SL::at(warp_m * I::WARP_M, 0) + S::LoadsA::Loads::lane_offset(lane, true);
        lane_b = S::A_BYTES + S::LoadsB::SL::at(warp_n * I::WARP_N, 0) + S::LoadsB::Loads::lane_offset(lane, false);
        chain_tiles = 0;
        sum.clear();
    }
    __device__ __forceinline__ void load(u32 stage, int step, int buffer) {
        S::LoadsA::Loads::load(stage + lane_a, step * Math::DEPTH, a[buffer]);
        S::LoadsB::Loads::load(stage + lane_b, step * Math::DEPTH, b[buffer]);
    }
    __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
        for (int j = 0; j < S::TILES_N; ++j) make_ready<Math>(b[buffer][j]);
#pragma unroll
        for (int i = 0; i < S::TILES_M; ++i) {
            make_ready<Math>(a[buffer][i]);
#pragma unroll
            for (int j = 0; j < S::TILES_N; ++j) {
                const int column = i % 2 ? S::TILES_N - 1 - j : j;    // snake: neighbours share registers
                Math::multiply(sum.unit[i * S::TILES_N + column], a[buffer][i], b[buffer][column]);
            }
        }
    }
    __device__ __forceinline__ void end_tile() {
        if constexpr (I::CHAIN_TILES != 0)
            if (++chain_tiles == I::CHAIN_TILES) chain_tiles = 0, sum.end_chain();
    }
    __device__ __forceinline__ void end() {
        if constexpr (I::CHAIN_TILES != 0)
            if (chain_tiles) sum.end_chain();
    }
};

template <class I> struct MmaSyncBands {
    using P = MmaSyncShape<I>;
    using T = typename I::Math::Accumulator;
    static constexpr int BANDS = I::WARPS_M, ROWS = I::WARP_M, STEP = Staging<T, P::BN>::STEP;
    const typename P::Sum& sum;
    int warp_m, warp_n, lane;

    __device__ __forceinline__ static int row(int band, int slot) { return band * ROWS + slot; }

    // The warps of one row of warps write their sums.
    __device__ __forceinline__ void write(int band, T* staging) const {
        if (warp_m != band) return;
        const int g = lane >> 2, t = lane & 3;
#pragma unroll
        for (int i = 0; i < P::TILES_M; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                T* line = staging + P::LoadsA::Loads::position(i, half, g) * STEP + warp_n * I::WARP_N;
#pragma unroll
                for (int j = 0; j < P::TILES_N; ++j) {
                    const T x = sum.value(i * P::TILES_N + j, 2 * half), y = sum.value(i * P::TILES_N + j, 2 * half + 1);
                    if constexpr (P::LoadsB::PAIRED) {
                        *reinterpret_cast<Pack<T, 2>*>(line + P::LoadsB::Loads::column(j, 2 * t)) = Pack<T, 2>{x, y};
                    } else {
                        line[P::LoadsB::Loads::column(j, 2 * t)] = x;
                        line[P::LoadsB::Loads::column(j, 2 * t + 1)] = y;
                    }
                }
            }
    }
};

template <class I> __device__ __forceinline__ void mma_sync(const Arguments<typename I::Math::Accumulator>& p) {
    using P = MmaSyncShape<I>;
    using A = typename I::A;
    using B = typename I::B;
    extern __shared__ __align__(128) u8 shared[];
    const Tile tile = tile_of_block<P::BM, P::BN, 8, (I::BATCH_AXES > 0)>(p.m, p.n, p.products);
    if (!tile.inside) return;
    const BatchOffset offset = batch_offset<I::BATCH_AXES>(p, tile.product);
    // A warp's number is the same in all its lanes; the shuffle tells the compiler so.
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
    const int warp_m = warp % I::WARPS_M, warp_n = warp / I::WARPS_M;

    MmaSyncWork<I> work(warp_m, warp_n, lane);
    if (p.mode & MODE_PRODUCT) {
        const auto* a = static_cast<const typename A::Source*>(p.a) + offset.a;
        const auto* b = static_cast<const typename B::Source*>(p.b) + offset.b;
        typename P::Copies copies{{extents<A::LAYOUT>(a, p.a_outer, p.m, p.k), tile.row, int(threadIdx.x)},
                                  {extents<B::LAYOUT>(b, p.b_outer, p.n, p.k), tile.col, int(threadIdx.x)}};
        run_pipeline<I::STAGES, P::STAGE_BYTES, I::DEPTH, P::STEPS, P::BEGIN_STEPS, I::BUFFERS>(
            copies, work, shared_address(shared), p.k);
        work.end();
        if constexpr (I::ROUNDS) {
            bool suspect;
            if constexpr (I::CHAIN_TILES != 0) suspect = holds_non_finite(work.sum.master);
            else suspect = holds_non_finite(work.sum.unit);
            if (__syncthreads_or(suspect)) {
                constexpr u32 FIRST = FIRST_OVERFLOW<typename I::Math, typename A::Shared>;
                constexpr bool A_K = A::LAYOUT == k_major, B_K = B::LAYOUT == k_major;
                const i64 a_m = A_K ? p.a_outer : 1, a_k = A_K ? 1 : p.a_outer;
                const i64 b_n = B_K ? p.b_outer : 1, b_k = B_K ? 1 : p.b_outer;
                if (operand_overflows<FIRST>(a + tile.row * a_m, a_m, a_k, int(least(p.m - tile.row, i64(P::BM))), p.k) ||
                    operand_overflows<FIRST>(b + tile.col * b_n, b_n, b_k, int(least(p.n - tile.col, i64(P::BN))), p.k))
                    atomicOr(p.flags, FLAG_OPERAND_OVERFLOW);
            }
        }
    }
    using T = typename I::Math::Accumulator;
    store_tile<typename I::Epilogue, I::VECTOR, P::BN, P::THREADS>(
        p, offset, tile, reinterpret_cast<T*>(shared), MmaSyncBands<I>{work.sum, warp_m, warp_n, lane});
}
