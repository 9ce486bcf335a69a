// The loop along k: a ring of shared-memory stages filled ahead of the products, fragments of the
// next step loaded while the unit works on this one.

template <class I> struct Pipeline {
    using A = typename I::A;
    using B = typename I::B;
    using Math = typename I::Math;
    static constexpr int THREADS = I::WARPS_M * I::WARPS_N * 32;
    static constexpr int BM = I::WARPS_M * I::WARP_M, BN = I::WARPS_N * I::WARP_N;
    static constexpr int TILES_M = I::WARP_M / 16, TILES_N = I::WARP_N / 8, STEPS = I::DEPTH / Math::DEPTH;
    static constexpr int A_BYTES = SharedLayout<typename A::Shared, A::LAYOUT, BM, I::DEPTH>::BYTES;
    static constexpr int B_BYTES = SharedLayout<typename B::Shared, B::LAYOUT, BN, I::DEPTH>::BYTES;
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr bool FUSED_CHAIN = same<typename Math::Register, double>;
    static_assert(STEPS % 2 == 0, "two fragment buffers alternate over the steps of a stage");

    template <bool ASYNC, class Op, int EXTENT, bool NEGATIVE_ZERO> struct Copier {
        using Type = RegisterCopy<Op, EXTENT, I::DEPTH, THREADS>;
    };
    template <class Op, int EXTENT, bool NEGATIVE_ZERO> struct Copier<true, Op, EXTENT, NEGATIVE_ZERO> {
        using Type = AsyncCopy<Op, EXTENT, I::DEPTH, THREADS, NEGATIVE_ZERO>;
    };
    using CopyA = typename Copier<I::A_ASYNC, A, BM, FUSED_CHAIN>::Type;
    using CopyB = typename Copier<I::B_ASYNC, B, BN, false>::Type;
    using LoadsA = FragmentLoads<Math, A, BM, I::DEPTH>;
    using LoadsB = FragmentLoads<Math, B, BN, I::DEPTH>;
    using Sum = ChainedSum<typename Math::Accumulator, TILES_M * TILES_N, I::CHAIN_TILES != 0>;
    static constexpr bool ASYNC = I::A_ASYNC || I::B_ASYNC;

    CopyA copy_a;
    CopyB copy_b;
    i64 depth_left;    // along k, from the next tile to copy; zero or less when none is left
    i64 fetch_left;    // the same for tiles that pass through registers

    __device__ __forceinline__ static int inside(i64 left) { return int(least(left, i64(I::DEPTH))); }

    __device__ __forceinline__ void begin(u32 stage) {
        if (depth_left > 0) {
            copy_a.begin(stage, inside(depth_left));
            copy_b.begin(stage + A_BYTES, inside(depth_left));
            depth_left -= I::DEPTH;
        }
        if constexpr (ASYNC) commit_copies();
    }
    __device__ __forceinline__ void fetch() {
        if (fetch_left > 0) {
            copy_a.fetch(inside(fetch_left));
            copy_b.fetch(inside(fetch_left));
        }
        fetch_left -= I::DEPTH;
    }
    __device__ __forceinline__ void finish(u32 stage) {
        if (fetch_left + I::DEPTH > 0) {
            copy_a.finish(stage);
            copy_b.finish(stage + A_BYTES);
        }
    }
    __device__ __forceinline__ static void wait() {
        if constexpr (ASYNC) wait_for_copies<I::STAGES - 2>();
        __syncthreads();
    }

    __device__ __forceinline__ void run(u32 shared, i64 k, int warp_m, int warp_n, int lane, Sum& sum) {
        constexpr bool THROUGH_REGISTERS = !(I::A_ASYNC && I::B_ASYNC);
        depth_left = fetch_left = k;
#pragma unroll 1
        for (int stage = 0; stage < I::STAGES - 1; ++stage) {
            begin(shared + stage * STAGE_BYTES);
            if constexpr (THROUGH_REGISTERS) fetch(), finish(shared + stage * STAGE_BYTES);
        }
        if constexpr (THROUGH_REGISTERS) fetch();
        wait();

        const u32 lane_a = LoadsA::SL::at(warp_m * I::WARP_M, 0) + LoadsA::Loads::lane_offset(lane, true);
        const u32 lane_b = A_BYTES + LoadsB::SL::at(warp_n * I::WARP_N, 0) + LoadsB::Loads::lane_offset(lane, false);
        typename Math::A a[2][TILES_M];
        typename Math::B b[2][TILES_N];
        u32 read = 0, write = (I::STAGES - 1) * STAGE_BYTES;
        LoadsA::Loads::load(shared + lane_a, 0, a[0]);
        LoadsB::Loads::load(shared + lane_b, 0, b[0]);

        int chain = 0;
#pragma unroll 1
        for (i64 left = k; left > 0; left -= I::DEPTH) {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                if (step == STEPS - 1) {
                    if constexpr (THROUGH_REGISTERS) finish(shared + write), fetch();
                    wait();
                    read = read == (I::STAGES - 1) * STAGE_BYTES ? 0 : read + STAGE_BYTES;
                    write = write == (I::STAGES - 1) * STAGE_BYTES ? 0 : write + STAGE_BYTES;
                }
                const int next = (step + 1) % STEPS * Math::DEPTH;
                LoadsA::Loads::load(shared + read + lane_a, next, a[(step + 1) % 2]);
                LoadsB::Loads::load(shared + read + lane_b, next, b[(step + 1) % 2]);
                if (step == 0) begin(shared + write);
#pragma unroll
                for (int i = 0; i < TILES_M; ++i)
#pragma unroll
                    for (int j = 0; j < TILES_N; ++j) {
                        const int column = i % 2 ? TILES_N - 1 - j : j;    // snake: neighbours share registers
                        Math::multiply(sum.unit[i * TILES_N + column], a[step % 2][i], b[step % 2][column]);
                    }
            }
            if constexpr (I::CHAIN_TILES != 0)
                if (++chain == I::CHAIN_TILES) chain = 0, sum.end_chain();
        }
        if constexpr (I::CHAIN_TILES != 0)
            if (chain) sum.end_chain();
        if constexpr (ASYNC) wait_for_copies<0>();
        __syncthreads();
    }
};
