// scalar 128x128x8/8x8 a thread/4 stages: A float32 k_major 4, B float32 mn_major 4, identity -> float32 x4
struct Instance {
    using Accumulator = float;
    using A = Operand<float, float, k_major, 4>;
    using B = Operand<float, float, mn_major, 4>;
    using Epilogue = ::Epilogue<Identity, float, Absent, Absent, Absent, float>;
    static constexpr int BM = 128, BN = 128, DEPTH = 8, THREAD_TILE = 8;
    static constexpr int STAGES = 4, BUFFERS = 2;
    static constexpr int BATCH_AXES = 0, VECTOR = 4;
    static constexpr bool A_ASYNC = true, B_ASYNC = true;
};

extern "C" __global__ void __launch_bounds__(256, 2)
mxgemm_scalar_ac06451fb58d(const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 a_inner, i64 b_inner, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode) {
    Arguments<float> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a_outer = a_outer;
    p.b_outer = b_outer;
    p.a_inner = a_inner;
    p.b_inner = b_inner;
    p.c_row = c_row;
    p.c_col = c_col;
    p.d_row = d_row;
    p.alpha = alpha;
    p.beta = beta;
    p.mode = int(mode);
    scalar<Instance>(p);
}
