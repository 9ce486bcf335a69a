// Activations on the accumulator's type.  relu and clamp keep NaN; the smooth ones are evaluated so that
// no step cancels (docs/kernels.md, "Activations"), and take their limit -0 at minus infinity.

struct Identity {
    template <class T> __device__ __forceinline__ static T apply(T x, T, T) { return x; }
};
struct Relu {    // -0 becomes +0
    template <class T> __device__ __forceinline__ static T apply(T x, T, T) { return x <= T(0) ? T(0) : x; }
};
struct Clamp {
    template <class T> __device__ __forceinline__ static T apply(T x, T low, T high) {
        const T raised = x < low ? low : x;
        return raised > high ? high : raised;
    }
};

__device__ __forceinline__ float exponential(float x) { return expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }
__device__ __forceinline__ float scaled_erfc(float x) { return erfcxf(x); }
__device__ __forceinline__ double scaled_erfc(double x) { return erfcx(x); }
__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ bool is_minus_infinity(double x) { return x == -__longlong_as_double(0x7FF0000000000000); }

// x / (1 + exp(-2u)) for u of x's sign; e = exp(-|u|) squared last, so that nothing underflows early.
template <class T> __device__ __forceinline__ T logistic_product(T x, T e) {
    const T denominator = T(1) + e * e;
    return x < T(0) ? x * e * e / denominator : x / denominator;
}

struct Silu {
    template <class T> __device__ __forceinline__ static T apply(T x, T, T) {
        if (is_minus_infinity(x)) return T(-0.0);
        return logistic_product(x, exponential(T(-0.5) * (x < T(0) ? -x : x)));
    }
};
struct GeluTanh {
    template <class T> __device__ __forceinline__ static T apply(T x, T, T) {
        if (is_minus_infinity(x)) return T(-0.0);
        // The exponent in float64, so that float32 results do not inherit its rounding times its size.
        const double wide = x, u = 0.79788456080286536 * (wide + 0.044715 * (wide * wide * wide));
        const double size = u < 0 ? -u : u;
        const T high = T(size);
        const T low = size < 1e9 ? T(size - double(high)) : T(0);
        return logistic_product(x, exponential(-high) * (T(1) - low));
    }
};
struct Gelu {
    template <class T> __device__ __forceinline__ static T apply(T x, T, T) {
        if (x != x || is_minus_infinity(x)) return x != x ? x : T(-0.0);
        // Beyond 64 the tail is 0 or 1; the square's rounding error goes back in.
        const T magnitude = x < T(0) ? -x : x, size = magnitude < T(64) ? magnitude : T(64);
        const T square = size * size, error = fused(size, size, -square);
        const T tail = T(0.5) * exponential(T(-0.5) * square) * (T(1) - T(0.5) * error) *
                       scaled_erfc(size * T(0.70710678118654752));
        return x * (x < T(0) ? tail : T(1) - tail);
    }
};
