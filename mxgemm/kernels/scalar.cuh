// The scalar family: no matrix unit.  Every entry is one chain of fused multiply-adds in k order, from
// +0; integers wrap.

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

// A warp's lanes stand 4 by 8.  A lane's THREAD_TILE rows and columns come in groups of 16 bytes, and
// the groups of neighbouring lanes side by side, so that a warp's loads meet every bank once.
template <class I> struct ScalarShape {
    using T = typename I::Accumulator;
    using Sum = typename SumOf<T>::Type;
    static constexpr int LANES_M = 4, LANES_N = 8, SIDE = I::THREAD_TILE;
    static constexpr int WARP_M = LANES_M * SIDE, WARP_N = LANES_N * SIDE;
    static constexpr int WARPS_M = I::BM / WARP_M, WARPS_N = I::BN / WARP_N, THREADS = 32 * WARPS_M * WARPS_N;
    static constexpr int GROUP = 16 / sizeof(Sum);
    using LayoutA = ScalarLayout<Sum, I::BM, I::DEPTH>;
    using LayoutB = ScalarLayout<Sum, I::BN, I::DEPTH>;
    static constexpr int STAGE_BYTES = LayoutA::BYTES + LayoutB::BYTES;

    template <bool ASYNC, class Op, int EXTENT> struct Copier {
        using Type = ScalarRegisterCopy<Op, Sum, EXTENT, I::DEPTH, THREADS>;
    };
    template <class Op, int EXTENT> struct Copier<true, Op, EXTENT> {
        using Type = ScalarAsyncCopy<Op, Sum, EXTENT, I::DEPTH, THREADS>;
    };
    using CopyA = typename Copier<I::A_ASYNC, typename I::A, I::BM>::Type;
    using CopyB = typename Copier<I::B_ASYNC, typename I::B, I::BN>::Type;
    template <bool FLOATS, int = 0> struct Pad { using Type = NoPad; };
    template <int UNUSED> struct Pad<true, UNUSED> {
        using Type = NegativeZeros<Sum, LayoutA, I::BM, I::DEPTH, THREADS>;
    };
    using Copies = TileCopies<CopyA, CopyB, typename Pad<is_float<Sum>>::Type, LayoutA::BYTES, I::DEPTH, I::STAGES>;

    // Position in the warp's tile of a lane's slot.
    template <int LANES> __device__ __forceinline__ static constexpr int position(int lane, int slot) {
        return slot / GROUP * (LANES * GROUP) + lane * GROUP + slot % GROUP;
    }
};

// A warp's fragments and sums.
template <class I> struct ScalarWork {
    using S = ScalarShape<I>;
    using Sum = typename S::Sum;
    Sum sums[S::SIDE][S::SIDE];
    Sum a[I::BUFFERS][S::SIDE], b[I::BUFFERS][S::SIDE];
    u32 lane_a, lane_b;

    __device__ __forceinline__ ScalarWork(int warp_m, int warp_n, int lane_m, int lane_n) {
        lane_a = S::LayoutA::at(warp_m * S::WARP_M + lane_m * S::GROUP, 0);
        lane_b = S::LayoutA::BYTES + S::LayoutB::at(warp_n * S::WARP_N + lane_n * S::GROUP, 0);
#pragma unroll
        for (int i = 0; i < S::SIDE; ++i)
#pragma unroll
            for (int j = 0; j < S::SIDE; ++j) sums[i][j] = 0;
    }
    template <class SL, int LANES>
    __device__ __forceinline__ static void load_side(u32 address, int step, Sum (&out)[S::SIDE]) {
#pragma unroll
        for (int slot = 0; slot < S::SIDE; slot += S::GROUP) {
            Sum group[S::GROUP];
            load_shared(address + SL::at(S::template position<LANES>(0, slot), step), group);
#pragma unroll
            for (int i = 0; i < S::GROUP; ++i) out[slot + i] = group[i];
        }
    }
    __device__ __forceinline__ void load(u32 stage, int step, int buffer) {
        load_side<typename S::LayoutA, S::LANES_M>(stage + lane_a, step, a[buffer]);
        load_side<typename S::LayoutB, S::LANES_N>(stage + lane_b, step, b[buffer]);
    }
    __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
        for (int i = 0; i < S::SIDE; ++i)
#pragma unroll
            for (int j = 0; j < S::SIDE; ++j) {
                const int column = i % 2 ? S::SIDE - 1 - j : j;    // snake: neighbours share registers
                sums[i][column] = multiply_add(a[buffer][i], b[buffer][column], sums[i][column]);
            }
    }
    __device__ __forceinline__ void end_tile() {}
};

template <class I> struct ScalarBands {
    using S = ScalarShape<I>;
    using T = typename S::T;
    static constexpr int BANDS = S::WARPS_M, ROWS = S::WARP_M;
    const typename S::Sum (&sums)[S::SIDE][S::SIDE];
    int warp_m, warp_n, lane_m, lane_n;

    __device__ __forceinline__ static int row(int band, int slot) { return band * ROWS + slot; }

    // The warps of one row of warps write their sums.
    __device__ __forceinline__ void write(int band, T* staging) const {
        if (warp_m != band) return;
#pragma unroll
        for (int i = 0; i < S::SIDE; ++i) {
            const int line_row = S::template position<S::LANES_M>(lane_m, i);
            T* line = staging + line_row * Staging<T, I::BN>::STEP + warp_n * S::WARP_N;
#pragma unroll
            for (int j = 0; j < S::SIDE; j += S::GROUP) {
                Pack<T, S::GROUP> group;
#pragma unroll
                for (int e = 0; e < S::GROUP; ++e) group.x[e] = T(sums[i][j + e]);
                *reinterpret_cast<Pack<T, S::GROUP>*>(line + S::template position<S::LANES_N>(lane_n, j)) = group;
            }
        }
    }
};

template <class I> __device__ __forceinline__ void scalar(const Arguments<typename I::Accumulator>& p) {
    using S = ScalarShape<I>;
    extern __shared__ __align__(128) u8 shared[];
    const Tile tile = tile_of_block<I::BM, I::BN, 8, (I::BATCH_AXES > 0)>(p.m, p.n, p.products);
    if (!tile.inside) return;
    const BatchOffset offset = batch_offset<I::BATCH_AXES>(p, tile.product);
    const int warp = __shfl_sync(0xFFFFFFFFu, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
    const int warp_m = warp % S::WARPS_M, warp_n = warp / S::WARPS_M;
    const int lane_m = lane / S::LANES_N, lane_n = lane % S::LANES_N;
    ScalarWork<I> work(warp_m, warp_n, lane_m, lane_n);
    if (p.mode & MODE_PRODUCT) {
        const auto* a = static_cast<const typename I::A::Source*>(p.a) + offset.a;
        const auto* b = static_cast<const typename I::B::Source*>(p.b) + offset.b;
        const int thread = threadIdx.x;
        typename S::Copies copies{{a, p.a_outer, p.a_inner, tile.row, p.m, thread},
                                  {b, p.b_outer, p.b_inner, tile.col, p.n, thread}};
        // Copies begin in one step: spread, their addresses take registers that two blocks do not have.
        run_pipeline<I::STAGES, S::STAGE_BYTES, I::DEPTH, I::DEPTH, 1, I::BUFFERS>(
            copies, work, shared_address(shared), p.k);
    }
    store_tile<typename I::Epilogue, I::VECTOR, I::BN, S::THREADS>(
        p, offset, tile, reinterpret_cast<typename S::T*>(shared),
        ScalarBands<I>{work.sums, warp_m, warp_n, lane_m, lane_n});
}
