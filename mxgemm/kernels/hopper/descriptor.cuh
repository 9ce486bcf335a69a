// Shared memory as wgmma sees it: rows of 128 bytes in atoms of 8 rows, 16-byte pieces swizzled by the row.
// A row runs along k (K-major), or along m or n (which the unit reads of 16-bit types only): then the rows of one
// stage's k, 128 bytes wide, are a panel, and panels lie one after the other.

constexpr int PIECE_BYTES = 16, ROW_BYTES = 128, ATOM_BYTES = 8 * ROW_BYTES;

// Operands of one wgmma in a stage DEPTH deep along k.
template <bool K_MAJOR, int DEPTH> struct Descriptor {
    // From one row of 8-row atoms to the next; for a row along m or n, from one 64-wide panel to the next.
    static constexpr u32 LEADING = K_MAJOR ? 1 : DEPTH * ROW_BYTES / 16;
    static constexpr u64 FIXED = u64(1) << 62 | u64(ATOM_BYTES / 16) << 32 | u64(LEADING) << 16;
    // One instruction's 32 bytes along k, or its 16 rows of k.
    static constexpr u32 STEP = K_MAJOR ? 32 / 16 : 16 * ROW_BYTES / 16;
    static constexpr int PANEL_BYTES = 64 * ROW_BYTES;
    static constexpr u32 BLOCK = PANEL_BYTES / 16;    // from one block of 64 rows to the next

    __device__ __forceinline__ static u64 of(u32 address) { return FIXED | u64((address & 0x3FFFF) >> 4); }
};

// Where 16-byte piece `piece` of row `row` lies.
__device__ __forceinline__ u32 swizzled(u32 row, u32 piece) { return row * ROW_BYTES + ((piece ^ (row & 7)) << 4); }
