// Loads and stores in shared memory by 32-bit address.

template <class T> __device__ __forceinline__ T load_shared(u32 address);
template <> __device__ __forceinline__ u32 load_shared<u32>(u32 address) {
    u32 x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address));
    return x;
}
template <> __device__ __forceinline__ float load_shared<float>(u32 address) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
    return x;
}
template <> __device__ __forceinline__ double load_shared<double>(u32 address) {
    double x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(address));
    return x;
}

__device__ __forceinline__ void store_shared(u32 address, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, double x) {
    asm volatile("st.shared.f64 [%0], %1;" ::"r"(address), "d"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, const u32 (&x)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                 ::"r"(address), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]) : "memory");
}

template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(u32 address, u32& x0, u32& x1, u32& x2, u32& x3) {
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x0), "=r"(x1), "=r"(x2), "=r"(x3) : "r"(address));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(x0), "=r"(x1), "=r"(x2), "=r"(x3) : "r"(address));
}
