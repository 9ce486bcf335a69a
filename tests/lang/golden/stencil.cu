static __device__ __forceinline__ long long mx_wrap(long long i, long long n) { return i < 0 ? i + n : i; }
static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_sub_i64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

extern "C" __global__ void stencil(const float* a, long long a_n0, long long a_n1, float* b, long long b_n0) {
    long long i;
    long long j;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    j = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    if (((0ll < i) && (i < mx_sub_i64(a_n0, 1ll))) && ((0ll < j) && (j < mx_sub_i64(a_n1, 1ll)))) {
        b[j * b_n0 + i] = (float)(0.25 * (double)(((a[mx_wrap(mx_sub_i64(i, 1ll), a_n0) * a_n1 + j] + a[mx_add_i64(i, 1ll) * a_n1 + j]) + a[i * a_n1 + mx_wrap(mx_sub_i64(j, 1ll), a_n1)]) + a[i * a_n1 + mx_add_i64(j, 1ll)]));
    }
}
