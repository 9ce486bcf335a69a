// wgmma m64n128k16.f16.f16 128x128/6 stages, parts of 8192 side by side, then added in order: A float16 k_major 16, B float16 k_major 16, relu+bias float16 -> float16 x1
struct Instance {
    using Sum = float;
    using Epilogue = ::Epilogue<Relu, f16, f16, Absent, Absent, f16>;
    static constexpr int PART = 8192;
};

extern "C" __global__ void __launch_bounds__(128, 8)
mxgemm_wgmma_974f66d0348d(const void* a, const void* b, const void* c, void* d, const void* bias, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, i64 d_col, double alpha, double beta, i64 mode, i64 bias_row, i64 bias_col) {
    Arguments<float> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.bias = bias;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a_outer = a_outer;
    p.b_outer = b_outer;
    p.c_row = c_row;
    p.c_col = c_col;
    p.d_row = d_row;
    p.d_col = d_col;
    p.alpha = alpha;
    p.beta = beta;
    p.mode = int(mode);
    p.bias_row = bias_row;
    p.bias_col = bias_col;
    chain_sum<Instance>(p);
}
