// What stays in L2.  Wave after wave reads the same band of rows of A, beside ever new columns of B, and writes D.
// Where the band fits L2 beside them, B, C and D are marked as the first to give way, so that it is still there for
// the next wave: 0.4 to 1 % of the time at K of 4096 in 16 bits.  A longer band would be gone in any case, and beside a
// short K there is time for several blocks to drift apart: then B had better stay, which they share (marking it cost up
// to 6 %).  Where all of A is one row of tiles, nobody reads B again, which brought 4 % of 24576 x 256 x 2048; but with
// so few rows that memory rules, it costs 2 %.

template <class I> struct Residency {
    // Narrower tiles wait for every instruction; and three consumers leave the producer no register for it.
    static constexpr bool HINTS = I::BM * I::BN >= 128 * 128 && Stage<I>::CONSUMERS <= 2 && !Terms<I>::BIAS_BY_ENTRY;
    static constexpr i64 ROWS = I::GROUP * I::CLUSTER * I::BM, FITS = 20 << 20;    // of a band; bytes
    static constexpr i64 LEAST_K = 3072 * sizeof(typename I::Epilogue::DType) / sizeof(typename I::A);
    static constexpr i64 MEMORY_RULES = 128, ONCE = I::CLUSTER * I::BM;            // rows of A at most

    template <class T> __device__ __forceinline__ static bool passes(const Arguments<T>& p) {
        if (!HINTS) return false;
        const bool band_stays = p.m >= ROWS && p.k >= LEAST_K && ROWS * p.k * i64(sizeof(typename I::A)) <= FITS;
        const bool b_is_read_once = p.m > MEMORY_RULES && p.m <= ONCE && (p.products == 1 || p.batch[0].b != 0);
        return band_stays || b_is_read_once;
    }
};
