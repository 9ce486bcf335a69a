// Persistent tile order: block (or cluster) i computes tiles i, i + blocks, …; tiles go in groups of
// GROUP rows of tiles so that the tiles in flight share rows of A and columns of B in L2.

struct TilePlace { int row, col, product; };

// Clusters of CLUSTER blocks lie on as many tiles below each other, those of PARTS blocks on one.
template <int BM, int BN, int GROUP, int CLUSTER, int PARTS = 1> struct Scheduler {
    u32 rows, cols, each, total, next, step;

    __device__ __forceinline__ Scheduler(i64 m, i64 n, i64 products) {
        rows = u32((m + BM * CLUSTER - 1) / (BM * CLUSTER));    // a cluster's blocks lie below each other
        cols = u32((n + BN - 1) / BN);
        each = rows * cols;
        total = each * u32(products);
        next = blockIdx.x / (CLUSTER * PARTS);
        step = gridDim.x / (CLUSTER * PARTS);
    }
    // Tiles of the block that has most.
    __device__ __forceinline__ u32 most() const { return (total + step - 1) / step; }
    __device__ __forceinline__ bool more() const { return next < total; }
    __device__ __forceinline__ TilePlace take(u32 rank) {
        const u32 product = next / each, index = next - product * each;
        next += step;
        const u32 band = index / (GROUP * cols), first = band * GROUP;
        const u32 height = least(rows - first, u32(GROUP)), within = index - band * (GROUP * cols);
        const u32 col = within / height, row = first + (within - col * height);
        return {int((row * CLUSTER + rank) * BM), int(col * BN), int(product)};
    }
};
