// arrange 4-byte elements, turned
extern "C" __global__ void __launch_bounds__(256, 3)
mxgemm_arrange_4_0_turned(const void* source, void* target, i64 outer, i64 inner, i64 outer_stride, i64 inner_stride, i64 leading, i64 products) {
    ArrangeArguments p;
    p.source = source;
    p.target = target;
    p.outer = outer;
    p.inner = inner;
    p.outer_stride = outer_stride;
    p.inner_stride = inner_stride;
    p.leading = leading;
    p.products = products;
    wait_for_predecessor();
    Turned<u32, 0>::run(p);
}
