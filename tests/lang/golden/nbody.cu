static __device__ __forceinline__ long long mx_add_i64(long long a, long long b) {
    return (long long)((unsigned long long)a + (unsigned long long)b);
}
static __device__ __forceinline__ long long mx_mul_i64(long long a, long long b) {
    return (long long)((unsigned long long)a * (unsigned long long)b);
}

struct attraction_0_result { float item0; float item1; float item2; };
static __device__ __forceinline__ attraction_0_result attraction_0(float dx, float dy, float dz) {
    float r2;
    float inverse;
    r2 = (((dx * dx) + (dy * dy)) + (dz * dz)) + (float)0.01;
    inverse = 1.0f / (r2 * sqrtf(r2));
    return {dx * inverse, dy * inverse, dz * inverse};
}

extern "C" __global__ void nbody(const float* position, long long position_n0, long long position_n1, const float* mass, float* velocity, long long velocity_n1, float dt) {
    long long i;
    float ax;
    float ay;
    float az;
    const float* tview0;
    attraction_0_result result;
    float t4;
    float t5;
    float t6;
    float fx;
    float fy;
    float fz;
    i = mx_add_i64(mx_mul_i64((long long)(int)blockIdx.x, (long long)(int)blockDim.x), (long long)(int)threadIdx.x);
    if (i >= position_n0) {
        return;
    }
    ax = 0.0f;
    ay = 0.0f;
    az = 0.0f;
    tview0 = position + (i * position_n1);
    for (long long j = 0ll; j < position_n0; ++j) {
        if (j == i) {
            continue;
        }
        result = attraction_0(position[j * position_n1 + 0ll] - tview0[0ll], position[j * position_n1 + 1ll] - tview0[1ll], position[j * position_n1 + 2ll] - tview0[2ll]);
        t4 = result.item0;
        t5 = result.item1;
        t6 = result.item2;
        fx = t4;
        fy = t5;
        fz = t6;
        ax = ax + ((0.5f * mass[j]) * fx);
        ay = ay + ((0.5f * mass[j]) * fy);
        az = az + ((0.5f * mass[j]) * fz);
    }
    velocity[i * velocity_n1 + 0ll] = velocity[i * velocity_n1 + 0ll] + (dt * ax);
    velocity[i * velocity_n1 + 1ll] = velocity[i * velocity_n1 + 1ll] + (dt * ay);
    velocity[i * velocity_n1 + 2ll] = velocity[i * velocity_n1 + 2ll] + (dt * az);
}
