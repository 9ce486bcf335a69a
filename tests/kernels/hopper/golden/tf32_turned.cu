// wgmma m64n16k8.tf32.tf32 64x16/16 stages, D along M: A float32 k_major 16, B float32 k_major 16, identity -> float32 x4, 1 batch axes
struct InstanceUnit {
    static constexpr int COUNT = 8;
    __device__ __forceinline__ static void
    multiply(float (&d)[8], u64 a, u64 b, int accumulate) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\nwgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32 "
            "{%0, %1, %2, %3, %4, %5, %6, %7}, "
            "%8, %9, p, 1, 1;\n}"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
            : "l"(a), "l"(b), "r"(accumulate));
    }
};

struct Instance {
    using A = float;
    using B = float;
    using Sum = float;
    using Unit = InstanceUnit;
    using Epilogue = ::Epilogue<Identity, float, Absent, Absent, Absent, float>;
    using Chains = OneChain<Instance>;
    static constexpr bool A_K_MAJOR = true;
    static constexpr bool B_K_MAJOR = true;
    static constexpr int BM = 64, BN = 16, STAGES = 16;
    static constexpr int CLUSTER = 1, GROUP = 16, ROW_BLOCKS = 1;
    static constexpr int CHAIN_STAGES = 0, BUFFERS = 1;
    static constexpr bool BULK_STORE = true;
    static constexpr bool ROUNDS = true, A_REGISTERS = false;
    static constexpr bool D_TURNED = true;
    static constexpr bool C_PAIRS = false, STAGES_C = false;
    static constexpr bool HOLDS_C = false;
    static constexpr bool SPLIT = false;
    static constexpr int BIAS = ALONG_COLUMNS, LAG = 0;
    static constexpr int PRODUCER_REGISTERS = 0, CONSUMER_REGISTERS = 0;
    static constexpr int HELD = 192;
};

extern "C" __global__ void __launch_bounds__(256, 1)
mxgemm_wgmma_0f82a689198e(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_d, const __grid_constant__ TensorMap map_d_tail, const void* a, const void* b, const void* c, void* d, u32* flags, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode, i64 products, i64 batch0_extent, i64 batch0_a, i64 batch0_b, i64 batch0_c, i64 batch0_d) {
    Arguments<float> p;
    p.a = a;
    p.b = b;
    p.c = c;
    p.d = d;
    p.flags = flags;
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
    hopper_gemm<Instance>({address_of(map_a), address_of(map_b), address_of(map_d), address_of(map_d_tail), 0, 0}, p);
}
