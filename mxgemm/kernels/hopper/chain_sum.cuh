// The second half of a product whose parts along k ran apart: A is the workspace [part][m][leading] of their
// sums; they are added in the order of k, floats to nearest, and the epilogue makes D of it.

template <class I> __device__ __forceinline__ void chain_sum(const Arguments<typename I::Sum>& p) {
    using E = typename I::Epilogue;
    using D = typename E::DType;
    using T = typename I::Sum;
    constexpr int PIECE = 4;    // entries of a thread
    struct alignas(PIECE * sizeof(T)) Piece { T x[PIECE]; };
    const u32 pieces = (u32(p.n) + PIECE - 1) / PIECE;    // of a row; D is small, else its tiles would fill the device: 32 bits count it
    wait_for_predecessor();
    const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 row = index / pieces, place = index - row * pieces;
    if (row >= u32(p.m)) return;
    const i64 all = p.m * pieces;
    const Piece* part = static_cast<const Piece*>(p.a) + index;
    const int parts = int((p.k + I::PART - 1) / I::PART);
    T sums[PIECE] = {};
#pragma unroll 8
    for (int i = 0; i < parts; ++i) {
        const Piece piece = part[i * all];
#pragma unroll
        for (int j = 0; j < PIECE; ++j) sums[j] = plus(sums[j], piece.x[j]);
    }
    bool overflow = false;
#pragma unroll
    for (int j = 0; j < PIECE; ++j) {
        const i64 col = i64(place) * PIECE + j;
        if (col >= p.n) break;
        T c = 0;
        if (p.mode & MODE_C) c = To<T>::from(static_cast<const typename E::CType*>(p.c)[row * p.c_row + col * p.c_col]);
        static_cast<D*>(p.d)[row * p.d_row + col * p.d_col] = Output<D>::from(E::apply(p, 0, sums[j], c, row, col), overflow);
    }
    if constexpr (same<D, e4m3> || same<D, e5m2>)
        if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
}
