// wgmma m64n128k32.s8.u8 128x128/6 stages, parts of 8192 side by side, then added in order: A int8 k_major 16, B uint8 k_major 16, identity -> int32 x1
struct Instance {
    using Sum = i32;
    using Epilogue = ::Epilogue<Identity, i32, Absent, Absent, Absent, i32>;
    static constexpr int PART = 8192;
};

extern "C" __global__ void __launch_bounds__(128, 8)
mxgemm_wgmma_c8570cb31565(const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, i64 d_col, i64 alpha, i64 beta, i64 mode) {
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
    p.d_col = d_col;
    p.alpha = alpha;
    p.beta = beta;
    p.mode = int(mode);
    chain_sum<Instance>(p);
}
