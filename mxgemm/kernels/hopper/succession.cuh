// Launches that follow each other in a stream.  Kernels of this family are launched programmatically: one
// may begin while its predecessor ends, and so waits before it touches memory that the predecessor writes.

__device__ __forceinline__ void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// The successor's blocks may take their places as soon as all blocks have said so; until this kernel has
// ended they wait.  That hides the successor's launch and start.  Only for short work: waiting blocks take
// places unevenly, which costs a long product that is bound by memory more than it gains.
__device__ __forceinline__ void let_successor_begin() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Others say so as their producer ends, if the product is bound by the units, or the sum of its parts comes next: then
// only the launch is hidden, which is 0.3 to 1 % of 30 to 200 us.
template <bool SPLIT> __device__ __forceinline__ bool may_let_successor_begin(i64 m, i64 n) {
    constexpr i64 LEAST = 256;    // rows and columns: with fewer, memory is what rules
    return SPLIT || (m >= LEAST && n >= LEAST);
}
