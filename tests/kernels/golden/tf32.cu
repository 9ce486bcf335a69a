// mma.sync MmaTf32 128x256x128B/2x4 warps/3 stages: A float32 mn_major 16, B float32 k_major 16, identity -> float32 x4
struct Instance {
    using Math = MmaTf32;
    using A = Operand<float, float, mn_major, 16>;
    using B = Operand<float, float, k_major, 16>;
    using Epilogue = ::Epilogue<Identity, float, Absent, Absent, Absent, float>;
    static constexpr int WARPS_M = 2, WARPS_N = 4;
    static constexpr int WARP_M = 64, WARP_N = 64;
    static constexpr int DEPTH = 32, STAGES = 3, BUFFERS = 2;
    static constexpr int CHAIN_TILES = 0;
    static constexpr int BATCH_AXES = 0, VECTOR = 4;
    static constexpr bool A_ASYNC = true, B_ASYNC = true;
    static constexpr bool ROUNDS = true;
};

extern "C" __global__ void __launch_bounds__(256, 1)
mxgemm_mma_sync_02f474f45538(const void* a, const void* b, const void* c, void* d, u32* flags, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode) {
    Arguments<float> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.flags = flags;
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
