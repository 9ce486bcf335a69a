// A consumer's rows of a tile: ROW_BLOCKS blocks of 64, each with sums and an epilogue of its own.  Two need all
// registers for their sums; in return a tile of 256 rows moves few operands, and has no more consumers.

template <class I> constexpr int CONSUMER_ROWS = 64 * I::ROW_BLOCKS;

// The sums of a block; those of a consumer with one block have no index for it.
template <class Sum, int COUNT> __device__ __forceinline__ Sum (&of_block(Sum (&sums)[COUNT], int))[COUNT] { return sums; }
template <class Sum, int BLOCKS, int COUNT> __device__ __forceinline__ Sum (&of_block(Sum (&sums)[BLOCKS][COUNT], int block))[COUNT] { return sums[block]; }

// The tile as its block's epilogue sees it: from the block's first row on.
__device__ __forceinline__ TilePlace from_block(const TilePlace& tile, int block) { return {tile.row + 64 * block, tile.col, tile.product}; }

// Tiles as the sequence of their blocks.
template <int ROW_BLOCKS, class Tiles> struct BlocksOf {
    Tiles tiles;
    TilePlace tile = {};
    int block = ROW_BLOCKS - 1;

    __device__ __forceinline__ bool more() const { return block + 1 < ROW_BLOCKS || tiles.more(); }
    __device__ __forceinline__ TilePlace take(u32 rank) {
        block = block + 1 < ROW_BLOCKS ? block + 1 : 0;
        if (block == 0) tile = tiles.take(rank);
        return from_block(tile, block);
    }
};
template <class Tiles> struct BlocksOf<1, Tiles> : Tiles {
    __device__ __forceinline__ BlocksOf(const Tiles& tiles) : Tiles(tiles) {}
};
