// The loop along k that every family runs: a ring of shared-memory stages filled ahead of the products,
// fragments of the next step loaded while this step's are multiplied, copies spread over the steps.

// Both operands' copies.  `begin` starts those that need no registers; `finish` stores what `fetch` loaded.
// PadA writes what has to stand in A past the edge along k where that is not +0.
struct NoPad {
    __device__ __forceinline__ static void write(u32, int) {}
};
template <class CopyA, class CopyB, class PadA, int A_BYTES, int DEPTH, int STAGES> struct TileCopies {
    static constexpr bool ASYNC = CopyA::ASYNC || CopyB::ASYNC;
    static constexpr bool THROUGH_REGISTERS = !(CopyA::ASYNC && CopyB::ASYNC);
    CopyA a;
    CopyB b;

    // In all of these, depth_left: elements along k from the first of the tile that the stage receives.
    // Tiles past the last are copied too: as zeros, into stages that nobody reads.
    __device__ __forceinline__ void begin(u32 stage, i64 depth_left, int part, int parts) {
        if constexpr (ASYNC) {
            const int inside = int(least(depth_left, i64(DEPTH)));
            a.begin(stage, inside, part, parts);
            b.begin(stage + A_BYTES, inside, part, parts);
            if (part == parts - 1) commit_copies();
        }
    }
    __device__ __forceinline__ void fetch(i64 depth_left) {
        if constexpr (THROUGH_REGISTERS) {
            const int inside = int(least(depth_left, i64(DEPTH)));
            a.fetch(inside, 0, 1);
            b.fetch(inside, 0, 1);
        }
    }
    __device__ __forceinline__ void finish(u32 stage, i64 depth_left, int part, int parts) {
        if constexpr (THROUGH_REGISTERS) {
            // Up to the tile behind, whose loads follow.
            const int inside = int(least(depth_left, i64(2 * DEPTH)));
            a.finish(stage, inside, part, parts);
            b.finish(stage + A_BYTES, inside, part, parts);
        }
    }
    // Until the stage is there.
    __device__ __forceinline__ static void wait(u32 stage, i64 depth_left) {
        if constexpr (ASYNC) wait_for_copies<STAGES - 2>();
        __syncthreads();
        if constexpr (!same<PadA, NoPad>) {
            if (depth_left <= 0 || depth_left >= DEPTH) return;
            PadA::write(stage, int(depth_left));
            __syncthreads();
        }
    }
    __device__ __forceinline__ static void drain() {
        if constexpr (ASYNC) wait_for_copies<0>();
        __syncthreads();
    }
};

// Work: load(stage, step, buffer) reads a step's fragments, multiply(buffer) uses them, end_tile() follows
// a stage's last step.  BUFFERS: 2 to read fragments a step ahead, 1 to leave their latency to other warps.
// BEGIN_STEPS: the steps that copies without registers spread over.
template <int STAGES, int STAGE_BYTES, int DEPTH, int STEPS, int BEGIN_STEPS, int BUFFERS, class Copies, class Work>
__device__ __forceinline__ void run_pipeline(Copies& copies, Work& work, u32 shared, i64 k) {
    static_assert(BEGIN_STEPS < STEPS, "a stage's copies are under way before the wait in its last step");
    static_assert(STEPS % BUFFERS == 0, "fragment buffers alternate over the steps of a stage");
    constexpr u32 LAST = (STAGES - 1) * STAGE_BYTES;
    copies.fetch(k);
#pragma unroll 1
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        copies.begin(shared + stage * STAGE_BYTES, k - stage * DEPTH, 0, 1);
        copies.finish(shared + stage * STAGE_BYTES, k - stage * DEPTH, 0, 1);
    }
    copies.wait(shared, k);
    if constexpr (BUFFERS == 2) work.load(shared, 0, 0);
    u32 read = 0, write = LAST;
#pragma unroll 1
    for (i64 left = k; left > 0; left -= DEPTH) {
        const i64 ahead = left - (STAGES - 1) * DEPTH;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            copies.finish(shared + write, ahead, step, STEPS);
            if constexpr (BUFFERS == 1) work.load(shared + read, step, 0);
            if (step == STEPS - 1) {
                read = read == LAST ? 0 : read + STAGE_BYTES;
                copies.wait(shared + read, left - DEPTH);
            }
            if constexpr (BUFFERS == 2) work.load(shared + read, (step + 1) % STEPS, (step + 1) % 2);
            if (step < BEGIN_STEPS) copies.begin(shared + write, ahead, step, BEGIN_STEPS);
            work.multiply(step % BUFFERS);
        }
        write = write == LAST ? 0 : write + STAGE_BYTES;
        work.end_tile();
    }
    copies.drain();
}
