// Matrix instructions, one struct each: a fragment's registers, the depth of a step along k, and the
// instruction.  Where an architecture lacks the wide shape, narrower ones chained along k stand for it.

template <class Register, int COUNT> struct Fragment { Register r[COUNT]; };

// 16-byte rows of 2 x 16 bytes along k: the shape that ldmatrix feeds.
struct WordMma {
    using Register = u32;
    using A = Fragment<u32, 4>;
    using B = Fragment<u32, 2>;
};

#define MMA_WORDS(INSTRUCTION, D, A_, B_, CONSTRAINT)                                                          \
    asm volatile(INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"               \
                 : "+" CONSTRAINT((D)[0]), "+" CONSTRAINT((D)[1]), "+" CONSTRAINT((D)[2]), "+" CONSTRAINT((D)[3])     \
                 : "r"((A_).r[0]), "r"((A_).r[1]), "r"((A_).r[2]), "r"((A_).r[3]), "r"((B_).r[0]), "r"((B_).r[1]))

struct MmaF16 : WordMma {
    using Accumulator = float;
    static constexpr int DEPTH = 16;
    __device__ __forceinline__ static void multiply(float (&d)[4], const A& a, const B& b) {
        MMA_WORDS("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", d, a, b, "f");
    }
};

struct MmaBf16 : WordMma {
    using Accumulator = float;
    static constexpr int DEPTH = 16;
    __device__ __forceinline__ static void multiply(float (&d)[4], const A& a, const B& b) {
        MMA_WORDS("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", d, a, b, "f");
    }
};

struct MmaTf32 : WordMma {
    using Accumulator = float;
    static constexpr int DEPTH = 8;
    __device__ __forceinline__ static void multiply(float (&d)[4], const A& a, const B& b) {
        MMA_WORDS("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", d, a, b, "f");
    }
};

// sm_75: two m16n8k8 along k.
struct MmaF16Depth8 : WordMma {
    using Accumulator = float;
    static constexpr int DEPTH = 16;
    __device__ __forceinline__ static void multiply(float (&d)[4], const A& a, const B& b) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                         "{%0, %1, %2, %3};"
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                         : "r"(a.r[2 * half]), "r"(a.r[2 * half + 1]), "r"(b.r[half]));
    }
};

template <bool A_SIGNED, bool B_SIGNED> struct MmaInt8 : WordMma {
    using Accumulator = i32;
    static constexpr int DEPTH = 32;
    __device__ __forceinline__ static void multiply(i32 (&d)[4], const A& a, const B& b) {
        if constexpr (A_SIGNED && B_SIGNED) MMA_WORDS("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", d, a, b, "r");
        else if constexpr (A_SIGNED) MMA_WORDS("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", d, a, b, "r");
        else if constexpr (B_SIGNED) MMA_WORDS("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", d, a, b, "r");
        else MMA_WORDS("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", d, a, b, "r");
    }
};

// sm_75: two rows of eight, each two m8n8k16 along k.
#define MMA_EIGHT(TYPES, D0, D1, A_, B_)                                                            \
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32." TYPES ".s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : "+r"(D0), "+r"(D1) : "r"(A_), "r"(B_))
template <bool A_SIGNED, bool B_SIGNED> struct MmaInt8Depth16 : WordMma {
    using Accumulator = i32;
    static constexpr int DEPTH = 32;
    __device__ __forceinline__ static void multiply(i32 (&d)[4], const A& a, const B& b) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            i32 &d0 = d[(i & 1) * 2], &d1 = d[(i & 1) * 2 + 1];
            if constexpr (A_SIGNED && B_SIGNED) MMA_EIGHT("s8.s8", d0, d1, a.r[i], b.r[i >> 1]);
            else if constexpr (A_SIGNED) MMA_EIGHT("s8.u8", d0, d1, a.r[i], b.r[i >> 1]);
            else if constexpr (B_SIGNED) MMA_EIGHT("u8.s8", d0, d1, a.r[i], b.r[i >> 1]);
            else MMA_EIGHT("u8.u8", d0, d1, a.r[i], b.r[i >> 1]);
        }
    }
};

// float64: chains of fused multiply-adds in ascending k, whatever the shape.
template <int DEPTH_> struct MmaF64 {
    using Register = double;
    using Accumulator = double;
    using A = Fragment<double, DEPTH_ / 2>;
    using B = Fragment<double, DEPTH_ / 4>;
    static constexpr int DEPTH = DEPTH_;
    __device__ __forceinline__ static void multiply(double (&d)[4], const A& a, const B& b) {
        if constexpr (DEPTH == 4)
            asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                         "{%0, %1, %2, %3};"
                         : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(a.r[0]), "d"(a.r[1]), "d"(b.r[0]));
        else if constexpr (DEPTH == 8)
            asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                         "{%8, %9}, {%0, %1, %2, %3};"
                         : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                         : "d"(a.r[0]), "d"(a.r[1]), "d"(a.r[2]), "d"(a.r[3]), "d"(b.r[0]), "d"(b.r[1]));
        else
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                         "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                         : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                         : "d"(a.r[0]), "d"(a.r[1]), "d"(a.r[2]), "d"(a.r[3]), "d"(a.r[4]), "d"(a.r[5]),
                           "d"(a.r[6]), "d"(a.r[7]), "d"(b.r[0]), "d"(b.r[1]), "d"(b.r[2]), "d"(b.r[3]));
    }
};

// Before sm_90 float64 has only m8n8k4.
struct MmaF64Rows8 {
    using Register = double;
    using Accumulator = double;
    using A = Fragment<double, 2>;
    using B = Fragment<double, 1>;
    static constexpr int DEPTH = 4;
    __device__ __forceinline__ static void multiply(double (&d)[4], const A& a, const B& b) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                         : "+d"(d[2 * half]), "+d"(d[2 * half + 1]) : "d"(a.r[half]), "d"(b.r[0]));
    }
};
