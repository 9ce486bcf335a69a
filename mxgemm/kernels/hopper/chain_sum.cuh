// The second half of a product whose chains ran apart: A is the workspace [chain][m][leading] of float32
// sums; they are added in the order of k, to nearest, and the epilogue makes D of it.

template <class I> __device__ __forceinline__ void chain_sum(const Arguments<float>& p) {
    using E = typename I::Epilogue;
    wait_for_predecessor();
    const i64 index = (i64(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= p.m * p.n) return;
    const i64 row = index / p.n, col = index - row * p.n;
    const i64 leading = (p.n + 3) / 4 * 4;    // rows of 16-byte pieces
    const float* chain = static_cast<const float*>(p.a) + row * leading + col;
    const int chains = int((p.k + I::CHAIN - 1) / I::CHAIN);
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < chains; ++i) sum = __fadd_rn(sum, chain[i * p.m * leading]);
    float c = 0;
    if (p.mode & MODE_C) c = To<float>::from(static_cast<const typename E::CType*>(p.c)[row * p.c_row + col * p.c_col]);
    bool overflow = false;
    const float result = E::apply(p, 0, sum, c, row, col);
    static_cast<typename E::DType*>(p.d)[row * p.d_row + col * p.d_col] = Output<typename E::DType>::from(result, overflow);
}
