static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

extern "C" __global__ void transpose(const float* a, long long a_n0, long long a_n1, float* b, long long b_n0, long long b_n1) {
    __shared__ float tile[272];
    long long x;
    long long y;
    x = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, 16ll), (long long)(int)threadIdx.x);
    y = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, 16ll), (long long)(int)threadIdx.y);
    if ((y < a_n0) && (x < a_n1)) {
        tile[((long long)(int)threadIdx.y) * 17 + (long long)(int)threadIdx.x] = a[y * a_n1 + x];
    }
    __syncthreads();
    x = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, 16ll), (long long)(int)threadIdx.x);
    y = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, 16ll), (long long)(int)threadIdx.y);
    if ((y < b_n0) && (x < b_n1)) {
        b[y * b_n1 + x] = tile[((long long)(int)threadIdx.x) * 17 + (long long)(int)threadIdx.y];
    }
}
