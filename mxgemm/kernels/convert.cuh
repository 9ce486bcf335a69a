// Conversions between element types and the accumulator's type, each with one stated rounding.

constexpr u32 FLOAT_INFINITY_BITS = 0x7F800000u;

__device__ __forceinline__ float float_of(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
__device__ __forceinline__ float float_of(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ __forceinline__ float float_of(e5m2 x) { return float_of(f16{u16(x.bits << 8)}); }
__device__ __forceinline__ float float_of(e4m3 x) {
    const u32 sign = u32(x.bits & 0x80) << 24, magnitude = x.bits & 0x7F;
    // Subnormals are multiples of 2^-9; 0x7F is the only NaN, and there is no infinity.
    const float value = magnitude < 8 ? float(magnitude) * 0.001953125f
                                      : __uint_as_float((magnitude << 20) + (120u << 23));
    return __uint_as_float(sign | (magnitude == 0x7F ? 0x7FFFFFFFu : __float_as_uint(value)));
}

// To<T>::from(x): widening and integer wrapping are exact (modulo 2^bits); double to float rounds to nearest.
template <class T> struct To {
    template <class S> __device__ __forceinline__ static T from(S x) { return T(x); }
    __device__ __forceinline__ static T from(f16 x) { return T(float_of(x)); }
    __device__ __forceinline__ static T from(bf16 x) { return T(float_of(x)); }
    __device__ __forceinline__ static T from(e4m3 x) { return T(float_of(x)); }
    __device__ __forceinline__ static T from(e5m2 x) { return T(float_of(x)); }
};

template <> struct To<f16> {
    __device__ __forceinline__ static f16 from(float x) {
        f16 y;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
        return y;
    }
};

template <> struct To<bf16> {
    __device__ __forceinline__ static bf16 from(float x) {
        const u32 bits = __float_as_uint(x);
        if (x != x) return bf16{u16((bits >> 16) | 0x40)};
        return bf16{u16((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
    }
};

// To nearest even in an 8-bit float of MANTISSA bits; beyond LARGEST it saturates and says so.
template <int MANTISSA, int BIAS, u32 LARGEST, u32 NOT_A_NUMBER>
__device__ __forceinline__ u8 saturating_float8(float x, bool& overflow) {
    const u32 bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > FLOAT_INFINITY_BITS) return u8(sign | NOT_A_NUMBER);
    constexpr int DROPPED = 23 - MANTISSA;
    u32 rounded;
    if (magnitude < u32(128 - BIAS) << 23) {
        // The sum's unit in the last place is the format's least subnormal, so the addition rounds.
        constexpr u32 MAGIC = u32(127 + 23 + 1 - BIAS - MANTISSA) << 23;
        rounded = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(MAGIC))) - MAGIC;
    } else {
        const u32 half = (1u << (DROPPED - 1)) - 1u + ((magnitude >> DROPPED) & 1u);
        rounded = ((magnitude + half) >> DROPPED) - (u32(127 - BIAS) << MANTISSA);
    }
    overflow = overflow || rounded > LARGEST;
    return u8(sign | (rounded > LARGEST ? LARGEST : rounded));
}

// Output<T>::from(x, overflow): the epilogue's last step; only 8-bit floats can overflow with a flag.
template <class T> struct Output {
    template <class S> __device__ __forceinline__ static T from(S x, bool&) { return To<T>::from(x); }
};
template <> struct Output<e4m3> {
    __device__ __forceinline__ static e4m3 from(float x, bool& overflow) {
        return e4m3{saturating_float8<3, 7, 0x7E, 0x7F>(x, overflow)};
    }
};
template <> struct Output<e5m2> {
    __device__ __forceinline__ static e5m2 from(float x, bool& overflow) {
        return e5m2{saturating_float8<2, 15, 0x7B, 0x7F>(x, overflow)};
    }
};

// A float32 word for a unit that drops its low 13 bits: to nearest, ties to even.
__device__ __forceinline__ u32 rounded_to_tf32(u32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    u32 y;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
#else
    // The product makes every NaN the canonical one, whose sum wraps below it; every other sum is the larger of
    // the two as a signed word (infinities stay themselves once the low bits are gone).
    u32 canonical;
    asm("mul.rn.f32 %0, %1, 0f3F800000;" : "=r"(canonical) : "r"(x));
    const i32 sum = i32(canonical + 0xFFFu + ((canonical >> 13) & 1u)), word = i32(canonical);
    return u32(sum > word ? sum : word);
#endif
}

// Two float32 operands rounded to nearest even into one word, the first in the low half.
template <class T> __device__ __forceinline__ u32 rounded_pair(float low, float high) {
    return u32(To<T>::from(low).bits) | u32(To<T>::from(high).bits) << 16;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ u32 rounded_pair<f16>(float low, float high) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
template <> __device__ __forceinline__ u32 rounded_pair<bf16>(float low, float high) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
#endif
