static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

extern "C" __global__ void fast_matmul(const float* A, long long A_n0, long long A_n1, const float* B, long long B_n0, long long B_n1, float* C, long long C_n0, long long C_n1) {
    __shared__ float sA[256];
    __shared__ float sB[256];
    long long x;
    long long y;
    int tx;
    int ty;
    int bpg;
    float tmp;
    x = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    y = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    tx = (int)threadIdx.x;
    ty = (int)threadIdx.y;
    bpg = (int)gridDim.x;
    tmp = 0.0f;
    const int stop = bpg;
    for (int i = 0; i < stop; ++i) {
        sA[((long long)ty) * 16 + (long long)tx] = 0.0f;
        sB[((long long)ty) * 16 + (long long)tx] = 0.0f;
        if ((y < A_n0) && (mx_add_i64((long long)tx, mx_mul_i64((long long)i, 16ll)) < A_n1)) {
            sA[((long long)ty) * 16 + (long long)tx] = A[y * A_n1 + mx_add_i64((long long)tx, mx_mul_i64((long long)i, 16ll))];
        }
        if ((x < B_n1) && (mx_add_i64((long long)ty, mx_mul_i64((long long)i, 16ll)) < B_n0)) {
            sB[((long long)ty) * 16 + (long long)tx] = B[mx_add_i64((long long)ty, mx_mul_i64((long long)i, 16ll)) * B_n1 + x];
        }
        __syncthreads();
        for (long long j = 0ll; j < 16ll; ++j) {
            tmp = tmp + (sA[((long long)ty) * 16 + j] * sB[j * 16 + (long long)tx]);
        }
        __syncthreads();
    }
    if ((y < C_n0) && (x < C_n1)) {
        C[y * C_n1 + x] = tmp;
    }
}
