// Chains along k.  At each chain's end the unit's sum is added, to nearest, to the master sum and
// starts again from +0.  A k within one chain has no master: its only chain is the result.

template <class Accumulator, int COUNT, bool CHAINED> struct ChainedSum {
    Accumulator unit[COUNT][4];
    Accumulator master[CHAINED ? COUNT : 1][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                unit[i][e] = 0;
                if constexpr (CHAINED) master[i][e] = 0;
            }
    }
    __device__ __forceinline__ void end_chain() {
        if constexpr (CHAINED) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    master[i][e] = __fadd_rn(master[i][e], unit[i][e]);
                    unit[i][e] = 0;
                }
        }
    }
    __device__ __forceinline__ Accumulator value(int i, int e) const {
        if constexpr (CHAINED) return master[i][e];
        else return unit[i][e];
    }
};
