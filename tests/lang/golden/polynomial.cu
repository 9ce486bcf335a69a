static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_sub_i64(long long a, long long b) {
    return (long long)((unsigned long long)a - (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

extern "C" __global__ void polynomial(const double* x, long long x_n0, const double* coefficients, long long coefficients_n0, double* y) {
    double c[8];
    long long n;
    long long i;
    double value;
    n = coefficients_n0;
    const long long stop = n;
    for (long long k = 0ll; k < stop; ++k) {
        c[k] = coefficients[k];
    }
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    if (i < x_n0) {
        value = 0.0;
        for (long long k = mx_sub_i64(n, 1ll); k > -1ll; --k) {
            value = (value * x[i]) + c[k];
        }
        y[i] = value;
    }
}
