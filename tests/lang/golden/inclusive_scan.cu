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

extern "C" __global__ void inclusive_scan(const int* x, int* out) {
    __shared__ int buffer[512];
    int t;
    long long source;
    long long step;
    long long target;
    t = (int)threadIdx.x;
    source = 0ll;
    buffer[mx_wrap(source, 2) * 256 + (long long)t] = x[(long long)t];
    __syncthreads();
    step = 1ll;
    while (step < (long long)(int)blockDim.x) {
        target = mx_sub_i64(1ll, source);
        if ((long long)t >= step) {
            buffer[mx_wrap(target, 2) * 256 + (long long)t] = (int)mx_add_i64((long long)buffer[mx_wrap(source, 2) * 256 + (long long)t], (long long)buffer[mx_wrap(source, 2) * 256 + mx_wrap(mx_sub_i64((long long)t, step), 256)]);
        } else {
            buffer[mx_wrap(target, 2) * 256 + (long long)t] = buffer[mx_wrap(source, 2) * 256 + (long long)t];
        }
        source = target;
        __syncthreads();
        step = mx_mul_i64(step, 2ll);
    }
    out[(long long)t] = buffer[mx_wrap(source, 2) * 256 + (long long)t];
}
