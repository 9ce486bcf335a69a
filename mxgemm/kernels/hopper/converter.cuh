// Converters: warpgroups between the copy engine and the consumers that round a stage of float32 to tf32 in
// place, ties away from zero, each element once.  The unit itself would only drop the low 13 bits.

__device__ __forceinline__ u32 rounded_tf32(u32 x) {
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}

template <class I> struct Converter {
    using S = Stage<I>;
    static constexpr int THREADS = 128 * I::CONVERTERS;

    template <int BYTES> __device__ __forceinline__ static void round(u32 tile, int thread) {
        constexpr int PIECES = BYTES / PIECE_BYTES / THREADS, BATCH = PIECES % 8 == 0 ? 8 : PIECES % 4 == 0 ? 4 : 1;
        static_assert(PIECES * PIECE_BYTES * THREADS == BYTES);
        const u32 first = tile + thread * PIECE_BYTES;
#pragma unroll
        for (int batch = 0; batch < PIECES; batch += BATCH) {
            u32 x[BATCH][4];
#pragma unroll
            for (int i = 0; i < BATCH; ++i)
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                             : "r"(first + (batch + i) * THREADS * PIECE_BYTES));
#pragma unroll
            for (int i = 0; i < BATCH; ++i)
                asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(first + (batch + i) * THREADS * PIECE_BYTES),
                             "r"(rounded_tf32(x[i][0])), "r"(rounded_tf32(x[i][1])), "r"(rounded_tf32(x[i][2])), "r"(rounded_tf32(x[i][3])) : "memory");
        }
    }
    template <class Tiles>
    __device__ __forceinline__ static void run(typename S::Ring_ ring, Tiles tiles, u32 shared, int blocks, int thread) {
        while (tiles.more()) {
            tiles.take(0);
#pragma unroll 1
            for (int block = 0; block < blocks; ++block) {
                ring.wait_full();
                round<S::A_BYTES>(shared + S::A_FIRST + ring.stage * S::A_BYTES, thread);
                round<S::B_BYTES>(shared + S::B_FIRST + ring.stage * S::B_BYTES, thread);
                async_proxy_fence();
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(ring.ready_barrier());
                ring.advance();
            }
        }
    }
};
