// How one operand's tile lies in shared memory: rows of one k-block (k_major) or of one
// m- or n-block (mn_major), each padded so that a warp's fragment load meets every bank once.

enum Layout { k_major, mn_major };

// Shared is the stored element; EXTENT the tile's rows (A) or columns (B); DEPTH its extent along k.
template <class Shared, Layout LAYOUT, int EXTENT, int DEPTH> struct SharedLayout {
    static constexpr int SIZE = sizeof(Shared);
    static constexpr int OUTER = LAYOUT == k_major ? EXTENT : DEPTH;
    static constexpr int INNER = LAYOUT == k_major ? DEPTH : EXTENT;
    // ldmatrix reads 16-byte rows (one odd step of 16 bytes); plain loads of 32-bit words along the
    // outer axis need a step of 8 words, 64-bit ones a step of 4.
    static constexpr bool WIDE = SIZE == 8 || (SIZE == 4 && LAYOUT == mn_major);
    static constexpr int ROW_BYTES = INNER * SIZE + (WIDE ? 32 : 16);
    static constexpr int BYTES = OUTER * ROW_BYTES;

    __device__ __forceinline__ static constexpr int at(int position, int depth) {
        return LAYOUT == k_major ? position * ROW_BYTES + depth * SIZE : depth * ROW_BYTES + position * SIZE;
    }
};

// The scalar family's: rows along m or n, 16 bytes of padding between them.
template <class Sum, int EXTENT, int DEPTH> struct ScalarLayout {
    static constexpr int ROW_BYTES = EXTENT * int(sizeof(Sum)) + 16;
    static constexpr int BYTES = DEPTH * ROW_BYTES;

    __device__ __forceinline__ static constexpr int at(int position, int depth) {
        return depth * ROW_BYTES + position * int(sizeof(Sum));
    }
};

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return u32(__cvta_generic_to_shared(pointer));
}
