// The tile's sums pass through shared memory, a band of rows at a time, so that C is read and D is
// written along its rows in wide pieces and the epilogue's code exists once.

template <class Accumulator, int BN> struct Staging {
    // The step keeps the accumulators' pairs of columns off each other's banks.
    static constexpr int STEP = BN + 8;
};

template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack { T x[COUNT]; };

// BANDS bands of ROWS rows; Bands::write(band, sums) puts one into shared memory and Bands::row names
// the tile's row of a band's row.  VECTOR entries of a row go together; it divides D's alignment.
template <class E, int VECTOR, int BN, int THREADS, class Bands, class T>
__device__ __forceinline__ void store_tile(const Arguments<T>& p, const BatchOffset& offset, const Tile& tile,
                                           T* staging, const Bands& bands) {
    using C = typename E::CType;
    using D = typename E::DType;
    constexpr int PIECES = BN / VECTOR, STEP = Staging<T, BN>::STEP;
    const C* c = static_cast<const C*>(p.c) + offset.c;
    D* d = static_cast<D*>(p.d) + offset.d;
    bool overflow = false;
#pragma unroll 1
    for (int band = 0; band < Bands::BANDS; ++band) {
        bands.write(band, staging);
        __syncthreads();
#pragma unroll 1
        for (int piece = threadIdx.x; piece < Bands::ROWS * PIECES; piece += THREADS) {
            const int slot = piece / PIECES, first = piece % PIECES * VECTOR;
            const i64 row = tile.row + Bands::row(band, slot), col = tile.col + first;
            if (row >= p.m || col >= p.n) continue;
            const Pack<T, VECTOR> sums = *reinterpret_cast<const Pack<T, VECTOR>*>(staging + slot * STEP + first);
            const int count = int(least(p.n - col, i64(VECTOR)));
            const i64 c_index = row * p.c_row + col * p.c_col, d_index = row * p.d_row + col * p.d_col;
            Pack<C, VECTOR> addends = {};
            if (p.mode & MODE_C) {
                if (count == VECTOR && (p.mode & MODE_C_CONTIGUOUS))
                    addends = *reinterpret_cast<const Pack<C, VECTOR>*>(c + c_index);
                else
#pragma unroll
                    for (int v = 0; v < VECTOR; ++v)
                        if (v < count) addends.x[v] = c[c_index + v * p.c_col];
            }
            Pack<D, VECTOR> out;
#pragma unroll
            for (int v = 0; v < VECTOR; ++v) {
                const i64 at = VECTOR == 1 || v < count ? col + v : col;    // the epilogue's arrays end at n
                const T s = E::apply(p, offset.bias, sums.x[v], To<T>::from(addends.x[v]), row, at);
                bool over = false;
                out.x[v] = Output<D>::from(s, over);
                overflow = overflow || (over && v < count);
            }
            if (count == VECTOR)
                *reinterpret_cast<Pack<D, VECTOR>*>(d + d_index) = out;
            else
#pragma unroll
                for (int v = 0; v < VECTOR; ++v)
                    if (v < count) d[d_index + v * p.d_col] = out.x[v];
        }
        if (band + 1 < Bands::BANDS) __syncthreads();
    }
    if constexpr (same<D, e4m3> || same<D, e5m2>)
        if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
}
