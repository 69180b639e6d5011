// The words kernels are written in: threads of a block, barriers, shuffles, tensor-core products.
//
// Why not CUDA's own: no build machine has a GPU, and a kernel nobody ran is a kernel with faults.
// Behind this header stand two implementations. nvcc gets one-line wrappers of the hardware's
// instructions (simt_device.hpp). g++ gets an emulator that runs every thread of a block as a fiber
// on the CPU (tests/gpu/emulator), so that the same kernel file is tested on any machine, against
// the same reference as the host back end, in shuffled thread orders and under the sanitizers.
//
// What a kernel may use
//   thread_index(), block_threads(), lane(), warp_index(), block_index[_y,_z](), grid_blocks()
//   shared_memory<T>(): the block's dynamic shared memory, on 1,024 bytes; there is no other
//   sync_block(), sync_warp(), shuffle(v, lane), shuffle_xor(v, mask): by all lanes of a warp
//   copy_async_16(to_shared, from_global, valid), copy_async_commit(), copy_async_wait<N>()
//   load_matrices / load_matrices_transposed (ldmatrix.x4), multiply_bf16 (mma.m16n8k16)
//   the products of a group of four warps (wgmma), on Hopper alone: below
//   bf16, to_float(), to_bf16(), pack_bf16(); pack<T, N> for 16-byte loads;
//     exp2_fast(), reciprocal_fast()
//   launch(kernel, grid, block, shared_bytes, stream, arguments...)
//   SIMT_ASSERT(condition): checked in debug builds and always in the emulator
//   SIMT_UNROLL before a loop that must be unrolled (register arrays), SIMT_BLOCK(threads, blocks)
//   between __global__ and the name: registers for that many blocks at once on a multiprocessor
//
// Products of a group (threads 128 g to 128 g + 127). Warp w of it has rows 16 w to 16 w + 15 of a
// product of 64 rows; where a lane's elements of d and a are is what multiply_bf16 says of 16 rows.
// Right operands lie in shared memory in panels of 128 bytes a row, each row's eight pieces of 16
// bytes swapped by the row's number (piece p of row r at p ^ r % 8), panels on 1,024 bytes.
//   operand_of(panel, leading, stride): a matrix whose eights of rows are `stride` bytes apart;
//     `leading`: bytes from a panel to the next, where the panels' columns are the product's
//   group_multiply<N>(d, a, b, fresh)    d[64,N] (+)= a[64,16] b[N,16]^T, both in shared memory
//   group_multiply_add<N>(d, a, b)       d[64,N] += a[64,16] b[16,N], a in registers
//   group_products_begin(registers...): before the first, and after d or a were written, which are
//     named here
//   group_products_commit(), group_products_wait<K>(registers...): until at most K of the youngest
//     groups are under way; before that nobody touches their d, their a or their panels. The d that
//     are read next are named here: the compiler knows of no other order between them and the wait
//   fence_shared(): what this thread wrote or had copied is there for products after sync_block()
//
// Invariants
//   SIMT-1  Blocks have one dimension, a multiple of 32 threads, at most 1024.
//   SIMT-2  No thread leaves a kernel while others of its warp still shuffle.
#pragma once

#include "gpu/cuda/simt_types.hpp"  // IWYU pragma: export

#if defined(__CUDACC__)
#include "gpu/cuda/simt_device.hpp"  // IWYU pragma: export
#elif defined(TROUPE_SIMT)
#include TROUPE_SIMT
#else
#error "kernels are compiled by nvcc, or for an emulator whose header TROUPE_SIMT names"
#endif

namespace troupe::gpu::cuda {

__device__ __forceinline__ float to_float(float v) {
  return v;
}
__device__ __forceinline__ float to_float(bf16 v) {
  return bits_to_float(static_cast<uint32_t>(v.bits) << 16);
}

/// Rounds once to T (nearest, ties to even).
template <class T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (sizeof(T) == sizeof(bf16)) {
    return to_bf16(v);
  } else {
    return v;
  }
}

__device__ __forceinline__ int lane() {
  return thread_index() & 31;
}
__device__ __forceinline__ int warp_index() {
  return thread_index() >> 5;
}

/// The sum over the warp, in every lane; the same order every time.
template <class T>
__device__ __forceinline__ T warp_sum(T v) {
  for (int mask = 16; mask > 0; mask >>= 1) v += shuffle_xor(v, mask);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    const float other = shuffle_xor(v, mask);
    v = other > v ? other : v;
  }
  return v;
}

/// The sum over the block, in every thread. `scratch`: one T per warp, in shared memory; free for
/// other use after the next sync_block().
template <class T>
__device__ __forceinline__ T block_sum(T v, T* scratch) {
  v = warp_sum(v);
  if (lane() == 0) scratch[warp_index()] = v;
  sync_block();
  const int warps = block_threads() / 32;
  return warp_sum(lane() < warps ? scratch[lane()] : T{0});
}

}  // namespace troupe::gpu::cuda
