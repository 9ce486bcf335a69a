// Blocks that keep in step along k.  Rows of A and columns of B that blocks share come from L2 only while the blocks
// read them at about the same time.  Left alone they drift apart, tile by tile, until each reads them from device
// memory for itself: 16384 x 16384 x 8192 in 16 bits read 8 GB in place of 4.9, whose power the units then lack.  So
// producers count their steps in device memory, and one that is more than a step ahead of the mean waits.  It is a hint
// and no barrier: who has waited long, because blocks are not all on the device at once, paces no more in this launch.

// Of all launches of a kernel: steps of this one, and clusters that have finished it.  Both are 0 where none is under way:
// all that pace have as many clusters, because they fill the device.
struct Paces { u32 steps, finished; };
__device__ Paces paces;

template <int CLUSTER> struct Pace {
    static constexpr int STEP = 4;          // stages
    static constexpr int TRIES = 32;        // about 25 us
    static constexpr int LEAST_ENTRIES = 128 * 128;             // of a tile: narrow ones are for products of few rows
    static constexpr u32 LEAST_STAGES = 32, LEAST_TILES = 4;    // of a tile and of a block: less has no time to drift
    const u32 clusters = gridDim.x / CLUSTER;
    const u32 whole;            // tiles that every cluster has
    u32 tile = 0, own = 0;      // this cluster's tiles and steps
    u32 all = 0;                // everybody's steps, as last seen
    bool waits = true;

    template <class Tiles> __device__ __forceinline__ static bool pays(const Tiles& tiles, int stages) {
        return u32(stages) >= LEAST_STAGES && tiles.most() >= LEAST_TILES;
    }
    __device__ __forceinline__ Pace(u32 tiles) : whole(tiles / clusters) {}

    __device__ __forceinline__ void next_tile() { waits = waits && tile++ < whole; }    // the last ones are not everybody's
    // Before stage `stage` of a tile.  The count is read a step before it is needed.
    __device__ __forceinline__ void step(int stage) {
        if (stage % STEP != STEP - 1) return;
        for (int tries = 0; waits && i32(own * clusters - all) > i32(clusters); ++tries) {
            all = seen();
            waits = tries + 1 < TRIES;
        }
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(&paces.steps) : "memory");
        ++own;
        all = seen();
    }
    // The last cluster to finish leaves the counts as it found them.
    __device__ __forceinline__ void finish() const {
        __threadfence();    // its steps are counted before its end is
        if (atomicInc(&paces.finished, clusters - 1) != clusters - 1) return;
        __threadfence();
        atomicExch(&paces.steps, 0u);
    }

  private:
    __device__ __forceinline__ static u32 seen() {
        u32 steps;
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(steps) : "l"(&paces.steps) : "memory");
        return steps;
    }
};

struct NoPace {
    __device__ __forceinline__ void next_tile() {}
    __device__ __forceinline__ void step(int) {}
    __device__ __forceinline__ void finish() {}
};
