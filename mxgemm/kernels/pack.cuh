// Packing: an operand without a unit stride in either axis is copied into workspace, row after row.
// The axis of the smaller stride becomes the contiguous one, so that neither side is read at random.

struct PackAxis { i64 extent, stride; };

struct PackArguments {
    const void* source = nullptr;
    void* target = nullptr;
    i64 outer = 0, inner = 0, outer_stride = 0, inner_stride = 0;
    u64 products = 1;
    PackAxis batch[4] = {};
};

template <class Element, int BATCH_AXES> __device__ __forceinline__ void pack(const PackArguments& p) {
    constexpr int ROWS = 16, COLUMNS = 128;
    const Tile tile = tile_of_block<ROWS, COLUMNS, 1, (BATCH_AXES > 0)>(p.outer, p.inner, p.products);
    if (!tile.inside) return;
    u64 index = tile.product;
    i64 origin = 0;
#pragma unroll
    for (int axis = BATCH_AXES - 1; axis >= 0; --axis) {
        origin += i64(index % u64(p.batch[axis].extent)) * p.batch[axis].stride;
        index /= u64(p.batch[axis].extent);
    }
    const Element* source = static_cast<const Element*>(p.source) + origin;
    Element* target = static_cast<Element*>(p.target) + i64(tile.product) * p.outer * p.inner;
    const i64 col = tile.col + threadIdx.x % COLUMNS;
    if (col >= p.inner) return;
#pragma unroll 4
    for (int r = threadIdx.x / COLUMNS; r < ROWS; r += 2) {
        const i64 row = tile.row + r;
        if (row < p.outer) target[row * p.inner + col] = source[row * p.outer_stride + col * p.inner_stride];
    }
}
