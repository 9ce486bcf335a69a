// Sizes and places in shared memory: the stages, each a tile of A and a tile of B; the stores' buffers; the barriers.

template <class I> struct Stage {
    static constexpr int DEPTH = ROW_BYTES / int(sizeof(typename I::A));    // elements along k
    // Panels of operands whose rows run along m or n are 64 wide; the last may be partly unused.
    static constexpr int B_EXTENT = I::B_K_MAJOR ? I::BN : (I::BN + 63) / 64 * 64;
    static constexpr int A_BYTES = I::BM * ROW_BYTES, B_BYTES = B_EXTENT * ROW_BYTES;
    static constexpr int BYTES = A_BYTES + B_BYTES;
    static constexpr int STORE_FIRST = I::STAGES * BYTES;
    static constexpr int STORE_BYTES = 64 * ROW_BYTES;                      // one buffer: 64 rows of 128 bytes
    static constexpr int CONSUMERS = I::BM / 64;
    static constexpr int BARRIERS = STORE_FIRST + CONSUMERS * I::BUFFERS * STORE_BYTES;
    using Ring_ = Ring<I::STAGES>;
};
