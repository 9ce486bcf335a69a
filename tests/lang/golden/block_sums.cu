static __device__ __forceinline__ long long mx_wrap(long long i, long long n) { return i < 0 ? i + n : i; }
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
static __device__ __forceinline__ unsigned long long mx_count_i64(long long start, long long stop, long long step) {
    if (step > 0 && start < stop)
        return ((unsigned long long)stop - (unsigned long long)start - 1) / (unsigned long long)step + 1;
    if (step < 0 && start > stop)
        return ((unsigned long long)start - (unsigned long long)stop - 1) /
            (0ull - (unsigned long long)step) + 1;
    return 0;
}

extern "C" __global__ void block_sums(const float* x, long long x_n0, float* partial) {
    __shared__ float cache[128];
    int t;
    float acc;
    long long i;
    long long width;
    long long t1;
    t = (int)threadIdx.x;
    acc = 0.0f;
    const long long first = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    const long long step = mx_mul_i64((long long)(int)gridDim.x, (long long)(int)blockDim.x);
    unsigned long long count = mx_count_i64(first, x_n0, step);
    for (unsigned long long next = (unsigned long long)first; count != 0; --count, next += (unsigned long long)(long long)step) {
        i = (long long)next;
        acc = acc + x[i];
    }
    cache[(long long)t] = acc;
    __syncthreads();
    width = mx_floordiv_i64((long long)(int)blockDim.x, 2ll);
    while (width > 0ll) {
        if ((long long)t < width) {
            t1 = (long long)t;
            cache[t1] = cache[t1] + cache[mx_wrap(mx_add_i64((long long)t, width), 128)];
        }
        __syncthreads();
        width = mx_floordiv_i64(width, 2ll);
    }
    if ((long long)t == 0ll) {
        partial[(long long)(int)blockIdx.x] = cache[0ll];
    }
}
