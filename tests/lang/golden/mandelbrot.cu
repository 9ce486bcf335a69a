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

static __device__ __forceinline__ long long mandel_0(double x, double y, long long max_iters) {
    double zr;
    double zi;
    double zr2;
    double zi2;
    zr = 0.0;
    zi = 0.0;
    const long long stop = max_iters;
    for (long long i = 0ll; i < stop; ++i) {
        zr2 = zr * zr;
        zi2 = zi * zi;
        if ((zr2 + zi2) >= 4.0) {
            return i;
        }
        zi = ((2.0 * zr) * zi) + y;
        zr = (zr2 - zi2) + x;
    }
    return max_iters;
}

extern "C" __global__ void mandelbrot(double min_x, double max_x, double min_y, double max_y, unsigned char* image, long long image_n0, long long image_n1, long long iters) {
    long long height;
    long long width;
    double pixel_size_x;
    double pixel_size_y;
    long long startX;
    long long startY;
    long long gridX;
    long long gridY;
    long long x;
    double real;
    long long y;
    double imag;
    long long t3;
    height = image_n0;
    width = image_n1;
    pixel_size_x = (max_x - min_x) / (double)width;
    pixel_size_y = (max_y - min_y) / (double)height;
    startX = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    startY = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.y, (long long)(int)blockDim.y), (long long)(int)threadIdx.y);
    gridX = mx_mul_i64((long long)(int)gridDim.x, (long long)(int)blockDim.x);
    gridY = mx_mul_i64((long long)(int)gridDim.y, (long long)(int)blockDim.y);
    const long long stop = width;
    const long long first = startX;
    const long long step = gridX;
    unsigned long long count = mx_count_i64(first, stop, step);
    for (unsigned long long next = (unsigned long long)first; count != 0; --count, next += (unsigned long long)(long long)step) {
        x = (long long)next;
        real = min_x + ((double)x * pixel_size_x);
        const long long stop_1 = height;
        const long long first_1 = startY;
        const long long step_1 = gridY;
        unsigned long long count_1 = mx_count_i64(first_1, stop_1, step_1);
        for (unsigned long long next_1 = (unsigned long long)first_1; count_1 != 0; --count_1, next_1 += (unsigned long long)(long long)step_1) {
            y = (long long)next_1;
            imag = min_y + ((double)y * pixel_size_y);
            t3 = mandel_0(real, imag, iters);
            image[y * image_n1 + x] = (unsigned char)t3;
        }
    }
}
