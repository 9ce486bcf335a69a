// float32 operands are rounded to tf32 on their way to the unit.  A finite one that becomes Inf makes every sum of
// its row or column Inf or NaN, so a warp that finds such a sum looks at its operands in memory.

template <class I> struct RoundedOperands {
    static constexpr u32 FIRST_OVERFLOW = 0x7F7FF000u;    // the least magnitude that becomes Inf
    static constexpr int WARPS = I::BM / 16, COLUMNS = (I::BN + WARPS - 1) / WARPS;    // warps of the tile share its columns of B

    template <int COUNT> __device__ __forceinline__ static bool any_non_finite(const float (&sums)[COUNT]) {
        float probes[4] = {};    // apart, so that they do not wait for each other
#pragma unroll
        for (int i = 0; i < COUNT; ++i) probes[i % 4] = fmaf(sums[i], 0.0f, probes[i % 4]);
        const float probe = (probes[0] + probes[1]) + (probes[2] + probes[3]);
        return __any_sync(0xFFFFFFFFu, probe != probe);
    }
    // Rows or columns [first, first + count) of `extent`, `depth` products deep; lanes run along the contiguous axis.
    template <bool K_MAJOR>
    __device__ __forceinline__ static bool overflows(const float* x, i64 outer, int first, int count, i64 extent, i64 depth) {
        const int lane = int(threadIdx.x) % 32, past = int(least(extent, i64(first + count)));
        bool found = false;
#pragma unroll 1
        for (int position = first + (K_MAJOR ? 0 : lane % 8); position < past; position += K_MAJOR ? 1 : 8)
#pragma unroll 1
            for (i64 k = K_MAJOR ? lane : lane / 8; k < depth; k += K_MAJOR ? 32 : 4) {
                const u32 magnitude = __float_as_uint(x[K_MAJOR ? position * outer + k : position + k * outer]) & 0x7FFFFFFFu;
                found = found || magnitude - FIRST_OVERFLOW < FLOAT_INFINITY_BITS - FIRST_OVERFLOW;
            }
        return found;
    }
    // The 32 rows of A among which the warp's 16 lie, and the warp's share of the columns of B, `depth` products from `start` on.
    template <int COUNT>
    __device__ __forceinline__ static void check(const Arguments<float>& p, const TilePlace& tile, i64 start, i64 depth, int warp, const float (&sums)[COUNT]) {
        if (!any_non_finite(sums)) return;
        const float* const a = static_cast<const float*>(p.a) + tile.product * p.batch[0].a + start * (I::A_K_MAJOR ? 1 : p.a_outer);
        const float* const b = static_cast<const float*>(p.b) + tile.product * p.batch[0].b + start * (I::B_K_MAJOR ? 1 : p.b_outer);
        if (overflows<I::A_K_MAJOR>(a, p.a_outer, tile.row + warp / 2 * 32, 32, p.m, depth) ||
            overflows<I::B_K_MAJOR>(b, p.b_outer, tile.col + warp * COLUMNS, COLUMNS, p.n, depth))
            atomicOr(p.flags, FLAG_OPERAND_OVERFLOW);
    }
};
