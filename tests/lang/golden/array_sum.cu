static __device__ __forceinline__ long long mx_wrap(long long i, long long n) { return i < 0 ? i + n : i; }
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

extern "C" __global__ void array_sum(int* data, long long data_n0) {
    __shared__ int shr[1024];
    int tid;
    long long size;
    long long i;
    long long s;
    long long t1;
    tid = (int)threadIdx.x;
    size = data_n0;
    if ((long long)tid < size) {
        i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
        shr[(long long)tid] = data[i];
        __syncthreads();
        s = 1ll;
        while (s < (long long)(int)blockDim.x) {
            if (mx_mod_i64((long long)tid, mx_mul_i64(2ll, s)) == 0ll) {
                t1 = (long long)tid;
                shr[t1] = (int)mx_add_i64((long long)shr[t1], (long long)shr[mx_wrap(mx_add_i64((long long)tid, s), 1024)]);
            }
            s = mx_mul_i64(s, 2ll);
            __syncthreads();
        }
        if ((long long)tid == 0ll) {
            data[(long long)tid] = shr[(long long)tid];
        }
    }
}
