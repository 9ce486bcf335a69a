// Whether a finite operand overflowed when it was rounded.  Such an operand makes every sum of its row
// or column Inf or NaN, so only tiles that hold one look at their operands again.

template <class Math, class Shared> constexpr u32 FIRST_OVERFLOW = 0x7F7FF000u;             // tf32
template <class Math> constexpr u32 FIRST_OVERFLOW<Math, f16> = 0x477FF000u;                // 65520
template <class Math> constexpr u32 FIRST_OVERFLOW<Math, bf16> = 0x7F7F8000u;

template <class Accumulator, int COUNT>
__device__ __forceinline__ bool holds_non_finite(const Accumulator (&sums)[COUNT][4]) {
    Accumulator probe = 0;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) probe = fmaf(sums[i][e], 0.0f, probe);
    return probe != probe;
}

// Scans `extent` rows or columns of a float32 operand, all of k.
template <u32 FIRST>
__device__ __noinline__ bool operand_overflows(const float* x, i64 stride, i64 depth_stride, int extent, i64 k) {
    bool found = false;
    for (int position = 0; position < extent; ++position)
        for (i64 depth = threadIdx.x; depth < k; depth += blockDim.x) {
            const u32 magnitude = __float_as_uint(x[position * stride + depth * depth_stride]) & 0x7FFFFFFFu;
            found = found || (magnitude >= FIRST && magnitude < FLOAT_INFINITY_BITS);
        }
    return found;
}
