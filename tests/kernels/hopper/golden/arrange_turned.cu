// arrange 4-byte elements, turned, rounded to tf32
extern "C" __global__ void __launch_bounds__(256, 3)
mxgemm_arrange_4_0_turned_rounded(const void* source, void* target, u32* flags, i64 outer, i64 inner, i64 outer_stride, i64 inner_stride, i64 leading, i64 products) {
    ArrangeArguments p;
    p.source = source;
    p.target = target;
    p.flags = flags;
    p.outer = outer;
    p.inner = inner;
    p.outer_stride = outer_stride;
    p.inner_stride = inner_stride;
    p.leading = leading;
    p.products = products;
    Turned<u32, 0, true>::run(p);
}
