// Converters: three warps between the copy engine and the consumers that round a stage of float32 to tf32 in
// place, ties away from zero, each element once.  The unit itself would only drop the low 13 bits.

__device__ __forceinline__ u32 rounded_tf32(u32 x) {
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(__uint_as_float(x)));
    return y;
}

template <class I> struct Converter {
    using S = Stage<I>;
    static constexpr int WARPS = 3, THREADS = 32 * WARPS, PIECES = S::BYTES / PIECE_BYTES, BATCH = 8;

    __device__ __forceinline__ static void round(u32 stage, int thread) {
#pragma unroll 1
        for (int batch = thread; batch < PIECES; batch += BATCH * THREADS) {
            u32 x[BATCH][4];
#pragma unroll
            for (int i = 0; i < BATCH; ++i)
                if (PIECES % (BATCH * THREADS) == 0 || batch + i * THREADS < PIECES)
                    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x[i][0]), "=r"(x[i][1]), "=r"(x[i][2]), "=r"(x[i][3])
                                 : "r"(stage + (batch + i * THREADS) * PIECE_BYTES));
#pragma unroll
            for (int i = 0; i < BATCH; ++i)
                if (PIECES % (BATCH * THREADS) == 0 || batch + i * THREADS < PIECES)
                    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(stage + (batch + i * THREADS) * PIECE_BYTES),
                                 "r"(rounded_tf32(x[i][0])), "r"(rounded_tf32(x[i][1])), "r"(rounded_tf32(x[i][2])), "r"(rounded_tf32(x[i][3])) : "memory");
        }
    }
    // Warps 1 to 3 of the producer's warpgroup.
    template <class Tiles>
    __device__ __forceinline__ static void run(typename S::Ring_ ring, Tiles tiles, u32 shared, int blocks, int thread) {
        while (tiles.more()) {
            tiles.take(0);
#pragma unroll 1
            for (int block = 0; block < blocks; ++block) {
                ring.wait_full();
                round(shared + ring.stage * S::BYTES, thread);
                async_proxy_fence();
                __syncwarp();
                if (thread % 32 == 0) barrier_arrive(ring.ready_barrier());
                ring.advance();
            }
        }
    }
};
