// Element types.  NVRTC gets no header, so the fixed-width names are our own.

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

template <class T> constexpr bool is_float = false;
template <> constexpr bool is_float<float> = true;
template <> constexpr bool is_float<double> = true;

template <class T> constexpr bool is_unsigned = T(-1) > T(0);
template <> constexpr bool is_unsigned<float> = false;
template <> constexpr bool is_unsigned<double> = false;

template <class T> __device__ __forceinline__ T least(T a, T b) { return b < a ? b : a; }
