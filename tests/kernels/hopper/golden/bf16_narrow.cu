// wgmma m64n16k16.bf16.bf16 64x16/16 stages: A bfloat16 mn_major 16, B bfloat16 k_major 16, identity -> bfloat16 x8
struct InstanceUnit {
    static constexpr int COUNT = 8;
    __device__ __forceinline__ static void
    multiply(float (&d)[8], u64 a, u64 b, int accumulate) {
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\nwgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
            "{%0, %1, %2, %3, %4, %5, %6, %7}, "
            "%8, %9, p, 1, 1, 1, 0;\n}"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
            : "l"(a), "l"(b), "r"(accumulate));
    }
};

struct Instance {
    using A = bf16;
    using B = bf16;
    using Sum = float;
    using Unit = InstanceUnit;
    using Epilogue = ::Epilogue<Identity, bf16, Absent, Absent, Absent, bf16>;
    using Chains = OneChain<Instance>;
    static constexpr bool A_K_MAJOR = false;
    static constexpr bool B_K_MAJOR = true;
    static constexpr int BM = 64, BN = 16, STAGES = 16;
    static constexpr int CLUSTER = 1, GROUP = 16, ROW_BLOCKS = 1;
    static constexpr int CHAIN_STAGES = 0, BUFFERS = 1;
    static constexpr bool BULK_STORE = true;
    static constexpr bool ROUNDS = false, A_REGISTERS = false;
    static constexpr bool D_TURNED = false;
    static constexpr bool C_PAIRS = false, STAGES_C = false;
    static constexpr bool HOLDS_C = false;
    static constexpr bool SPLIT = false;
    static constexpr int BIAS = ALONG_COLUMNS, LAG = 0;
    static constexpr int PRODUCER_REGISTERS = 0, CONSUMER_REGISTERS = 0;
    static constexpr int HELD = 192;
};

extern "C" __global__ void __launch_bounds__(256, 1)
mxgemm_wgmma_deb98a4b4eab(const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_d, const __grid_constant__ TensorMap map_d_tail, const void* a, const void* b, const void* c, void* d, i64 m, i64 n, i64 k, i64 a_outer, i64 b_outer, i64 c_row, i64 c_col, i64 d_row, double alpha, double beta, i64 mode) {
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
    hopper_gemm<Instance>({address_of(map_a), address_of(map_b), address_of(map_d), address_of(map_d_tail), 0, 0}, p);
}
