// A through registers: the ring holds float32 along M as it lies, which the unit cannot read; a consumer loads its
// fragments, rounds them to tf32 and multiplies from registers.  B lies along K, rounded by the copy engine.

// A stage's 64 x 32 elements of A: a thread's words of its four steps along k, float32 as loaded or tf32.
struct Fragments {
    u32 x[4][4];

    // Keeps the registers until here; of steps FIRST and the next one.
    template <int FIRST> __device__ __forceinline__ void hold() const {
#pragma unroll
        for (int i = 0; i < 8; ++i) asm volatile("" ::"r"(x[FIRST + i / 4][i % 4]));
    }
    __device__ __forceinline__ void hold() const {
        hold<0>();
        hold<2>();
    }
};

template <class I> struct RegisterConsumer : Consumer<I> {
    using S = Stage<I>;
    using B = Descriptor<true, S::DEPTH>;
    using Unit = typename I::Unit;
    using Consumer<I>::a;    // this thread's first pair of rows in stage 0
    using Consumer<I>::b;
    using Consumer<I>::ring;
    static constexpr int TOGETHER = 2;    // one for each set of fragments

    __device__ __forceinline__ RegisterConsumer(u32 shared, int group) : Consumer<I>(shared, group) {
        const int row = RowOrder<true>::row(this->thread / 32, this->thread % 32 / 4), k = this->thread % 4;
        a += row / 32 * (32 * ROW_BYTES) + swizzled(k, row % 32 / 4) + row % 4 * 4;
    }
    // The stage AHEAD of the one that the ring stands at, as soon as it is there.  Rows of A along M: a row of 128 bytes is 32 of them
    // at one k.  `right`: four k further.
    template <int AHEAD> __device__ __forceinline__ void load(Fragments& f) const {
        ring.wait_full_ahead(AHEAD);
        const u32 stage = a + ring.stage_ahead(AHEAD) * S::BYTES;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int step = i / 2, right = i % 2;
            u32 &x = f.x[step][2 * right], &y = f.x[step][2 * right + 1];
            asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"((stage ^ (right << 6)) + (8 * step + 4 * right) * ROW_BYTES) : "memory");
        }
    }
    // Steps FIRST and the next one of a stage.
    template <int FIRST> __device__ __forceinline__ static void round(const Fragments& loaded, Fragments& f) {
#pragma unroll
        for (int i = 0; i < 8; ++i) f.x[FIRST + i / 4][i % 4] = rounded_to_tf32(loaded.x[FIRST + i / 4][i % 4]);
    }
    template <int FIRST, class Sum> __device__ __forceinline__ void half(Sum (&sums)[Unit::COUNT], const Fragments& now, u64 from, bool accumulate) const {
#pragma unroll
        for (int step = FIRST; step < FIRST + 2; ++step) Unit::multiply(sums, now.x[step], from + step * B::STEP, step || accumulate);
        wgmma_commit();
    }
    // Multiplies the stage that the ring stands at, which lies rounded in `now`.  A warp cannot go on before the unit has
    // taken its registers, so the next stage, which lies in `loaded`, is rounded between the halves; it goes where the
    // stage before lay, once the unit has read that one.  Then the stage after the next is loaded, if there is one.
    template <bool ACCUMULATE, class Sum>
    __device__ __forceinline__ void multiply(Sum (&sums)[Unit::COUNT], const Fragments& now, Fragments& loaded, Fragments& next,
                                             bool more, int& finished) {
        const u64 from = B::of(b + ring.stage * S::BYTES);
        wgmma_begin();
        half<0>(sums, now, from, ACCUMULATE);
        if constexpr (ACCUMULATE) {
            wgmma_wait<1>();
            next.hold();
            this->release(finished);
        }
        round<0>(loaded, next);
        next.hold<0>();
        wgmma_begin();
        half<2>(sums, now, from, true);
        round<2>(loaded, next);
        finished = ring.stage;
        ring.advance();
        next.hold<2>();    // before `loaded` is loaded anew
        if (more) load<1>(loaded);
    }
    // As Consumer's; `blocks` is even.
    template <class Sum, class Meanwhile> __device__ __forceinline__ void chain(Sum (&sums)[Unit::COUNT], int blocks, const Meanwhile& meanwhile) {
        Fragments loaded, left, right;
        int finished = 0;
        load<0>(loaded);
        round<0>(loaded, left);
        round<2>(loaded, left);
        left.hold();
        load<1>(loaded);
        multiply<false>(sums, left, loaded, right, blocks > TOGETHER, finished);
        meanwhile();
        multiply<true>(sums, right, loaded, left, blocks > TOGETHER, finished);
#pragma unroll 1
        for (int block = TOGETHER; block < blocks; block += TOGETHER) {
            multiply<true>(sums, left, loaded, right, block + TOGETHER < blocks, finished);
            multiply<true>(sums, right, loaded, left, block + TOGETHER < blocks, finished);
        }
        wgmma_wait<0>();
        right.hold();
        settle(sums);
        this->release(finished);
    }
};

template <class I, bool REGISTERS> struct ConsumerChoice { using Type = Consumer<I>; };
template <class I> struct ConsumerChoice<I, true> { using Type = RegisterConsumer<I>; };
template <class I> using ConsumerOf = typename ConsumerChoice<I, I::A_REGISTERS>::Type;
