// Padding past the edge along k for chains of fused multiply-adds: -0 in A.  Its product with +0 leaves
// every sum as it is, where +0 would turn a sum of -0 into +0.

template <class Shared, class SL, int EXTENT, int DEPTH, int THREADS> struct NegativeZeros {
    __device__ __forceinline__ static void write(u32 stage, int depth_left) {
#pragma unroll 1
        for (int i = threadIdx.x; i < EXTENT * (DEPTH - depth_left); i += THREADS)
            store_shared(stage + SL::at(i % EXTENT, depth_left + i / EXTENT), Shared(-0.0));
    }
};
