// From P to D: U = rnd(alpha P), scaled; V = rnd(beta C); S = rnd(U + V); S' = rnd(S + bias); activation.
// Every step rounds once in the accumulator's type; an absent term is not added; integers wrap.

template <class T> __device__ __forceinline__ T times(T x, T y) { return T(u32(x) * u32(y)); }
template <class T> __device__ __forceinline__ T plus(T x, T y) { return T(u32(x) + u32(y)); }
template <> __device__ __forceinline__ i64 times(i64 x, i64 y) { return i64(u64(x) * u64(y)); }
template <> __device__ __forceinline__ i64 plus(i64 x, i64 y) { return i64(u64(x) + u64(y)); }
template <> __device__ __forceinline__ u64 times(u64 x, u64 y) { return x * y; }
template <> __device__ __forceinline__ u64 plus(u64 x, u64 y) { return x + y; }
template <> __device__ __forceinline__ float times(float x, float y) { return __fmul_rn(x, y); }
template <> __device__ __forceinline__ float plus(float x, float y) { return __fadd_rn(x, y); }
template <> __device__ __forceinline__ double times(double x, double y) { return __dmul_rn(x, y); }
template <> __device__ __forceinline__ double plus(double x, double y) { return __dadd_rn(x, y); }

// An element type that takes no part.
struct Absent {};

template <class Activation, class C, class Bias, class Rows, class Cols, class D> struct Epilogue {
    using CType = C;
    using DType = D;

    template <class T, class X> __device__ __forceinline__ static T read(const void* base, i64 index) {
        return To<T>::from(static_cast<const X*>(base)[index]);
    }
    // One entry: p of the product, c of C (already in the accumulator's type).
    template <class T>
    __device__ __forceinline__ static T apply(const Arguments<T>& x, i64 bias_first, T p, T c, i64 row, i64 col) {
        T s = 0;
        bool present = x.mode & MODE_PRODUCT;
        if (present) {
            s = times(x.alpha, p);
            if constexpr (!same<Rows, Absent>) s = times(s, read<T, Rows>(x.scale_rows, row * x.scale_row));
            if constexpr (!same<Cols, Absent>) s = times(s, read<T, Cols>(x.scale_cols, col * x.scale_col));
        }
        if (x.mode & MODE_C) {
            const T v = times(x.beta, c);
            s = present ? plus(s, v) : v;
            present = true;
        }
        if constexpr (!same<Bias, Absent>) {
            const T bias = read<T, Bias>(x.bias, bias_first + row * x.bias_row + col * x.bias_col);
            s = present ? plus(s, bias) : bias;
        }
        return Activation::apply(s, x.low, x.high);
    }
};
