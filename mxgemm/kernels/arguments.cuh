// What a launch is told.  A generated entry fills only the fields that its instance uses;
// the rest stay compile-time zeros.  Strides are in elements and may be 0 or negative.

constexpr int MODE_PRODUCT = 1;        // alpha != 0 and K > 0: A and B are read
constexpr int MODE_C = 2;              // beta != 0: C is read
constexpr int MODE_C_CONTIGUOUS = 4;   // C has unit column stride and D's vector alignment

constexpr u32 FLAG_OPERAND_OVERFLOW = 1;
constexpr u32 FLAG_FLOAT8_OVERFLOW = 2;

struct BatchAxis { i64 extent, a, b, c, d, bias; };

template <class Accumulator> struct Arguments {
    const void *a = nullptr, *b = nullptr, *c = nullptr;
    void* d = nullptr;
    const void *bias = nullptr, *scale_rows = nullptr, *scale_cols = nullptr;
    u32* flags = nullptr;
    i64 m = 0, n = 0, k = 0;
    i64 depth = 0;       // k of the whole product where each launch's product is a part of it
    u64 products = 1;    // matrices in the batch
    // Inner is the axis that the operand's layout names (k_major: k), outer the other one.
    i64 a_outer = 0, a_inner = 1, b_outer = 0, b_inner = 1;
    i64 c_row = 0, c_col = 1, d_row = 0, d_col = 1;
    i64 bias_row = 0, bias_col = 0, scale_row = 0, scale_col = 0;
    Accumulator alpha = 0, beta = 0, low = 0, high = 0;
    int mode = 0;
    BatchAxis batch[4] = {};
};

// Element offsets of one product of the batch.
struct BatchOffset { i64 a = 0, b = 0, c = 0, d = 0, bias = 0; };

template <int AXES, class Accumulator>
__device__ __forceinline__ BatchOffset batch_offset(const Arguments<Accumulator>& p, u64 index) {
    BatchOffset offset;
#pragma unroll
    for (int axis = AXES - 1; axis >= 0; --axis) {
        const BatchAxis& x = p.batch[axis];
        const i64 position = axis ? i64(index % u64(x.extent)) : i64(index);
        if (axis) index /= u64(x.extent);
        offset.a += position * x.a;
        offset.b += position * x.b;
        offset.c += position * x.c;
        offset.d += position * x.d;
        offset.bias += position * x.bias;
    }
    return offset;
}
