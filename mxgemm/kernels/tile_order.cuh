// Which tile of which product a block computes.  Blocks are numbered linearly over x and y, so
// no axis of the grid limits the batch; tiles go in groups of rows, so that neighbours share B in L2.

struct Tile {
    i64 row, col;       // first row and column of D
    u64 product;        // index in the batch
    bool inside;
};

template <int BM, int BN, int GROUP, bool BATCHED>
__device__ __forceinline__ Tile tile_of_block(i64 m, i64 n, u64 products) {
    const u64 rows = u64(m + BM - 1) / BM, cols = u64(n + BN - 1) / BN, each = rows * cols;
    u64 index = blockIdx.x + u64(blockIdx.y) * gridDim.x;
    Tile tile;
    tile.inside = index < each * products;
    tile.product = BATCHED ? index / each : 0;
    index -= tile.product * each;
    u64 row, col;
    if (each <= 0xFFFFFFFFu) {
        const u32 band = u32(index) / (GROUP * u32(cols)), first = band * GROUP;
        const u32 height = least(u32(rows) - first, u32(GROUP));
        const u32 within = u32(index) - band * (GROUP * u32(cols));
        row = first + within % height;
        col = within / height;
    } else {
        row = index / cols;
        col = index % cols;
    }
    tile.row = i64(row) * BM;
    tile.col = i64(col) * BN;
    return tile;
}
