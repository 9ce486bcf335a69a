// What the epilogue reads besides sums and C: bias and scales of a tile's columns and rows.  A warp of the
// producer's group fetches them into shared memory, as the accumulator's type, while the tile is multiplied.

constexpr int ALONG_COLUMNS = 0, ALONG_ROWS = 1, EACH_ENTRY = 2;    // how a bias varies

template <class X, class T> struct InRegister { using Type = T; };
template <class T> struct InRegister<Absent, T> { using Type = Absent; };

// The epilogue of one entry whose terms have been read: Epilogue::apply on them, in its order of roundings,
// in two steps: what comes before the activation, and the activation.
template <class E> struct Fetched;
template <class Activation, class C, class Bias_, class Rows_, class Columns_, class D>
struct Fetched<Epilogue<Activation, C, Bias_, Rows_, Columns_, D>> {
    // Whether an entry takes so many instructions that a tile's are not all written out.
    static constexpr bool LONG = !(same<Activation, Identity> || same<Activation, Relu> || same<Activation, Clamp>) ||
                                 same<D, e4m3> || same<D, e5m2>;
    using Bias = Bias_;
    using Rows = Rows_;
    using Columns = Columns_;

    template <class T> __device__ __forceinline__ static T activated(const Arguments<T>& p, T x) {
        return Activation::apply(x, p.low, p.high);
    }
    // Where beta C is exact (FUSED), one instruction multiplies and adds it, and rounds as the second of two would.
    template <bool FUSED, class T>
    __device__ __forceinline__ static T before(const Arguments<T>& p, T sum, T c, T bias, T row, T column) {
        if constexpr (FUSED) {
            const T added = fmaf(p.beta, c, applied<Absent>(p, MODE_PRODUCT, sum, c, bias, row, column));
            if constexpr (same<Bias, Absent>) return added;
            else return plus(added, bias);
        } else {
            return applied<Bias>(p, p.mode, sum, c, bias, row, column);
        }
    }

  private:
    template <class B, class T>
    __device__ __forceinline__ static T applied(const Arguments<T>& p, int mode, T sum, T c, T bias, T row, T column) {
        using E = Epilogue<Identity, C, typename InRegister<B, T>::Type, typename InRegister<Rows, T>::Type,
                           typename InRegister<Columns, T>::Type, D>;
        Arguments<T> one;
        one.mode = mode;
        one.alpha = p.alpha;
        one.beta = p.beta;
        one.bias = &bias;
        one.scale_rows = &row;
        one.scale_cols = &column;
        return E::apply(one, 0, sum, c, 0, 0);
    }
};

// What two neighbouring columns have.
template <class T> struct Pair { T x, y; };

template <class T> __device__ __forceinline__ void put_shared(u32 address, T x) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(*reinterpret_cast<u32*>(&x)) : "memory");
}
template <class T> __device__ __forceinline__ T get_shared(u32 address) {
    u32 word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return *reinterpret_cast<T*>(&word);
}
template <class T> __device__ __forceinline__ Pair<T> get_shared_pair(u32 address) {
    u32 word[2];
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(word[0]), "=r"(word[1]) : "r"(address) : "memory");
    return {*reinterpret_cast<T*>(&word[0]), *reinterpret_cast<T*>(&word[1])};
}

template <class I> struct Terms {
    using F = Fetched<typename I::Epilogue>;
    using T = typename I::Sum;
    static_assert(sizeof(T) == 4);
    static constexpr bool HAS_BIAS = !same<typename F::Bias, Absent> && I::BIAS != EACH_ENTRY;
    // A bias read entry by entry, beside which ptxas has no registers for anything more.
    static constexpr bool BIAS_BY_ENTRY = !same<typename F::Bias, Absent> && I::BIAS == EACH_ENTRY;
    static constexpr int BIAS = !HAS_BIAS ? 0 : I::BIAS == ALONG_COLUMNS ? I::BN : I::BM;
    static constexpr int ROWS = same<typename F::Rows, Absent> ? 0 : I::BM;
    static constexpr int COLUMNS = same<typename F::Columns, Absent> ? 0 : I::BN;
    static constexpr int BYTES = (BIAS + ROWS + COLUMNS) * int(sizeof(T));
    static constexpr int CONSUMERS = I::BM / CONSUMER_ROWS<I>;

    u32 values;    // bias, then rows, then columns, then the barriers

    __device__ __forceinline__ u32 full() const { return values + BYTES; }
    __device__ __forceinline__ u32 empty() const { return values + BYTES + 8; }
    __device__ __forceinline__ void init() const {
        barrier_init(full(), 32);    // each thread arrives for what it has written or read
        barrier_init(empty(), 128 * CONSUMERS);
    }
    __device__ __forceinline__ u32 rows() const { return values + BIAS * 4; }
    __device__ __forceinline__ u32 columns() const { return values + (BIAS + ROWS) * 4; }

    // Entries [first, first + COUNT) of a vector of `extent`, whose last one stands for those past it.
    template <class X, int COUNT>
    __device__ __forceinline__ static void fetch(u32 target, const void* vector, i64 start, i64 step, int first, i64 extent) {
        const X* from = static_cast<const X*>(vector) + start;
#pragma unroll 4
        for (int i = int(threadIdx.x) % 32; i < COUNT; i += 32)
            put_shared(target + 4 * i, To<T>::from(from[least(i64(first + i), extent - 1) * step]));
    }
    // The whole warp, for the block's tile number `count`.
    __device__ __forceinline__ void fetch(const Arguments<T>& p, const TilePlace& tile, u32 count) const {
        barrier_wait(empty(), (count & 1) ^ 1);
        if constexpr (BIAS > 0) {
            const i64 start = tile.product * p.batch[0].bias;
            if constexpr (I::BIAS == ALONG_COLUMNS) fetch<typename F::Bias, BIAS>(values, p.bias, start, p.bias_col, tile.col, p.n);
            else fetch<typename F::Bias, BIAS>(values, p.bias, start, p.bias_row, tile.row, p.m);
        }
        if constexpr (ROWS > 0) fetch<typename F::Rows, ROWS>(rows(), p.scale_rows, 0, p.scale_row, tile.row, p.m);
        if constexpr (COLUMNS > 0) fetch<typename F::Columns, COLUMNS>(columns(), p.scale_cols, 0, p.scale_col, tile.col, p.n);
        barrier_arrive(full());
    }
    __device__ __forceinline__ void wait(u32 count) const {
        if constexpr (BYTES > 0) barrier_wait(full(), count & 1);
    }
    __device__ __forceinline__ void release() const {
        if constexpr (BYTES > 0) barrier_arrive(empty());
    }
};
