// The ring of stages between the producer and the consumers: full[s] completes when stage s holds its
// operands, and empty[s] when every consumer of every block that the copies reach has read it.

template <int STAGES> struct Ring {
    u32 full, empty;    // addresses of the first barrier of each kind
    int stage = 0;
    u32 phase = 0;

    __device__ __forceinline__ Ring(u32 barriers) : full(barriers), empty(barriers + 8 * STAGES) {}

    __device__ __forceinline__ static void init(u32 barriers, u32 consumers) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(barriers + 8 * s, 1);
            barrier_init(barriers + 8 * (STAGES + s), consumers);
        }
    }
    __device__ __forceinline__ u32 full_barrier() const { return full + 8 * stage; }
    __device__ __forceinline__ void wait_full() const { barrier_wait(full + 8 * stage, phase); }
    __device__ __forceinline__ int stage_ahead(int stages) const { return stage + stages - (stage + stages >= STAGES ? STAGES : 0); }
    __device__ __forceinline__ void wait_full_ahead(int stages) const {
        barrier_wait(full + 8 * stage_ahead(stages), phase ^ u32(stage + stages >= STAGES));
    }
    // A fresh barrier counts as a completed phase of parity 1, so the first round passes.
    __device__ __forceinline__ void wait_empty() const { barrier_wait(empty + 8 * stage, phase ^ 1); }
    // One thread a warpgroup; with a cluster, thread r tells block r.
    template <int CLUSTER> __device__ __forceinline__ void release(int finished, int thread) const {
        if constexpr (CLUSTER == 1) {
            if (thread == 0) barrier_arrive(empty + 8 * finished);
        } else {
            if (thread < CLUSTER) barrier_arrive_remote(empty + 8 * finished, u32(thread));
        }
    }
    __device__ __forceinline__ void advance() {
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
};
