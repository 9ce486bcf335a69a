// The mma.sync family: one block computes one tile of D on the matrix units of sm_75 and later.

template <class I> struct MmaSyncBands {
    using P = Pipeline<I>;
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
    using P = Pipeline<I>;
    using A = typename I::A;
    using B = typename I::B;
    extern __shared__ __align__(128) u8 shared[];
    const Tile tile = tile_of_block<P::BM, P::BN, 8, (I::BATCH_AXES > 0)>(p.m, p.n, p.products);
    if (!tile.inside) return;
    const BatchOffset offset = batch_offset<I::BATCH_AXES>(p, tile.product);
    // A warp's number is the same in all its lanes; the shuffle tells the compiler so.
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
    const int warp_m = warp % I::WARPS_M, warp_n = warp / I::WARPS_M;

    typename P::Sum sum;
    sum.clear();
    if (p.mode & MODE_PRODUCT) {
        const auto* a = static_cast<const typename A::Source*>(p.a) + offset.a;
        const auto* b = static_cast<const typename B::Source*>(p.b) + offset.b;
        P pipeline{{a, p.a_outer, tile.row, p.m, int(threadIdx.x)}, {b, p.b_outer, tile.col, p.n, int(threadIdx.x)}, 0, 0};
        pipeline.run(shared_address(shared), p.k, warp_m, warp_n, lane, sum);
        if constexpr (I::ROUNDS) {
            bool suspect;
            if constexpr (I::CHAIN_TILES != 0) suspect = holds_non_finite(sum.master);
            else suspect = holds_non_finite(sum.unit);
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
        p, offset, tile, reinterpret_cast<T*>(shared), MmaSyncBands<I>{sum, warp_m, warp_n, lane});
}
