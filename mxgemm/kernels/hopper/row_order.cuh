// Which of its warpgroup's 64 rows a thread's sums stand for: rows row(warp, lane / 4) and STEP below.

template <bool REGISTERS> struct RowOrder {
    static constexpr int STEP = 8;
    __device__ __forceinline__ static int row(int warp, int g) { return 16 * warp + g; }
    // The warp's rows in ascending order.
    __device__ __forceinline__ static int nth(int warp, int i) { return 16 * warp + i; }
};
// With A from registers the order is free.  This one makes a thread's two rows neighbours, so that a load brings
// both, and lets neither the loads of A along M nor the stores of D along M meet a bank twice.
template <> struct RowOrder<true> {
    static constexpr int STEP = 1;
    __device__ __forceinline__ static int row(int warp, int g) {
        return warp / 2 * 32 + (g & 2) * 8 + warp % 2 * 8 + ((g >> 1 ^ g >> 2) & 1) * 4 + (g & 1) * 2;
    }
    __device__ __forceinline__ static int nth(int warp, int i) { return warp / 2 * 32 + i / 8 * 16 + warp % 2 * 8 + i % 8; }
};
