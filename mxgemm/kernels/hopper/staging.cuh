// D and C in shared memory as registers hold them: matrices of 16-bit entries, and words of entries of any size.

// Four 8 x 8 matrices, whose lines in shared memory are their rows, or, TURNED, their columns.
template <bool TURNED> __device__ __forceinline__ void stage_matrices(u32 address, const u32 (&w)[4]) {
    if constexpr (TURNED) asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    else asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
}
template <bool TURNED> __device__ __forceinline__ void staged_matrices(u32 address, u32 (&w)[4]) {
    if constexpr (TURNED) asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
    else asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(address) : "memory");
}
__device__ __forceinline__ void stage_two_bytes(u32 address, u32 word) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(u16(word)) : "memory");
}
__device__ __forceinline__ u32 staged_two_bytes(u32 address) {
    u16 x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
    return x;
}
__device__ __forceinline__ void stage_two_words(u32 address, u32 x, u32 y) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(x), "r"(y) : "memory");
}
template <class X> __device__ __forceinline__ X staged(u32 address) {
    u32 word;
    if constexpr (sizeof(X) == 1) asm volatile("ld.shared.u8 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    else if constexpr (sizeof(X) == 2) word = staged_two_bytes(address);
    else word = get_shared<u32>(address);
    return *reinterpret_cast<X*>(&word);
}
template <class X> __device__ __forceinline__ u32 bits_of(X x) {
    if constexpr (sizeof(X) == 1) return *reinterpret_cast<u8*>(&x);
    else if constexpr (sizeof(X) == 2) return *reinterpret_cast<u16*>(&x);
    else return *reinterpret_cast<u32*>(&x);
}
// Element `index` of the elements that a word holds.
template <class X> __device__ __forceinline__ X element_of(u32 word, int index) {
    const u32 shifted = word >> (8 * int(sizeof(X)) * index);
    if constexpr (sizeof(X) == 1) {
        const u8 bits = u8(shifted);
        return *reinterpret_cast<const X*>(&bits);
    } else if constexpr (sizeof(X) == 2) {
        const u16 bits = u16(shifted);
        return *reinterpret_cast<const X*>(&bits);
    } else {
        return *reinterpret_cast<const X*>(&word);
    }
}
