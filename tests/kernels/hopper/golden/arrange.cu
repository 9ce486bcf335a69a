// arrange 2-byte elements, 1 batch axes
extern "C" __global__ void __launch_bounds__(256, 3)
mxgemm_arrange_2_1(const void* source, void* target, i64 outer, i64 inner, i64 outer_stride, i64 inner_stride, i64 leading, i64 products, i64 batch0_extent, i64 batch0_stride) {
    ArrangeArguments p;
    p.source = source;
    p.target = target;
    p.outer = outer;
    p.inner = inner;
    p.outer_stride = outer_stride;
    p.inner_stride = inner_stride;
    p.leading = leading;
    p.products = products;
    p.batch[0].extent = batch0_extent;
    p.batch[0].stride = batch0_stride;
    wait_for_predecessor();
    Along<u16, 1>::run(p);
}
