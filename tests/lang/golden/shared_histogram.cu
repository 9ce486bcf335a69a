static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mod_i64(long long a, long long b) {
    if (b == 0 || b == -1) return 0;
    long long r = a % b;
    return r != 0 && (r ^ b) < 0 ? r + b : r;
}

extern "C" __global__ void shared_histogram(const int* x, long long x_n0, int* out) {
    __shared__ int bins[16];
    int t;
    long long i;
    t = (int)threadIdx.x;
    if ((long long)t < 16ll) {
        bins[(long long)t] = 0;
    }
    __syncthreads();
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    if (i < x_n0) {
        atomicAdd(&bins[mx_mod_i64((long long)x[i], 16ll)], 1);
    }
    __syncthreads();
    if ((long long)t < 16ll) {
        atomicAdd(&out[(long long)t], bins[(long long)t]);
    }
}
