// mma.sync MmaInt8<false, true> 128x256x64B/2x4 warps/3 stages: A uint8 k_major 16, B int8 k_major 16, identity -> int32 x4
struct Instance {
    using Math = MmaInt8<false, true>;
    using A = Operand<u8, u8, k_major, 16>;
    using B = Operand<i8, i8, k_major, 16>;
    using Epilogue = ::Epilogue<Identity, i32, Absent, Absent, Absent, i32>;
    static constexpr int WARPS_M = 2, WARPS_N = 4;
    static constexpr int WARP_M = 64, WARP_N = 64;
    static constexpr int DEPTH = 64, STAGES = 3, BUFFERS = 2;
    static constexpr int CHAIN_TILES = 0;
    static constexpr int BATCH_AXES = 0, VECTOR = 4;
    static constexpr bool A_ASYNC = true, B_ASYNC = true;
    static constexpr bool ROUNDS = false;
};

extern "C" __global__ void __launch_bounds__(256, 1)
mxgemm_mma_sync_12c05813145c(const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, i64 alpha, i64 beta, i64 mode) {
    Arguments<i32> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a_outer = a_outer;
    p.b_outer = b_outer;
    p.c_row = c_row;
    p.c_col = c_col;
    p.d_row = d_row;
    p.alpha = alpha;
    p.beta = beta;
    p.mode = int(mode);
    mma_sync<Instance>(p);
}
