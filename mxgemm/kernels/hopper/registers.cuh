// A through registers: the ring holds float32 along M as it lies, which the unit cannot read; a consumer loads its
// fragments, rounds them to tf32 and multiplies from registers.  B lies along K, rounded by the copy engine.

// A stage's 64 x 32 elements of A: a thread's words of its four steps along k, float32 as loaded or tf32.
struct Fragments {
    u32 x[4][4];

    // Keeps the registers until here.
    __device__ __forceinline__ void hold() const {
#pragma unroll
        for (int i = 0; i < 16; ++i) asm volatile("" ::"r"(x[i / 4][i % 4]));
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
    // The stage that the ring stands at, as soon as it is there.  Rows of A along M: a row of 128 bytes is 32 of them
    // at one k.  `right`: four k further.
    __device__ __forceinline__ void load(Fragments& f) const {
        this->wait();
        const u32 stage = a + ring.stage * S::BYTES;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int step = i / 2, right = i % 2;
            u32 &x = f.x[step][2 * right], &y = f.x[step][2 * right + 1];
            asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "r"((stage ^ (right << 6)) + (8 * step + 4 * right) * ROW_BYTES) : "memory");
        }
    }
    __device__ __forceinline__ static void round(const Fragments& loaded, Fragments& f) {
#pragma unroll
        for (int i = 0; i < 16; ++i) f.x[i / 4][i % 4] = rounded_to_tf32(loaded.x[i / 4][i % 4]);
        f.hold();    // before `loaded` is loaded anew
    }
    // Begins to multiply the stage that lies in `loaded`, rounded into `now`.  The next stage is loaded first,
    // unless this one is the last: a warp cannot go on before the unit has taken its registers.
    template <class Sum>
    __device__ __forceinline__ void multiply(Sum (&sums)[Unit::COUNT], Fragments& loaded, Fragments& now, bool last, bool accumulate) {
        const u64 from = B::of(b + ring.stage * S::BYTES);
        round(loaded, now);
        ring.advance();
        if (!last) load(loaded);
        wgmma_begin();
#pragma unroll
        for (int step = 0; step < 4; ++step) Unit::multiply(sums, now.x[step], from + step * B::STEP, step || accumulate);
        wgmma_commit();
        wgmma_wait<1>();
    }
    // The next stage; `before` are the fragments of the one that the unit may still be reading.
    template <class Sum>
    __device__ __forceinline__ void next(Sum (&sums)[Unit::COUNT], Fragments& loaded, Fragments& now, const Fragments& before, bool last, int& finished) {
        const int stage = ring.stage;
        multiply(sums, loaded, now, last, true);
        before.hold();
        this->release(finished);
        finished = stage;
    }
    // As Consumer's; `blocks` is even.
    template <class Sum, class Meanwhile> __device__ __forceinline__ void chain(Sum (&sums)[Unit::COUNT], int blocks, const Meanwhile& meanwhile) {
        Fragments loaded, left, right;
        int finished = ring.stage;
        load(loaded);
        multiply(sums, loaded, left, false, false);
        meanwhile();
        next(sums, loaded, right, left, blocks == TOGETHER, finished);
#pragma unroll 1
        for (int block = TOGETHER; block < blocks; block += TOGETHER) {
            next(sums, loaded, left, right, false, finished);
            next(sums, loaded, right, left, block + TOGETHER >= blocks, finished);
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
