static __device__ __forceinline__ long long mx_wrap(long long i, long long n) { return i < 0 ? i + n : i; }
static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}
static __device__ __forceinline__ unsigned long long mx_count_i64(long long start, long long stop, long long step) {
    if (step > 0 && start < stop)
        return ((unsigned long long)stop - (unsigned long long)start - 1) / (unsigned long long)step + 1;
    if (step < 0 && start > stop)
        return ((unsigned long long)start - (unsigned long long)stop - 1) /
            (0ull - (unsigned long long)step) + 1;
    return 0;
}
static __device__ __forceinline__ int mx_i32_from_f64(double x) {
    if (!(x > -0x1.0000000000000p+31)) return x != x ? 0 : (int)-2147483648ll;
    return x >= 0x1.0000000000000p+31 ? (int)2147483647ll : (int)x;
}

extern "C" __global__ void histogram(const float* x, long long x_n0, float xmin, float xmax, int* out, long long out_n0) {
    long long nbins;
    double bin_width;
    long long start;
    long long stride;
    long long i;
    int bin_number;
    nbins = out_n0;
    bin_width = (double)(xmax - xmin) / (double)nbins;
    start = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    stride = mx_mul_i64((long long)(int)gridDim.x, (long long)(int)blockDim.x);
    const long long first = start;
    const long long step = stride;
    unsigned long long count = mx_count_i64(first, x_n0, step);
    for (unsigned long long next = (unsigned long long)first; count != 0; --count, next += (unsigned long long)(long long)step) {
        i = (long long)next;
        bin_number = mx_i32_from_f64((double)(x[i] - xmin) / bin_width);
        if (((long long)bin_number >= 0ll) && ((long long)bin_number < out_n0)) {
            atomicAdd(&out[mx_wrap((long long)bin_number, out_n0)], 1);
        }
    }
}
