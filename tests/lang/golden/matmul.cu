static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

extern "C" __global__ void matmul(const float* A, long long A_n1, const float* B, long long B_n1, float* C, long long C_n0, long long C_n1) {
    long long i;
    long long j;
    double tmp;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    j = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    if ((i < C_n0) && (j < C_n1)) {
        tmp = 0.0;
        for (long long k = 0ll; k < A_n1; ++k) {
            tmp = tmp + (double)(A[i * A_n1 + k] * B[k * B_n1 + j]);
        }
        C[i * C_n1 + j] = (float)tmp;
    }
}
