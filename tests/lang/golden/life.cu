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

extern "C" __global__ void life(const unsigned char* a, long long a_n0, long long a_n1, unsigned char* b, long long b_n1) {
    long long i;
    long long j;
    long long h;
    long long w;
    long long alive;
    bool t4;
    unsigned char t3;
    bool t2;
    unsigned char t1;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    j = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    h = a_n0;
    w = a_n1;
    if ((i >= h) || (j >= w)) {
        return;
    }
    alive = 0ll;
    for (long long di = -1ll; di < 2ll; ++di) {
        for (long long dj = -1ll; dj < 2ll; ++dj) {
            if ((di != 0ll) || (dj != 0ll)) {
                alive = mx_add_i64(alive, (long long)a[mx_wrap(mx_mod_i64(mx_add_i64(i, di), h), a_n0) * a_n1 + mx_wrap(mx_mod_i64(mx_add_i64(j, dj), w), a_n1)]);
            }
        }
    }
    t4 = alive == 3ll;
    t3 = (unsigned char)t4;
    if (!t4) {
        t2 = alive == 2ll;
        t1 = (unsigned char)t2;
        if (t2) {
            t1 = a[i * a_n1 + j];
        }
        t3 = t1;
    }
    b[i * b_n1 + j] = (unsigned char)((t3 != (unsigned char)(0)) ? 1ll : 0ll);
}
