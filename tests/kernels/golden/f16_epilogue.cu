// mma.sync MmaF16 128x256x128B/2x4 warps/3 stages: A float16 k_major 16, B float16 mn_major 16, clamp+bias float32+rows float32+cols float32 -> float16 x4, 1 batch axes
struct Instance {
    using Math = MmaF16;
    using A = Operand<f16, f16, k_major, 16>;
    using B = Operand<f16, f16, mn_major, 16>;
    using Epilogue = ::Epilogue<Clamp, f16, float, float, float, f16>;
    static constexpr int WARPS_M = 2, WARPS_N = 4;
    static constexpr int WARP_M = 64, WARP_N = 64;
    static constexpr int DEPTH = 64, STAGES = 3, BUFFERS = 2;
    static constexpr int CHAIN_TILES = 0;
    static constexpr int BATCH_AXES = 1, VECTOR = 4;
    static constexpr bool A_ASYNC = true, B_ASYNC = true;
    static constexpr bool ROUNDS = false;
};

extern "C" __global__ void __launch_bounds__(256, 1)
mxgemm_mma_sync_5006554a0343(const void* a, const void* b, const void* c, void* d, const void* bias, const void* scale_rows, const void* scale_cols, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode, i64 bias_row, i64 bias_col, i64 scale_row, i64 scale_col, double low, double high, i64 products, i64 batch0_extent, i64 batch0_a, i64 batch0_b, i64 batch0_c, i64 batch0_d, i64 batch0_bias) {
    Arguments<float> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.bias = bias;
    p.scale_rows = scale_rows;
    p.scale_cols = scale_cols;
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
    p.bias_row = bias_row;
    p.bias_col = bias_col;
    p.scale_row = scale_row;
    p.scale_col = scale_col;
    p.low = low;
    p.high = high;
    p.products = products;
    p.batch[0].extent = batch0_extent;
    p.batch[0].a = batch0_a;
    p.batch[0].b = batch0_b;
    p.batch[0].c = batch0_c;
    p.batch[0].d = batch0_d;
    p.batch[0].bias = batch0_bias;
    mma_sync<Instance>(p);
}
