// wgmma m64n192k16.f16.f16 256x192/3 stages, D along M: A float16 mn_major 16, B float16 mn_major 16, identity -> float16 x8
struct InstanceUnit {
    static constexpr int COUNT = 96;
    __device__ __forceinline__ static void
    multiply(float (&d)[96], u64 a, u64 b, int accumulate) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\nwgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
            "%96, %97, p, 1, 1, 1, 1;\n}"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
            : "l"(a), "l"(b), "r"(accumulate));
    }
};

struct Instance {
    using A = f16;
    using B = f16;
    using Sum = float;
    using Unit = InstanceUnit;
    using Epilogue = ::Epilogue<Identity, f16, Absent, Absent, Absent, f16>;
    using Chains = OneChainOfBlocks<Instance>;
    static constexpr bool A_K_MAJOR = false;
    static constexpr bool B_K_MAJOR = false;
    static constexpr int BM = 256, BN = 192, STAGES = 3;
    static constexpr int CLUSTER = 1, GROUP = 8, ROW_BLOCKS = 2;
    static constexpr int CHAIN_STAGES = 0, BUFFERS = 3;
    static constexpr bool BULK_STORE = true;
    static constexpr bool ROUNDS = false, A_REGISTERS = false;
    static constexpr bool D_TURNED = true;
    static constexpr bool C_PAIRS = false, STAGES_C = false;
    static constexpr bool HOLDS_C = false;
    static constexpr bool SPLIT = false;
    static constexpr int BIAS = ALONG_COLUMNS, LAG = 0;
    static constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
    static constexpr int HELD = 192;
};

extern "C" __global__ void __launch_bounds__(384, 1)
mxgemm_wgmma_934c716a7f18(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_d, const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode) {
    Arguments<float> p;
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
    hopper_gemm<Instance>({address_of(map_a), address_of(map_b), address_of(map_d), 0, 0, 0}, p);
}
