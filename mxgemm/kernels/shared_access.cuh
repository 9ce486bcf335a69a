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

// 16 bytes.
__device__ __forceinline__ void load_shared(u32 address, float (&x)[4]) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(address));
}
__device__ __forceinline__ void load_shared(u32 address, u32 (&x)[4]) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(address));
}
__device__ __forceinline__ void load_shared(u32 address, double (&x)[2]) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x[0]), "=d"(x[1]) : "r"(address));
}
__device__ __forceinline__ void load_shared(u32 address, u64 (&x)[2]) {
    asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];" : "=l"(x[0]), "=l"(x[1]) : "r"(address));
}

__device__ __forceinline__ void store_shared(u32 address, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, double x) {
    asm volatile("st.shared.f64 [%0], %1;" ::"r"(address), "d"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, u32 x) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, u64 x) {
    asm volatile("st.shared.u64 [%0], %1;" ::"r"(address), "l"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, u16 x) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(x) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, u8 x) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "h"(u16(x)) : "memory");
}
__device__ __forceinline__ void store_shared(u32 address, i8 x) { store_shared(address, u8(x)); }
__device__ __forceinline__ void store_shared(u32 address, f16 x) { store_shared(address, x.bits); }
__device__ __forceinline__ void store_shared(u32 address, bf16 x) { store_shared(address, x.bits); }
__device__ __forceinline__ void store_shared(u32 address, const u32 (&x)[2]) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(x[0]), "r"(x[1]) : "memory");
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
