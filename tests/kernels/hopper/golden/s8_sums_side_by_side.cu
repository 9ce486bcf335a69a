// wgmma m64n128k32.s8.u8 128x128/6 stages: A int8 k_major 16, B uint8 k_major 16, identity -> int32 x4, 1 batch axes
struct InstanceUnit {
    static constexpr int COUNT = 64;
    __device__ __forceinline__ static void
    multiply(int (&d)[64], u64 a, u64 b, int accumulate) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.s32.s8.u8 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
            "%64, %65, p;\n}"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]), "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]), "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]), "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]), "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]), "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]), "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]), "+r"(d[63])
            : "l"(a), "l"(b), "r"(accumulate));
    }
};

struct Instance {
    using A = i8;
    using B = u8;
    using Sum = i32;
    using Unit = InstanceUnit;
    using Epilogue = ::Epilogue<Identity, i32, Absent, Absent, Absent, i32>;
    using Chains = OneChain<Instance>;
    static constexpr bool A_K_MAJOR = true;
    static constexpr bool B_K_MAJOR = true;
    static constexpr int BM = 128, BN = 128, STAGES = 6;
    static constexpr int CLUSTER = 1, GROUP = 16, ROW_BLOCKS = 1;
    static constexpr int CHAIN_STAGES = 0, BUFFERS = 2;
    static constexpr bool BULK_STORE = true;
    static constexpr bool ROUNDS = false, A_REGISTERS = false;
    static constexpr bool D_TURNED = false;
    static constexpr bool C_PAIRS = false, STAGES_C = false;
    static constexpr bool HOLDS_C = false;
    static constexpr bool SPLIT = true;
    static constexpr int BIAS = EACH_ENTRY, LAG = 1;
    static constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
    static constexpr int HELD = 192;
};

extern "C" __global__ void __launch_bounds__(384, 1)
mxgemm_wgmma_5856e7dd6042(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_d, const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, i64 alpha, i64 beta, i64 mode, i64 products, i64 batch0_extent, i64 batch0_a, i64 batch0_b, i64 batch0_c, i64 batch0_d) {
    Arguments<i32> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.m = m;
    p.n = n;
    p.k = k;
    p.a_outer = a_outer;
    p.b_outer = b_outer;
    p.c_row = c_row;
    p.c_col = c_col;
    p.d_row = d_row;
    p.alpha = alpha;
    p.beta = beta;
    p.mode = MODE_PRODUCT;
    p.products = products;
    p.batch[0].extent = batch0_extent;
    p.batch[0].a = batch0_a;
    p.batch[0].b = batch0_b;
    p.batch[0].c = batch0_c;
    p.batch[0].d = batch0_d;
    hopper_gemm<Instance>({address_of(map_a), address_of(map_b), address_of(map_d), 0, 0, 0}, p);
}
