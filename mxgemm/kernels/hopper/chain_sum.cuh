// The second half of a product whose parts along k ran apart: A is the workspace [part][m][leading] of their
// sums; they are added in the order of k, floats to nearest, and the epilogue makes D of it.

template <class I> __device__ __forceinline__ void chain_sum(const Arguments<typename I::Sum>& p) {
    using E = typename I::Epilogue;
    using D = typename E::DType;
    using T = typename I::Sum;
    wait_for_predecessor();
    const i64 index = (i64(blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= p.m * p.n) return;
    const i64 row = index / p.n, col = index - row * p.n;
    const i64 leading = (p.n + 3) / 4 * 4;    // rows of 16-byte pieces
    const T* part = static_cast<const T*>(p.a) + row * leading + col;
    const int parts = int((p.k + I::PART - 1) / I::PART);
    T sum = 0;
#pragma unroll 8
    for (int i = 0; i < parts; ++i) sum = plus(sum, part[i * p.m * leading]);
    T c = 0;
    if (p.mode & MODE_C) c = To<T>::from(static_cast<const typename E::CType*>(p.c)[row * p.c_row + col * p.c_col]);
    bool overflow = false;
    static_cast<D*>(p.d)[row * p.d_row + col * p.d_col] = Output<D>::from(E::apply(p, 0, sum, c, row, col), overflow);
    if constexpr (same<D, e4m3> || same<D, e5m2>)
        if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
}
