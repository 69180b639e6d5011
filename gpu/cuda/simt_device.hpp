// The vocabulary of simt.hpp in the hardware's instructions. Included by simt.hpp under nvcc only.
#pragma once

#include <cuda_bf16.h>

#include <cassert>
#include <utility>

#define SIMT_ASSERT(condition) assert(condition)
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_BLOCK(threads, blocks) __launch_bounds__(threads, blocks)

namespace troupe::gpu::cuda {

__device__ __forceinline__ int thread_index() {
  return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int block_threads() {
  return static_cast<int>(blockDim.x);
}
__device__ __forceinline__ int block_index() {
  return static_cast<int>(blockIdx.x);
}
__device__ __forceinline__ int block_index_y() {
  return static_cast<int>(blockIdx.y);
}
__device__ __forceinline__ int block_index_z() {
  return static_cast<int>(blockIdx.z);
}
__device__ __forceinline__ int grid_blocks() {
  return static_cast<int>(gridDim.x);
}

template <class T>
__device__ __forceinline__ T* shared_memory() {
  extern __shared__ __align__(1024) unsigned char troupe_shared_memory[];
  return reinterpret_cast<T*>(troupe_shared_memory);
}

__device__ __forceinline__ void sync_block() {
  __syncthreads();
}
__device__ __forceinline__ void sync_warp() {
  __syncwarp();
}
template <class T>
__device__ __forceinline__ T shuffle(T v, int from_lane) {
  return __shfl_sync(0xffffffffu, v, from_lane);
}
template <class T>
__device__ __forceinline__ T shuffle_xor(T v, int mask) {
  return __shfl_xor_sync(0xffffffffu, v, mask);
}

__device__ __forceinline__ float bits_to_float(uint32_t bits) {
  return __uint_as_float(bits);
}
__device__ __forceinline__ uint32_t float_to_bits(float v) {
  return __float_as_uint(v);
}
__device__ __forceinline__ bf16 to_bf16(float v) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(v))};
}
/// Two values in one register, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}
/// 2^v, to about 2 ulp; 0 for -infinity.
__device__ __forceinline__ float exp2_fast(float v) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
  return out;
}

/// 1 / v, to 1 ulp; 0 where that is denormal.
__device__ __forceinline__ float reciprocal_fast(float v) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
  return out;
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

/// Starts copying 16 bytes to shared memory; zeros where not valid (nothing is read then).
__device__ __forceinline__ void copy_async_16(void* to_shared, const void* from_global,
                                              bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
               "l"(__cvta_generic_to_global(from_global)), "r"(valid ? 16 : 0)
               : "memory");
}
/// Ends a group of copies.
__device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most N of this thread's youngest groups are under way. Others see the bytes after
/// the next sync_block().
template <int N>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Four 8x8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8, and
/// gets of matrix i in r[i] the elements (row l / 4, columns 2 (l % 4) and the next).
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}
/// The same, of each matrix's transpose: (column l / 4, rows 2 (l % 4) and the next).
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared_row))
               : "memory");
}

/// d[16,8] += a[16,16] b[16,8], bf16 in, float32 sums. With g = lane / 4, t = lane % 4:
///   a[0..3] hold rows g, g+8, g, g+8 and columns 2t, 2t, 2t+8, 2t+8 (and the next column each);
///   b[0..1] hold rows 2t, 2t+8 (and the next row each) of column g;
///   d[0..3] are (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
__device__ __forceinline__ void multiply_bf16(float (&d)[4], const uint32_t (&a)[4],
                                              const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Enqueues `kernel` on `s`.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), grid_size grid, int block, size_t shared_bytes,
                   cudaStream_t s, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  if (shared_bytes > 48 * 1024) {  // a property of the kernel, which other threads launch as well
    const cudaError_t allowed = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(max_shared_bytes));
    if (allowed != cudaSuccess) return allowed;
  }
  kernel<<<dim3(grid.x, grid.y, grid.z), dim3(static_cast<unsigned>(block)), shared_bytes, s>>>(
      std::forward<Arguments>(arguments)...);
  return cudaGetLastError();
}

}  // namespace troupe::gpu::cuda

#include "gpu/cuda/simt_device_groups.hpp"  // IWYU pragma: export
