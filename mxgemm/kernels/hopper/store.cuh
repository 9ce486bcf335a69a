// From sums to D: the epilogue in registers, then shared memory, then a bulk tensor store of 64 rows of
// 128 bytes, or, where D's rows are not aligned, stores by element along D's contiguous axis.

template <class D> __device__ __forceinline__ void stage_pair(u32 address, D x, D y) {
    if constexpr (sizeof(D) == 1)
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(u16(*reinterpret_cast<u8*>(&x) | *reinterpret_cast<u8*>(&y) << 8)) : "memory");
    else
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(*reinterpret_cast<u32*>(&x)), "r"(*reinterpret_cast<u32*>(&y)) : "memory");
}
__device__ __forceinline__ void stage_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
template <class D> __device__ __forceinline__ D staged(u32 address) {
    D x;
    if constexpr (sizeof(D) == 1) {
        u32 word;
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
        *reinterpret_cast<u8*>(&x) = u8(word);
    } else if constexpr (sizeof(D) == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=h"(*reinterpret_cast<u16*>(&x)) : "r"(address) : "memory");
    } else {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(*reinterpret_cast<u32*>(&x)) : "r"(address) : "memory");
    }
    return x;
}

template <class I> struct Store {
    using S = Stage<I>;
    using E = typename I::Epilogue;
    using C = typename E::CType;
    using D = typename E::DType;
    using T = typename I::Sum;
    static constexpr int COLUMNS = ROW_BYTES / int(sizeof(D)), CHUNKS = (I::BN + COLUMNS - 1) / COLUMNS;
    // The last chunk may be narrower: it has a map of its own and rows of TAIL_BYTES, not swizzled.
    static constexpr int TAIL_BYTES = I::BN % COLUMNS * int(sizeof(D));
    static_assert(TAIL_BYTES % (2 * PIECE_BYTES) == 0 || sizeof(D) != 2);

    const Arguments<T>& p;
    MapAddress map, tail_map;
    u32 buffers;    // this warpgroup's
    int group, thread;
    bool overflow = false;

    // What the epilogue makes of a pair of neighbouring columns.
    struct Pair { T x, y; };
    __device__ __forceinline__ Pair finish(const TilePlace& tile, int row, int col, T x, T y) const {
        const i64 r = least(i64(tile.row + row), p.m - 1);
        const i64 first = least(i64(tile.col + col), p.n - 1), second = least(i64(tile.col + col + 1), p.n - 1);
        T c[2] = {};
        if (p.mode & MODE_C) {
            const C* from = static_cast<const C*>(p.c) + tile.product * p.batch[0].c + r * p.c_row;
            if constexpr (I::C_PAIRS) {
                struct alignas(2 * sizeof(C)) Two { C x, y; };
                const Two two = *reinterpret_cast<const Two*>(from + least(i64(tile.col + col), p.n - 2));
                c[0] = To<T>::from(two.x);
                c[1] = To<T>::from(two.y);
            } else {
                c[0] = To<T>::from(from[first * p.c_col]);
                c[1] = To<T>::from(from[second * p.c_col]);
            }
        }
        const i64 bias = tile.product * p.batch[0].bias;
        return {E::apply(p, bias, x, c[0], r, first), E::apply(p, bias, y, c[1], r, second)};
    }

    // Where byte `byte` of a staged row lies.
    __device__ __forceinline__ static u32 place(int row, int byte, bool tail) {
        return tail ? row * TAIL_BYTES + byte : swizzled(row, byte / PIECE_BYTES) + byte % PIECE_BYTES;
    }
    // Keeps ptxas from reading C far ahead, which would fill the registers.
    __device__ __forceinline__ void keep_order() const {
        if (p.mode & MODE_C) __syncwarp();
    }
    // Columns [chunk * COLUMNS, …) of the warp's 16 rows into `buffer`.
    __device__ __forceinline__ void stage(u32 buffer, int chunk, bool tail, const TilePlace& tile, const T (&sums)[I::BN / 2]) {
        const int warp = thread / 32, lane = thread % 32, top = 16 * warp + lane / 4;
        if constexpr (sizeof(D) == 2) {
            const int row = 16 * warp + lane % 16;
#pragma unroll
            for (int block = 0; block < COLUMNS / 8; block += 2) {
                const int first = chunk * COLUMNS / 8 + block;
                if (4 * first >= I::BN / 2) continue;
                keep_order();
                u32 word[4] = {};
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const int at = 4 * (first + i / 2) + 2 * (i % 2);
                    if (at >= I::BN / 2) continue;
                    const Pair f = finish(tile, 64 * group + top + 8 * (i % 2), 8 * (first + i / 2) + 2 * (lane % 4), sums[at], sums[at + 1]);
                    word[i] = rounded_pair<D>(f.x, f.y);
                }
                stage_matrices(buffer + place(row, (block + lane / 16) * PIECE_BYTES, tail), word[0], word[1], word[2], word[3]);
            }
        } else {
#pragma unroll
            for (int block = 0; block < COLUMNS / 8; ++block)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    keep_order();
                    const int i = chunk * COLUMNS / 8 + block, at = 4 * i + 2 * half, row = top + 8 * half;
                    if (at >= I::BN / 2) continue;
                    const Pair f = finish(tile, 64 * group + row, 8 * i + 2 * (lane % 4), sums[at], sums[at + 1]);
                    const int byte = (8 * block + 2 * (lane % 4)) * int(sizeof(D));
                    stage_pair(buffer + place(row, byte, tail), Output<D>::from(f.x, overflow), Output<D>::from(f.y, overflow));
                }
        }
    }
    __device__ __forceinline__ void bulk(const TilePlace& tile, const T (&sums)[I::BN / 2]) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            const u32 buffer = buffers + chunk % I::BUFFERS * S::STORE_BYTES;
            const bool tail = TAIL_BYTES != 0 && chunk + 1 == CHUNKS;
            // The last tile's stores ended long ago; waiting for all of them lets the buffers start anew.
            if (thread == 0) {
                if (chunk == 0) store_wait_read<0>();
                else store_wait_read<I::BUFFERS - 1>();
            }
            named_barrier<128>(1 + group);
            stage(buffer, chunk, tail, tile, sums);
            async_proxy_fence();
            named_barrier<128>(1 + group);
            if (thread == 0) {
                store_box(tail ? tail_map : map, buffer, tile.col + chunk * COLUMNS, tile.row + 64 * group, tile.product);
                store_commit();
            }
        }
    }
    // Each warp stores the 16 rows that it staged.
    __device__ __forceinline__ void by_element(const TilePlace& tile, const T (&sums)[I::BN / 2]) {
        const int warp = thread / 32, lane = thread % 32;
        D* const d = static_cast<D*>(p.d) + tile.product * p.batch[0].d;
        const int rows = int(least(p.m - tile.row - 64 * group - 16 * warp, i64(16)));
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; ++chunk) {
            __syncwarp();
            stage(buffers, chunk, false, tile, sums);
            __syncwarp();
            const i64 first_row = tile.row + 64 * group + 16 * warp, first_col = tile.col + chunk * COLUMNS;
            const int columns = int(least(least(p.n - first_col, i64(COLUMNS)), i64(I::BN - chunk * COLUMNS)));
            D* const corner = d + first_row * p.d_row + first_col * p.d_col;
            const bool along_rows = p.d_col == 1;
#pragma unroll 4
            for (int i = lane; i < 16 * COLUMNS; i += 32) {
                const int row = along_rows ? i / COLUMNS : i % 16, col = along_rows ? i % COLUMNS : i / 16;
                const int byte = col * int(sizeof(D));
                if (row < rows && col < columns)
                    corner[row * p.d_row + col * p.d_col] = staged<D>(buffers + place(16 * warp + row, byte, false));
            }
        }
    }
    __device__ __forceinline__ void run(const TilePlace& tile, const T (&sums)[I::BN / 2]) {
        if constexpr (I::BULK_STORE) bulk(tile, sums);
        else by_element(tile, sums);
    }
    __device__ __forceinline__ void finish_all() {
        if constexpr (I::BULK_STORE)
            if (thread == 0) store_wait_read<0>();
        if constexpr (same<D, e4m3> || same<D, e5m2>)
            if (overflow) atomicOr(p.flags, FLAG_FLOAT8_OVERFLOW);
    }
};
