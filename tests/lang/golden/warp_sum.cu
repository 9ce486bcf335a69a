static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_floordiv_i64(long long a, long long b) {
    if (b == 0 || (b == -1 && a == (-9223372036854775807ll - 1))) return 0;
    long long q = a / b, r = a % b;
    return r != 0 && (r ^ b) < 0 ? q - 1 : q;
}
static __device__ __forceinline__ int mx_lane() {
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

extern "C" __global__ void warp_sum(const float* x, float* out) {
    long long i;
    float value;
    long long offset;
    float t2;
    float t1;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    value = x[i];
    offset = 16ll;
    while (offset > 0ll) {
        t2 = value;
        t1 = __shfl_down_sync(4294967295u, value, (int)offset);
        value = t2 + t1;
        offset = mx_floordiv_i64(offset, 2ll);
    }
    if ((long long)mx_lane() == 0ll) {
        out[mx_floordiv_i64(i, 32ll)] = value;
    }
}
