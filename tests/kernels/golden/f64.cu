// mma.sync MmaF64<4> 128x128x128B/4x4 warps/4 stages/1 buffer: A float64 k_major 16, B float64 mn_major 16, identity -> float64 x2
struct Instance {
    using Math = MmaF64<4>;
    using A = Operand<double, double, k_major, 16>;
    using B = Operand<double, double, mn_major, 16>;
    using Epilogue = ::Epilogue<Identity, double, Absent, Absent, Absent, double>;
    static constexpr int WARPS_M = 4, WARPS_N = 4;
    static constexpr int WARP_M = 32, WARP_N = 32;
    static constexpr int DEPTH = 16, STAGES = 4, BUFFERS = 1;
    static constexpr int CHAIN_TILES = 0;
    static constexpr int BATCH_AXES = 0, VECTOR = 2;
    static constexpr bool A_ASYNC = true, B_ASYNC = true;
    static constexpr bool ROUNDS = false;
};

extern "C" __global__ void __launch_bounds__(512, 1)
mxgemm_mma_sync_985e8f3c1592(const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode) {
    Arguments<double> p;
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
