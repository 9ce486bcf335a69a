// Sizes and places in shared memory: the stages, each a tile of A and a tile of B; the stores' buffers; the
// epilogue's terms; the barriers.

// A block's 64 rows of D (and C) by what one buffer holds: 64 rows of 128 bytes.  The last chunk may be
// narrower: it has a map of its own and rows of TAIL_BYTES, not swizzled.  Where D lies along its rows (TURNED),
// a buffer has a line of 128 bytes for each column: 64 rows of D of 16 bits, or PARTS times 32 of 32 bits.
template <class I> struct Chunks {
    using D = typename I::Epilogue::DType;
    static constexpr int COLUMNS = ROW_BYTES / int(sizeof(D)), COUNT = (I::BN + COLUMNS - 1) / COLUMNS;
    static constexpr int TAIL_BYTES = I::BN % COLUMNS * int(sizeof(D));
    static constexpr bool TURNED = I::BULK_STORE && I::D_TURNED;
    static constexpr int PART_ROWS = COLUMNS, PARTS = 64 / PART_ROWS, PART_BYTES = COLUMNS * ROW_BYTES;
    static constexpr int REUSED = COUNT > I::BUFFERS ? COUNT - I::BUFFERS : 0;    // first chunks, whose buffers later ones take
    static_assert(!TURNED || sizeof(D) == 4 || (sizeof(D) == 2 && !I::A_REGISTERS));    // whole rows of a matrix
    static_assert(TAIL_BYTES % (2 * PIECE_BYTES) == 0 || sizeof(D) != 2);

    __device__ __forceinline__ static constexpr bool is_tail(int chunk) { return TAIL_BYTES != 0 && chunk + 1 == COUNT; }
    __device__ __forceinline__ static constexpr u32 bytes(int chunk) { return is_tail(chunk) ? TAIL_BYTES : ROW_BYTES; }
};

template <class I> struct Stage {
    static constexpr int DEPTH = ROW_BYTES / int(sizeof(typename I::A));    // elements along k
    // Operands whose rows run along m or n lie in panels; the last may be partly unused.
    static constexpr int PANEL = DEPTH;
    static constexpr int B_EXTENT = I::B_K_MAJOR ? I::BN : (I::BN + PANEL - 1) / PANEL * PANEL;
    static constexpr int A_BYTES = I::BM * ROW_BYTES, B_BYTES = B_EXTENT * ROW_BYTES;
    static constexpr int BYTES = A_BYTES + B_BYTES;
    static constexpr int STORE_FIRST = I::STAGES * BYTES;
    static constexpr int STORE_BYTES = 64 * ROW_BYTES;                      // one buffer
    static constexpr int CONSUMERS = I::BM / CONSUMER_ROWS<I>;
    static constexpr int TERMS = STORE_FIRST + CONSUMERS * I::BUFFERS * STORE_BYTES;
    static constexpr int BARRIERS = TERMS + Terms<I>::BYTES + 16, HANDOVER = BARRIERS + 16 * I::STAGES;
    using Ring_ = Ring<I::STAGES>;

    // Of one consumer, from the start of the shared memory.
    __device__ __forceinline__ static u32 buffers(int rows) { return STORE_FIRST + rows * I::BUFFERS * STORE_BYTES; }
    __device__ __forceinline__ static u32 handover(int rows) { return HANDOVER + rows * 16 * I::BUFFERS; }
};
