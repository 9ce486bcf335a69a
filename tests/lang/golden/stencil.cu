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
    long long t1;
    long long t2;
    bool t6;
    bool t5;
    long long t3;
    long long t4;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    j = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    t1 = i;
    t2 = mx_sub_i64(a_n0, 1ll);
    t6 = (0ll < t1) && (t1 < t2);
    t5 = t6;
    if (t6) {
        t3 = j;
        t4 = mx_sub_i64(a_n1, 1ll);
        t5 = (0ll < t3) && (t3 < t4);
    }
    if (t5) {
        b[j * b_n0 + i] = (float)(0.25 * (double)(((a[mx_wrap(mx_sub_i64(i, 1ll), a_n0) * a_n1 + j] + a[mx_add_i64(i, 1ll) * a_n1 + j]) + a[i * a_n1 + mx_wrap(mx_sub_i64(j, 1ll), a_n1)]) + a[i * a_n1 + mx_add_i64(j, 1ll)]));
    }
}
